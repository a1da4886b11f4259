"""An attempt on a server: its session, its stage, and the transaction that loads the stage."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Generic, TypeVar

from penstock.backends.api.execution.attempt import Attempt, Stage
from penstock.backends.api.worker import LoadResult, Wait
from penstock.backends.shared.attempts.refusals import attempt_ended, check_standing
from penstock.backends.shared.background import compute
from penstock.backends.sql.loads.loading import SqlLoading
from penstock.backends.sql.server.stages import StageRecords
from penstock.spec.worker_spec import WorkerSpec

T = TypeVar("T")
R = TypeVar("R", bound=StageRecords[Any])


class ServerStage(Generic[R]):
    """The part of a `Stage` that is its row in the control tables."""

    beat_seconds: ClassVar[float] = 1.0

    def __init__(self, records: R, attempt: Attempt, token: str) -> None:
        self._records = records
        self._attempt = attempt
        self._token = token
        self._subject = f"target: partition {attempt.partition.id}"
        self._beats_at = 0.0

    def beat(self) -> None:
        """Give a sign of life, unless one was just given."""
        if time.monotonic() >= self._beats_at:
            self._beats_at = time.monotonic() + self.beat_seconds
            with self._records.session.translated("stage"):
                self._records.beat(self._token)

    def check_held(self) -> None:
        if not self._records.holds(self._token):
            raise attempt_ended(self._attempt)


G = TypeVar("G", bound=ServerStage[Any])


class ServerLoading(SqlLoading[G], Generic[R, G]):
    """A loading without row counts, which would read the whole table."""

    def __init__(self, records: R, attempt: Attempt) -> None:
        super().__init__(records, attempt)
        self._stage_records = records
        self._attempt = attempt
        self._stage: G | None = None

    @abstractmethod
    def hold_run(self) -> None:
        """Prevent a restart of the run until the transaction ends."""

    def insert(self, attempt: Attempt, stage: G) -> int:
        self._stage = stage
        return super().insert(attempt, stage)

    def merge(self, attempt: Attempt, stage: G) -> LoadResult:
        self._stage = stage
        return super().merge(attempt, stage)

    def check_target(self, attempt: Attempt) -> None:
        self.check_loaded(0)

    def check_loaded(self, mine: int) -> None:
        """See `StageRecords.check_loaded`."""
        spec = self._attempt.spec
        self._stage_records.check_loaded(spec.run_id, spec.target_table, spec.mode, mine)

    def begin_changes(self, attempt: Attempt) -> None:
        """Do nothing: there is nothing to record."""

    def end_changes(self) -> None:
        """Do nothing: there is nothing to record."""

    def insert_record(self, attempt: Attempt, result: LoadResult, bytes: int) -> None:
        self.hold_run()
        # What held before the load may no longer hold.
        check_standing(attempt, self.standing(attempt))
        if self._stage is not None:
            self._stage.check_held()
        self.check_loaded(result.rows)
        super().insert_record(attempt, result, bytes)

    def commit(self) -> None:
        self._stage_records.commit()


class ServerHooks(ABC, Generic[R, G]):
    """See `StagedHooks`. One session in the target serves many partitions."""

    unseen_bytes = 0

    def __init__(self) -> None:
        self._records: R | None = None
        self._token = ""
        self._place = ("", "")
        self._spoilt = False
        """An attempt failed on this session, and may have left settings, a statement, a transaction
        or a lost connection."""

    # For subclasses

    @abstractmethod
    def connect(self, spec: WorkerSpec) -> R:
        """Open records over a session of their own."""

    @abstractmethod
    def stage(self, records: R, attempt: Attempt, token: str) -> Stage:
        """Return an empty stage.

        Args:
            records: the control tables.
            attempt: the attempt.
            token: shows whether the attempt is alive.
        """

    @abstractmethod
    def loading(self, records: R, attempt: Attempt, *, changing: bool) -> ServerLoading[R, G]:
        """Return the transaction that loads a stage.

        Args:
            records: the control tables.
            attempt: the attempt.
            changing: whether it will change the table.
        """

    def hold(self, records: R, attempt: Attempt) -> None:
        """Keep others from interfering with a transaction that loads a table."""

    def forget(self) -> None:
        """Forget what was learned over the last session, which may no longer hold."""

    # The same for all

    def records(self, spec: WorkerSpec) -> R:
        place = (spec.target, spec.control_schema)
        if self._records is not None and (self._spoilt or place != self._place):
            # Its locks are released with it.
            self._records.session.connection.close()
            self._records, self._token = None, ""
            self.forget()
        if self._records is None:
            self._records = self.connect(spec)
            self._place, self._spoilt = place, False
        return self._records

    def lock(self, attempt: Attempt) -> Mapping[str, object] | None:
        records = self.records(attempt.spec)
        run_id, partition_id = attempt.spec.run_id, attempt.partition.id
        with records.session.translated(f"partition {partition_id}"):
            before, self._token = self._token, ""
            self._token = token = records.new_token(before)
            if not token:
                return {}
            with records.guarding(run_id, partition_id):
                older = records.owners({"run_id": run_id, "partition_id": partition_id})
                if older:
                    return {stage.token: stage.beats for stage in older}
                records.claim(token, attempt)
            return None

    def end_older(self, attempt: Attempt, older: str) -> None:
        records = self.records(attempt.spec)
        with records.session.translated(f"partition {attempt.partition.id}"):
            records.end_attempt(older)

    def sweep(self) -> None:
        if self._records is not None:
            self._records.sweep(self._token)

    def open_stage(self, attempt: Attempt, wait: Wait) -> Stage:
        return self.stage(self.records(attempt.spec), attempt, self._token)

    @contextmanager
    def reading(self, attempt: Attempt) -> Iterator[ServerLoading[R, G]]:
        records = self.records(attempt.spec)
        with records.session.translated(f"partition {attempt.partition.id}"):
            yield self.loading(records, attempt, changing=False)

    @contextmanager
    def writing(self, attempt: Attempt) -> Iterator[ServerLoading[R, G]]:
        records = self.records(attempt.spec)
        with records.session.translated(f"partition {attempt.partition.id}"):
            loading = self.loading(records, attempt, changing=True)
            records.begin()
            try:
                self.hold(records, attempt)
                yield loading
            finally:
                records.roll_back()  # does nothing after a commit

    def compute(self, call: Callable[[], T], wait: Wait) -> T:
        return compute(call, "target", wait, self.interrupt)

    def interrupt(self) -> None:
        self._spoilt = True
        if self._records is not None:
            self._records.session.connection.interrupt()
