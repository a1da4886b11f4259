"""Records on a server with named locks, held until a session or its transaction ends."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from penstock.backends.api.execution.records import Hold
from penstock.backends.sql.server.records import CONTROL
from penstock.backends.sql.server.session import InterruptibleSession
from penstock.backends.sql.server.stages import StageRecords, StageRow
from penstock.errors import Diagnosis, TransientError
from penstock.model.tables import TableRef

S = TypeVar("S", bound=InterruptibleSession)
T = TypeVar("T")
LOOK_EVERY = 0.2
MAKING_SECONDS = 60


class LockRecords(StageRecords[S]):
    """Records whose transactions and attempts exclude each other by named locks of the server."""

    steps_with_records = True

    # For subclasses

    @abstractmethod
    def wait_for(self, name: str, seconds: float, subject: str, *, shared: bool = False) -> None:
        """Take a lock that belongs to the transaction.

        Args:
            name: the name of the lock.
            seconds: the timeout; 0 for none.
            subject: the locked thing, for messages.
            shared: whether other transactions may share it.

        Raises:
            StallError: others hold the lock for longer.
        """

    @abstractmethod
    def release(self, name: str) -> None:
        """Release a lock of the session."""

    # Locks

    def release_all(self, names: Sequence[str]) -> None:
        for name in names:
            self.release(name)

    @contextmanager
    def holding(self, name: str, subject: str) -> Iterator[None]:
        with self.transaction():
            self._wait(name, subject)
            yield

    @contextmanager
    def making(self) -> Iterator[None]:
        with self.transaction():
            self.wait_for(self.lock("penstock:control"), MAKING_SECONDS, CONTROL)
            yield

    @contextmanager
    def exclusive(self, run_id: str, step_id: str = "") -> Iterator[None]:
        yield  # steps are transactions

    def hold_run(self, run_id: str, *, shared: bool = True) -> None:
        """Prevent a restart of the run until the transaction ends, as attempts that commit do."""
        self._wait(self.lock(f"penstock:run:{run_id}"), f"run {run_id}", shared=shared)

    def hold_loads(self, table: TableRef, seconds: float) -> None:
        """Keep attempts of all runs from loading a table until the transaction ends."""
        self.wait_for(self.lock(f"penstock:load:{table}"), seconds, f"table {table}")

    def hold_making(self, table: TableRef) -> None:
        """Keep other runs from creating missing objects until the transaction ends.

        If two created the same object, one of them would fail.
        """
        self._wait(self.lock("penstock:making"), f"table {table}")

    def _wait(self, name: str, subject: str, *, shared: bool = False) -> None:
        self.wait_for(name, self.patience.stall_timeout, subject, shared=shared)

    # Transactions

    def joins(self, run_ids: Sequence[str]) -> bool:
        return bool(self.batch_id)

    def transact(
        self,
        run_id: str,
        body: Callable[[], T],
        hold: Hold = Hold.CHANGE,
        partition_ids: Sequence[str] = (),
        patience: float = 0,
    ) -> T:
        with self.session.translated(f"run {run_id}"), self.transaction():
            self._wait_for_attempts(run_id, partition_ids, patience)
            self._hold_for(run_id, hold)
            if hold is Hold.ALONE:
                # From here on the work of the run's open attempts no longer counts.
                self.void({"run_id": run_id})
            return body()

    def transact_all(self, run_ids: Sequence[str], body: Callable[[], T], hold: Hold) -> T:
        with self.session.translated(f"{len(run_ids)} runs"), self.transaction():
            # Lock in a fixed order, so that two batches cannot deadlock.
            for run_id in sorted(run_ids):
                self._hold_for(run_id, hold)
            return body()

    def _hold_for(self, run_id: str, hold: Hold) -> None:
        whole = hold in (Hold.CHANGE, Hold.NOTE, Hold.ALONE)
        self.hold_run(run_id, shared=not whole)
        if not whole:
            name = self.lock(f"penstock:committed:{run_id}")
            self._wait(name, f"commit records of run {run_id}", shared=hold is Hold.STEP)

    # Attempts: each has a lock named after its token as long as it lives

    def new_token(self, before: str) -> str:
        if before:
            self.release(self.lock(before))
        token = super().new_token(before)
        return token if self.keep(self.lock(token)) else ""

    def is_alive(self, stage: StageRow) -> bool:
        return self.is_held([self.lock(stage.token)])

    @contextmanager
    def guarding(self, run_id: str, partition_id: str) -> Iterator[None]:
        with self.transaction():
            self._guard_partition(run_id, partition_id)
            yield

    def _guard_partition(self, run_id: str, partition_id: str) -> None:
        """Keep others from looking up a partition's owner until the transaction ends."""
        name = self.lock(f"penstock:{run_id}:{partition_id}")
        self._wait(name, f"partition {partition_id} of run {run_id}")

    def _wait_for_attempts(
        self, run_id: str, partition_ids: Sequence[str], patience: float
    ) -> None:
        """Keep attempts of some partitions from beginning, and wait for open ones."""
        until = time.monotonic() + patience
        for partition_id in partition_ids:
            self._guard_partition(run_id, partition_id)
            mine: dict[str, Any] = {"run_id": run_id, "partition_id": partition_id}
            while self.owners(mine):
                if time.monotonic() >= until:
                    raise TransientError(
                        f"target: run {run_id}: an attempt of partition {partition_id} has been "
                        f"open for more than {patience:g} s; try again once it has ended",
                        Diagnosis(side="target"),
                    )
                time.sleep(LOOK_EVERY)
