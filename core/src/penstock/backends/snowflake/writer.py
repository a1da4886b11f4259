"""An attempt on Snowflake: its stage, its claim on the partition, and the transaction that loads
what is staged."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from penstock.backends.api.attempt import Attempt
from penstock.backends.api.records import Kind
from penstock.backends.api.worker import Loaded, Wait
from penstock.backends.shared.background import compute
from penstock.backends.shared.refusals import check_standing, record_gone
from penstock.backends.shared.staged import StagedWriter
from penstock.backends.snowflake.connection import connect
from penstock.backends.snowflake.errors import translated
from penstock.backends.snowflake.leases import this_process
from penstock.backends.snowflake.load.loaded_table import check_loaded
from penstock.backends.snowflake.load.stage import FileStage, sweep
from penstock.backends.snowflake.records import SnowflakeRecords
from penstock.backends.snowflake.session import SnowflakeSession
from penstock.backends.sql.loading import SqlLoading
from penstock.spec.worker_spec import WorkerSpec

T = TypeVar("T")


def open_writer(spec: WorkerSpec) -> StagedWriter:
    return StagedWriter(spec, Hooks())


class Loading(SqlLoading[FileStage]):
    """Files of several partitions are loaded side by side; only what is recorded takes turns.

    Parameters:
        changing: the transaction changes the table, which is looked at before the end, then.
    """

    def __init__(
        self, records: SnowflakeRecords, attempt: Attempt, *, changing: bool = False
    ) -> None:
        super().__init__(records, attempt)
        self._changing = changing
        self._own = records
        self._attempt = attempt
        self._stage: FileStage | None = None

    def insert_staged(self, stage: FileStage, table: str) -> int:
        self._stage = stage
        return stage.copy_into(table)

    @contextmanager
    def staged_table(self, stage: FileStage) -> Iterator[tuple[str, int]]:
        self._stage = stage
        yield stage.table, stage.rows

    def check_target(self, attempt: Attempt) -> None:
        if not self._changing:  # each statement is a round trip
            self._check_loaded(attempt, 0)

    def _check_loaded(self, attempt: Attempt, mine: int) -> None:
        spec = attempt.spec
        check_loaded(self._own, spec.run_id, spec.target_table, spec.mode, mine)

    def begin_changes(self, attempt: Attempt) -> None:
        # What it notes with other runs locks them: first it has its turn, as everybody else.
        if attempt.spec.load_mode.deletes_by_partition:
            self._own.guard()

    def end_changes(self) -> None:
        """Nothing is noted."""

    def insert_record(self, attempt: Attempt, loaded: Loaded, bytes: int) -> None:
        # From here on nobody starts the run over. What was true before the load may be so no more.
        self._own.guard()
        check_standing(attempt, self.standing(attempt))
        if self._stage is not None:
            self._stage.check_held()
        self._check_loaded(attempt, loaded.rows)
        super().insert_record(attempt, loaded, bytes)

    def commit(self) -> None:
        self._own.commit()
        # COMMIT says nothing where the server has ended the transaction.
        mine = {"run_id": self._attempt.spec.run_id, "partition_id": self._attempt.partition.id}
        if not self._own.count(Kind.COMMIT, mine):
            raise record_gone(self._attempt)


class Hooks:
    """See `StagedHooks`."""

    unseen_bytes = 0

    def __init__(self) -> None:
        self._records: SnowflakeRecords | None = None
        self._token = ""
        self._place = ("", "")
        self._spoilt = False
        """An attempt failed on this session, and may have left a statement or a transaction."""

    def _connected(self, spec: WorkerSpec) -> SnowflakeRecords:
        place = (spec.target, spec.control_schema)
        if self._records is not None and (self._spoilt or place != self._place):
            self._records.connection.close()
            self._records, self._token = None, ""
        if self._records is None:
            session = SnowflakeSession(connect(spec.target, "target"))
            self._records = SnowflakeRecords(session, spec.control_schema, loading=True)
            self._place, self._spoilt = place, False
        return self._records

    def lock(self, attempt: Attempt) -> Mapping[str, object] | None:
        records = self._connected(attempt.spec)
        run_id, partition_id = attempt.spec.run_id, attempt.partition.id
        with translated("target", f"partition {partition_id}"), records.guarded():
            older = {
                token: beats
                for name, _, token, beats, _ in records.owners(run_id)
                if name == partition_id
            }
            if older:
                return older
            records.void({"run_id": run_id, "partition_id": partition_id})
            self._token = secrets.token_hex(16)
            records.connection.change(
                f"INSERT INTO {records.named('stage')} SELECT ?, ?, ?, ?, 1, 0, ?, SYSDATE()",
                [self._token, run_id, partition_id, attempt.number, this_process()],
            )
            return None

    def end_older(self, attempt: Attempt, older: str) -> None:
        records = self._connected(attempt.spec)
        with translated("target", f"partition {attempt.partition.id}"), records.guarded():
            # It is not the owner any more, so it cannot commit, whenever it wakes up.
            records.void({"token": older})

    def sweep(self) -> None:
        if self._records is not None:
            sweep(self._records, self._token)

    def open_stage(self, attempt: Attempt, wait: Wait) -> FileStage:
        return FileStage(self._connected(attempt.spec), attempt, self._token)

    @contextmanager
    def reading(self, attempt: Attempt) -> Iterator[Loading]:
        with translated("target", f"partition {attempt.partition.id}"):
            yield Loading(self._connected(attempt.spec), attempt)

    @contextmanager
    def writing(self, attempt: Attempt) -> Iterator[Loading]:
        records = self._connected(attempt.spec)
        with translated("target", f"partition {attempt.partition.id}"):
            records.begin()
            try:
                yield Loading(records, attempt, changing=True)
            finally:
                records.roll_back()  # nothing is left of it after a commit

    def compute(self, call: Callable[[], T], wait: Wait) -> T:
        return compute(call, "target", wait, self.interrupt)

    def interrupt(self) -> None:
        self._spoilt = True
        if self._records is not None:
            self._records.connection.interrupt()
