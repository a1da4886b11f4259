"""An attempt on Snowflake: its stage, its claim on the partition, and its transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.backends.api.execution.attempt import Attempt
from penstock.backends.api.execution.records import Kind
from penstock.backends.shared.attempts.refusals import record_missing
from penstock.backends.shared.attempts.staged import StagedWriter
from penstock.backends.snowflake.connection import connect
from penstock.backends.snowflake.load.stage import UploadStage
from penstock.backends.snowflake.records import SnowflakeRecords
from penstock.backends.snowflake.session import SnowflakeSession
from penstock.backends.sql.server.writer import ServerHooks, ServerLoading
from penstock.spec.modes import Entry
from penstock.spec.worker_spec import WorkerSpec


def open_writer(spec: WorkerSpec) -> StagedWriter:
    """Open a worker's writer to Snowflake."""
    return StagedWriter(spec, SnowflakeHooks())


class SnowflakeLoading(ServerLoading[SnowflakeRecords, UploadStage]):
    """A loading. Files of several partitions load in parallel; only their records take turns.

    Args:
        changing: whether the transaction changes the table, which is then checked before the end.
    """

    def __init__(self, records: SnowflakeRecords, attempt: Attempt, *, changing: bool) -> None:
        super().__init__(records, attempt)
        self._changing = changing

    def insert_staged(self, stage: UploadStage, table: str) -> int:
        return stage.copy_into(table)

    @contextmanager
    def staged_table(self, stage: UploadStage) -> Iterator[tuple[str, int]]:
        yield stage.table, stage.rows

    def check_target(self, attempt: Attempt) -> None:
        if not self._changing:  # each statement is a round trip
            super().check_target(attempt)

    def begin_changes(self, attempt: Attempt) -> None:
        # Recording changes for other runs locks them, so the transaction first takes its turn like
        # all others.
        if attempt.spec.load_mode.entry is Entry.REPLACE:
            self._stage_records.guard()

    def hold_run(self) -> None:
        self._stage_records.guard()

    def commit(self) -> None:
        super().commit()
        # COMMIT reports no error if the server has ended the transaction.
        mine = {"run_id": self._attempt.spec.run_id, "partition_id": self._attempt.partition.id}
        if not self._stage_records.count(Kind.COMMIT, mine):
            raise record_missing(self._attempt)


class SnowflakeHooks(ServerHooks[SnowflakeRecords, UploadStage]):
    """The parts of a staged writer that only Snowflake has."""

    def connect(self, spec: WorkerSpec) -> SnowflakeRecords:
        session = SnowflakeSession(connect(spec.target, "target"))
        return SnowflakeRecords(session, spec.control_schema, loading=True)

    def stage(self, records: SnowflakeRecords, attempt: Attempt, token: str) -> UploadStage:
        return UploadStage(records, attempt, token)

    def loading(
        self, records: SnowflakeRecords, attempt: Attempt, *, changing: bool
    ) -> SnowflakeLoading:
        return SnowflakeLoading(records, attempt, changing=changing)
