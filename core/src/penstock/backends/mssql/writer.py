"""An attempt on a server: its stage, its locks, and the transaction that loads what is staged."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from penstock.backends.api.attempt import Attempt
from penstock.backends.api.worker import Loaded, Wait
from penstock.backends.mssql.catalog.tables import COLLATION, IDENTITY, table_columns
from penstock.backends.mssql.connection import connect
from penstock.backends.mssql.dialect import MssqlDialect
from penstock.backends.mssql.errors import translated
from penstock.backends.mssql.load.loaded_table import check_loaded
from penstock.backends.mssql.load.stage import BulkStage, sweep
from penstock.backends.mssql.locks import SESSION, SHARED, release, try_lock
from penstock.backends.mssql.records import MssqlRecords
from penstock.backends.mssql.session import MssqlSession
from penstock.backends.shared.background import compute
from penstock.backends.shared.refusals import check_standing
from penstock.backends.shared.staged import StagedWriter
from penstock.backends.sql.loading import SqlLoading
from penstock.errors import Diagnosis, PermanentError, TransientError
from penstock.model.tables import Column
from penstock.spec.worker_spec import WorkerSpec

T = TypeVar("T")


def open_writer(spec: WorkerSpec) -> StagedWriter:
    return StagedWriter(spec, Hooks())


class Loading(SqlLoading[BulkStage]):
    """Transactions that load one table take turns; others read it meanwhile, if it lets them."""

    def __init__(self, records: MssqlRecords, attempt: Attempt, columns: Sequence[Column]) -> None:
        super().__init__(records, attempt)
        self._own = records
        self._orders = {column.name: column.traits[COLLATION] for column in columns}
        self._numbered = any(column.traits[IDENTITY] for column in columns)
        self._loads = attempt.spec.target_table
        self._stage: BulkStage | None = None

    def insert_staged(self, stage: BulkStage, table: str) -> int:
        self._stage = stage
        self._check_open()
        with self._identity_kept():
            count = self._session.run(
                f"INSERT INTO {table} WITH (TABLOCK) ({self._listed}) SELECT {self._listed}"
                f" FROM {stage.table}"
            )
        if count != stage.rows:
            raise PermanentError(
                f"target: {self._loads}: expected {stage.rows:,} rows to be inserted, found "
                f"{count:,}; does an index WITH IGNORE_DUP_KEY, or a trigger, leave some out?",
                Diagnosis(side="target"),
            )
        return count

    def merge(self, attempt: Attempt, stage: BulkStage) -> Loaded:
        utf8 = self._own.connection.utf8
        self._dialect = MssqlDialect(utf8=utf8, texts=stage.texts)
        with self._identity_kept():
            return super().merge(attempt, stage)

    def orders(self, key: Sequence[str]) -> Mapping[str, str]:
        return self._orders

    @contextmanager
    def _identity_kept(self) -> Iterator[None]:
        """Where the server numbers a column by itself, it takes the source's numbers."""
        if not self._numbered:
            yield
            return
        self._session.run(f"SET IDENTITY_INSERT {self._table} ON")
        yield
        self._session.run(f"SET IDENTITY_INSERT {self._table} OFF")

    @contextmanager
    def staged_table(self, stage: BulkStage) -> Iterator[tuple[str, int]]:
        self._stage = stage
        self._check_open()
        ((rows,),) = self._session.fetch(f"SELECT count_big(*) FROM {stage.table}", "stage")
        yield stage.table, int(rows)

    def _check_open(self) -> None:
        """An error ends the transaction; what came after it would be committed at once.

        Raises:
            TransientError: it has ended.
        """
        ((count,),) = self._session.fetch("SELECT @@TRANCOUNT", "transaction")
        if not count:
            raise TransientError(
                "target: expected a transaction that is open, found that the server has ended it",
                Diagnosis(side="target"),
            )

    def check_target(self, attempt: Attempt) -> None:
        spec = attempt.spec
        check_loaded(self._own, spec.run_id, spec.target_table, spec.mode)

    def begin_changes(self, attempt: Attempt) -> None:
        """Nothing is counted: that would read the whole table."""

    def end_changes(self) -> None:
        """As above."""

    def insert_record(self, attempt: Attempt, loaded: Loaded, bytes: int) -> None:
        # From here on nobody starts the run over. What was true before the load may be so no more.
        self._own.hold_run(attempt.spec.run_id, SHARED)
        check_standing(attempt, self.standing(attempt))
        if self._stage is not None:
            self._stage.check_held()
        self.check_target(attempt)
        super().insert_record(attempt, loaded, bytes)

    def commit(self) -> None:
        self._session.run("COMMIT TRANSACTION")


