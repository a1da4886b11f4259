"""The connection to the target's control store, which may be lost when the target restarts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_delay

from penstock.backends.base import ControlStore, TargetCatalog
from penstock.errors import NoHolder, PenstockError, Superseded, TransientError
from penstock.supervisor import BACKOFF

T = TypeVar("T")

# A server that restarts is back by then; after it, the run's state can still be had by `status`.
RECONNECT_SECONDS = 60.0


class ControlLink:
    """Speaks to the control store, and connects again for a while where that is lost.

    Parameters:
        target: a catalog that is open; its opener closes it.
        reconnect: opens another one.
    """

    def __init__(self, target: TargetCatalog, reconnect: Callable[[], TargetCatalog]) -> None:
        self._target = target
        self.reconnect = reconnect
        self._reconnected: TargetCatalog | None = None

    @property
    def catalog(self) -> TargetCatalog:
        return self._reconnected or self._target

    def call(self, call: Callable[[ControlStore], T]) -> T:
        """
        Raises:
            TransientError: the server stays away.
            Superseded, NoHolder: at once.
        """
        for attempt in Retrying(
            retry=retry_if_exception(_is_of_the_connection),
            wait=BACKOFF,
            stop=stop_after_delay(RECONNECT_SECONDS),
            reraise=True,
        ):
            with attempt:
                if attempt.retry_state.attempt_number > 1:
                    self.drop()
                return call(self.catalog.control)
        raise AssertionError("unreachable")

    def is_committed(self, run_id: str, partition_id: str) -> bool:
        """Ask once; a server that cannot say is asked again by the next attempt itself."""
        try:
            records = self.catalog.control.committed(run_id)
        except TransientError:
            self.drop()
            return False
        return any(record.partition_id == partition_id for record in records)

    def cancel(self) -> None:
        """Cancel what still runs on the connection, and go on with another one."""
        self.catalog.close()
        self.drop()

    def drop(self) -> None:
        with contextlib.suppress(PenstockError):
            if self._reconnected is not None:
                self._reconnected.close()
            self._reconnected = self.reconnect()

    def close(self) -> None:
        if self._reconnected is not None:
            self._reconnected.close()


def _is_of_the_connection(error: BaseException) -> bool:
    return isinstance(error, TransientError) and not isinstance(error, NoHolder | Superseded)
