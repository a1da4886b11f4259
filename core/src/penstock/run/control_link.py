"""The connection to the target's control store, which may be lost when the target restarts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_delay

from penstock.backends.api.control import ControlStore
from penstock.backends.api.target import TargetCatalog
from penstock.errors import (
    NoHolder,
    PenstockError,
    StallError,
    Superseded,
    TargetBusy,
    TransientError,
)
from penstock.model.tables import TableRef
from penstock.spec.worker_spec import Patience
from penstock.workers.supervisor import BACKOFF

T = TypeVar("T")

# A server that restarts is back by then; after it, the run's state can still be had by `status`.
RECONNECT_SECONDS = 60.0


class ControlLink:
    """Speaks to the control store, and connects again for a while where that is lost.

    Parameters:
        target: a catalog that is open; its opener closes it.
        connect: opens another one.
        patience: with others that are in the way.
    """

    def __init__(
        self, target: TargetCatalog, connect: Callable[[], TargetCatalog], patience: Patience
    ) -> None:
        self._target = target
        self._connect = connect
        self._reconnected: TargetCatalog | None = None
        self._entered: dict[str, TableRef] = {}
        self.be(patience)

    def be(self, patience: Patience) -> None:
        """Have so much patience from now on."""
        self._patience = patience
        self.catalog.control.patience = patience

    def reconnect(self) -> TargetCatalog:
        """Open another catalog, which the caller closes."""
        catalog = self._connect()
        catalog.control.patience = self._patience
        return catalog

    @property
    def catalog(self) -> TargetCatalog:
        return self._reconnected or self._target

    def call(self, call: Callable[[ControlStore], T]) -> T:
        """
        Raises:
            TransientError: the server stays away.
            NoHolder, StallError, Superseded, TargetBusy: at once.
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

    def enter(self, run_id: str, table: TableRef, check: Callable[[Sequence[str]], None]) -> None:
        """Say that this process executes the run, also after the connection was made again.

        Raises:
            TargetBusy: what `check` raises.
        """
        self.call(lambda control: control.enter(run_id, table, check))
        self._entered[run_id] = table

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
            for run_id, table in self._entered.items():
                self._reconnected.control.enter(run_id, table, _allow)

    def close(self) -> None:
        if self._reconnected is not None:
            self._reconnected.close()


def _allow(others: Sequence[str]) -> None:
    """Who was there before may go on; attempts notice what others have done meanwhile."""


def _is_of_the_connection(error: BaseException) -> bool:
    return isinstance(error, TransientError) and not isinstance(
        error, NoHolder | StallError | Superseded | TargetBusy
    )
