"""The connection to the target's control store: it reconnects when the target restarts."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from penstock.backends.api.execution.control import ControlStore
from penstock.backends.api.target import TargetCatalog
from penstock.errors import (
    NoHolder,
    Overtaken,
    PenstockError,
    StallError,
    Superseded,
    TargetBusy,
    TransientError,
)
from penstock.model.tables import TableRef
from penstock.spec.worker_spec import Patience
from penstock.workers.backoff import backoff, backoff_wait

T = TypeVar("T")

# A restarting server is back by then; later, `status` still shows the run's state.
RECONNECT_SECONDS = 60.0


class ControlLink:
    """A link to the control store that tries to reconnect for a while if the connection is lost.

    Args:
        target: an open catalog; the code that opened it closes it.
        connect: opens another one.
        patience: how long to wait for sessions that block.
        batch_id: see `ControlStore.batch_id`.
    """

    def __init__(
        self,
        target: TargetCatalog,
        connect: Callable[[], TargetCatalog],
        patience: Patience,
        batch_id: str = "",
    ) -> None:
        self._target = target
        self._connect = connect
        self._reconnected: TargetCatalog | None = None
        self._entered: dict[str, TableRef] = {}
        self._batch_id = batch_id
        self.catalog.control.batch_id = batch_id
        self._closed = False
        self.set_patience(patience)

    @property
    def batch_id(self) -> str:
        """The batch that the runs belong to; empty if there is none."""
        return self._batch_id

    def set_patience(self, patience: Patience) -> None:
        """Change the patience."""
        self._patience = patience
        self.catalog.control.patience = patience

    def reconnect(self) -> TargetCatalog:
        """Open another catalog, which the caller closes."""
        catalog = self._connect()
        catalog.control.patience = self._patience
        catalog.control.batch_id = self._batch_id
        return catalog

    @property
    def catalog(self) -> TargetCatalog:
        """The catalog of the current session."""
        return self._reconnected or self._target

    def call(self, call: Callable[[ControlStore], T]) -> T:
        """Call the control store, reconnecting if needed.

        Raises:
            TransientError: the server stays unreachable.
            NoHolder, Overtaken, StallError, Superseded, TargetBusy: immediately.
        """
        try:
            return call(self.catalog.control)
        except TransientError as error:
            if not is_of_the_connection(error):
                raise
        return self._call_again(call)

    def _call_again(self, call: Callable[[ControlStore], T]) -> T:
        from tenacity import Retrying, retry_if_exception, stop_after_delay  # noqa: PLC0415 - seldom

        time.sleep(backoff(1))
        for attempt in Retrying(
            retry=retry_if_exception(self._may_pass),
            wait=backoff_wait(),
            stop=stop_after_delay(RECONNECT_SECONDS),
            reraise=True,
        ):
            with attempt:
                self.drop()
                return call(self.catalog.control)
        raise AssertionError("unreachable")

    def _may_pass(self, error: BaseException) -> bool:
        # An abandoned thread must not register as one that executes the run.
        return is_of_the_connection(error) and not self._closed

    def enter_all(
        self,
        tables: Mapping[str, TableRef],
        check: Callable[[str, Sequence[str]], None],
    ) -> Mapping[str, PenstockError]:
        """Register this process as executing runs, and again after each reconnect.

        Args:
            tables: the target's tables, by run.
            check: gets the id of a run and those of other runs on its table, and raises
                `TargetBusy` if one is in the way.

        Returns:
            the errors that `check` raised, by run.
        """
        failed = self.call(lambda control: control.presence.enter(tables, check))
        self._entered |= {run: table for run, table in tables.items() if run not in failed}
        return failed

    def leave_all(self, run_ids: Sequence[str]) -> None:
        """Record that this process needs nothing more from these runs."""
        entered = {run: self._entered.pop(run) for run in run_ids if run in self._entered}
        with contextlib.suppress(PenstockError):
            self.catalog.control.presence.leave(entered)

    def is_committed(self, run_id: str, partition_id: str) -> bool:
        """Whether the target has the partition's commit record; False if it does not answer.

        It is asked only once: the next attempt asks again.
        """
        try:
            records = self.catalog.control.commits.of([run_id])[run_id]
        except TransientError:
            self.drop()
            return False
        return any(record.partition_id == partition_id for record in records)

    def cancel(self) -> None:
        """Cancel any statement on the connection, and continue with a new connection."""
        self.catalog.close()
        self.drop()

    def drop(self) -> None:
        """Replace the session by a new one, if the server can be reached."""
        with contextlib.suppress(PenstockError):
            if self._reconnected is not None:
                self._reconnected.close()
            if self._closed:
                return
            self._reconnected = self.reconnect()
            self._reconnected.control.presence.enter(self._entered, _allow)

    def close(self) -> None:
        """Close the session, unless it is the caller's."""
        self._closed = True
        if self._reconnected is not None:
            self._reconnected.close()


def _allow(run_id: str, other_run_ids: Sequence[str]) -> None:
    """Let a run continue that was registered before; attempts notice what others did since."""


def is_of_the_connection(error: BaseException) -> bool:
    """Whether a new connection may help."""
    return isinstance(error, TransientError) and not isinstance(
        error, NoHolder | Overtaken | StallError | Superseded | TargetBusy
    )