class Hooks:
    """See `StagedHooks`."""

    unseen_bytes = 0

    def __init__(self) -> None:
        self._records: MssqlRecords | None = None
        self._token = ""
        self._place = ("", "")
        self._known: tuple[str, Sequence[Column]] | None = None
        self._spoilt = False
        """An attempt failed on this session, and may have left settings or a lost connection."""

    def _connected(self, spec: WorkerSpec) -> MssqlRecords:
        place = (spec.target, spec.control_schema)
        if self._records is not None and (self._spoilt or place != self._place):
            # Its locks go with it.
            self._records.connection.close()
            self._records, self._token, self._known = None, "", None
        if self._records is None:
            session = MssqlSession(connect(spec.target, "target"))
            self._records = MssqlRecords(session, spec.control_schema, loading=True)
            self._place, self._spoilt = place, False
        return self._records

    def lock(self, attempt: Attempt) -> Mapping[str, object] | None:
        records = self._connected(attempt.spec)
        run_id, partition_id = attempt.spec.run_id, attempt.partition.id
        with translated("target", f"partition {partition_id}"):
            self._release()
            token = secrets.token_hex(16)
            if not try_lock(records.connection, records.lock(token), owner=SESSION):
                return {}
            self._token = token
            with records.transaction():
                records.guard_partition(run_id, partition_id)
                older = records.owner(run_id, partition_id)
                if older is not None:
                    return {older[0]: older[1]}
                stages = records.named("stage")
                records.connection.change(
                    f"UPDATE {stages} SET owner = 0 WHERE run_id = ? AND partition_id = ?",
                    [run_id, partition_id],
                )
                records.connection.change(
                    f"INSERT INTO {stages} VALUES (?, ?, ?, ?, 1, 0)",
                    [token, run_id, partition_id, attempt.number],
                )
            return None

    def _release(self) -> None:
        if self._token and self._records is not None:
            token, self._token = self._token, ""
            release(self._records.connection, self._records.lock(token))

    def end_older(self, attempt: Attempt, older: str) -> None:
        records = self._connected(attempt.spec)
        with translated("target", f"partition {attempt.partition.id}"):
            # It is not the owner any more, so it cannot commit, whenever it wakes up.
            records.connection.change(
                f"UPDATE {records.named('stage')} SET owner = 0 WHERE token = ?", [older]
            )

    def sweep(self) -> None:
        if self._records is not None:
            sweep(self._records, self._token)

    def open_stage(self, attempt: Attempt, wait: Wait) -> BulkStage:
        records = self._connected(attempt.spec)
        return BulkStage(records, attempt, self._token, self._columns(attempt))

    def _columns(self, attempt: Attempt) -> Sequence[Column]:
        """Those that are loaded: looked up once a run, and again after a failure."""
        spec = attempt.spec
        if self._known is None or self._known[0] != spec.run_id:
            found = table_columns(self._connected(spec).session, spec.target_table)
            there = {column.name: column for column in found}
            columns = [there[pair.target] for pair in spec.pairs]
            self._known = spec.run_id, columns
        return self._known[1]

    @contextmanager
    def reading(self, attempt: Attempt) -> Iterator[Loading]:
        with translated("target", f"partition {attempt.partition.id}"):
            yield Loading(self._connected(attempt.spec), attempt, self._columns(attempt))

    @contextmanager
    def writing(self, attempt: Attempt) -> Iterator[Loading]:
        records = self._connected(attempt.spec)
        with translated("target", f"partition {attempt.partition.id}"):
            columns = self._columns(attempt)
            records.connection.change("BEGIN TRANSACTION")
            try:
                records.hold_loads(attempt.spec.target_table, attempt.spec.stall_timeout)
                yield Loading(records, attempt, columns)
            finally:
                records.roll_back()  # nothing is left of it after a commit

    def compute(self, call: Callable[[], T], wait: Wait) -> T:
        return compute(call, "target", wait, self.interrupt)

    def interrupt(self) -> None:
        self._spoilt = True
        if self._records is not None:
            self._records.connection.interrupt()
