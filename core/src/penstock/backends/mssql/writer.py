"""An attempt on a server: its stage, its locks, and the transaction that loads the stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from penstock.backends.api.execution.attempt import Attempt
from penstock.backends.api.worker import LoadResult
from penstock.backends.mssql.catalog.tables import COLLATION, IDENTITY, table_columns
from penstock.backends.mssql.connection import connect
from penstock.backends.mssql.dialect import MssqlDialect
from penstock.backends.mssql.load.stage import BulkStage
from penstock.backends.mssql.records import MssqlRecords
from penstock.backends.mssql.session import MssqlSession
from penstock.backends.shared.attempts.staged import StagedWriter
from penstock.backends.sql.server.writer import ServerHooks, ServerLoading
from penstock.errors import Diagnosis, PermanentError, TransientError
from penstock.model.tables import Column
from penstock.spec.worker_spec import WorkerSpec


def open_writer(spec: WorkerSpec) -> StagedWriter:
    """Open a worker's writer to SQL Server."""
    return StagedWriter(spec, MssqlHooks())


class MssqlLoading(ServerLoading[MssqlRecords, BulkStage]):
    """Transactions that load one table take turns; others can read it if it allows that."""

    def __init__(self, records: MssqlRecords, attempt: Attempt, columns: Sequence[Column]) -> None:
        super().__init__(records, attempt)
        self._orders = {column.name: column.traits[COLLATION] for column in columns}
        self._numbered = any(column.traits[IDENTITY] for column in columns)

    def insert_staged(self, stage: BulkStage, table: str) -> int:
        self._check_open()
        with self._identity_insert():
            count = self._session.run(
                f"INSERT INTO {table} WITH (TABLOCK) ({self._listed}) SELECT {self._listed}"
                f" FROM {stage.table}"
            )
        if count != stage.rows:
            raise PermanentError(
                f"target: {self._attempt.spec.target_table}: expected to insert {stage.rows:,} "
                f"rows, inserted {count:,}; check for an index WITH IGNORE_DUP_KEY, or a trigger, "
                "that skips rows",
                Diagnosis(side="target"),
            )
        return count

    def merge(self, attempt: Attempt, stage: BulkStage) -> LoadResult:
        utf8 = self._stage_records.connection.utf8
        self._dialect = MssqlDialect(utf8=utf8, texts=stage.texts)
        with self._identity_insert():
            return super().merge(attempt, stage)

    def orders(self, key: Sequence[str]) -> Mapping[str, str]:
        return self._orders

    @contextmanager
    def _identity_insert(self) -> Iterator[None]:
        """Insert the source's numbers into a column that the server numbers."""
        if not self._numbered:
            yield
            return
        self._session.run(f"SET IDENTITY_INSERT {self._table} ON")
        yield
        self._session.run(f"SET IDENTITY_INSERT {self._table} OFF")

    @contextmanager
    def staged_table(self, stage: BulkStage) -> Iterator[tuple[str, int]]:
        self._check_open()
        ((rows,),) = self._session.fetch(f"SELECT count_big(*) FROM {stage.table}", "stage")
        yield stage.table, int(rows)

    def _check_open(self) -> None:
        """Check that the transaction is open.

        After an error ended it, later statements would commit at once.

        Raises:
            TransientError: the transaction has ended.
        """
        ((count,),) = self._session.fetch("SELECT @@TRANCOUNT", "transaction")
        if not count:
            raise TransientError(
                f"target: {self._attempt.spec.target_table}: expected an open transaction, found "
                "that the server had ended it",
                Diagnosis(side="target"),
            )

    def hold_run(self) -> None:
        self._stage_records.hold_run(self._attempt.spec.run_id)


class MssqlHooks(ServerHooks[MssqlRecords, BulkStage]):
    """The parts of a staged writer that only SQL Server has."""

    def __init__(self) -> None:
        super().__init__()
        self._run_columns: tuple[str, Sequence[Column]] | None = None

    def connect(self, spec: WorkerSpec) -> MssqlRecords:
        session = MssqlSession(connect(spec.target, "target"))
        return MssqlRecords(session, spec.control_schema, loading=True)

    def forget(self) -> None:
        self._run_columns = None

    def stage(self, records: MssqlRecords, attempt: Attempt, token: str) -> BulkStage:
        return BulkStage(records, attempt, token, self._columns(records, attempt))

    def loading(self, records: MssqlRecords, attempt: Attempt, *, changing: bool) -> MssqlLoading:
        return MssqlLoading(records, attempt, self._columns(records, attempt))

    def hold(self, records: MssqlRecords, attempt: Attempt) -> None:
        records.hold_loads(attempt.spec.target_table, attempt.spec.stall_timeout)

    def _columns(self, records: MssqlRecords, attempt: Attempt) -> Sequence[Column]:
        """Return the loaded columns, looked up once per run, and again after a failure."""
        spec = attempt.spec
        if self._run_columns is None or self._run_columns[0] != spec.run_id:
            columns = table_columns(records.session, spec.target_table)
            by_name = {column.name: column for column in columns}
            self._run_columns = spec.run_id, [by_name[pair.target] for pair in spec.pairs]
        return self._run_columns[1]
