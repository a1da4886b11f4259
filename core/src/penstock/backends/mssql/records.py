"""The control tables: sessions, transactions and locks of the records that are kept in them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from penstock.backends.api.records import Hold, Kind, Row
from penstock.backends.mssql.catalog.tables import made_at
from penstock.backends.mssql.connection import LOCK_TIMEOUT, Connection
from penstock.backends.mssql.dialect import MSSQL
from penstock.backends.mssql.errors import INTEGRITY, DriverError, translated
from penstock.backends.mssql.locks import (
    EXCLUSIVE,
    SESSION,
    SHARED,
    are_free,
    release,
    try_lock,
    wait_for,
)
from penstock.backends.mssql.session import MssqlSession
from penstock.backends.sql.server.records import CONTROL, KEYS, ControlScripts
from penstock.backends.sql.server.stages import StageRecords, StageRow
from penstock.errors import Diagnosis, TransientError
from penstock.model.tables import TableRef

# What a session waits for a lock on the target, while others wait for it.
LOCK_MS = 5_000
T = TypeVar("T")
LOOK_EVERY = 0.2
# Of one statement; the server takes 2,100.
MOST_VALUES = 2_000
MAKING_SECONDS = 60


def _named(schema: str) -> dict[str, str]:
    name = MSSQL.ident(schema)
    return {
        "journal": MSSQL.literal(f"{name}.journal"),
        "make": MSSQL.literal(f"CREATE SCHEMA {name}"),
    }


SCRIPTS = ControlScripts(__package__, MSSQL, _named)
ddl = SCRIPTS.control


class MssqlRecords(StageRecords[MssqlSession]):
    steps_with_records = True
    scheme = "mssql"
    kept_in = "schema"
    listing = "SELECT name FROM sys.tables WHERE schema_id = SCHEMA_ID(?)"
    scripts = SCRIPTS

    def __init__(self, session: MssqlSession, schema: str, *, loading: bool = False) -> None:
        super().__init__(session, schema, loading=loading)
        self.now = "CONVERT(nvarchar(40), SYSUTCDATETIME(), 121) + '+00:00'"
        self.text = "nvarchar(40)"

    @property
    def connection(self) -> Connection:
        return self._session.connection

    # Locks

    @contextmanager
    def holding(self, name: str, what: str) -> Iterator[None]:
        with self.transaction():
            self._wait(name, what, EXCLUSIVE)
            yield

    def keep(self, name: str) -> bool:
        return try_lock(self.connection, name, owner=SESSION)

    def is_held(self, names: Sequence[str]) -> bool:
        return not are_free(self.connection, names)

    # The tables

    @contextmanager
    def making(self) -> Iterator[None]:
        with self.transaction():
            wait_for(self.connection, self.lock("penstock:control"), MAKING_SECONDS, CONTROL)
            yield

    @contextmanager
    def hurried(self) -> Iterator[None]:
        """Who waits for a lock has others wait: so not for long."""
        self.connection.change(f"SET LOCK_TIMEOUT {LOCK_MS}")
        try:
            yield
        finally:
            with suppress(DriverError):  # of a session that has ended
                self.connection.change(LOCK_TIMEOUT)

    grants = "GRANT SELECT, INSERT, UPDATE, DELETE ON SCHEMA::{} TO the user"

    def denied(self, error: Exception) -> str:
        return error.words if isinstance(error, DriverError) else ""

    def add(self, kind: Kind, rows: Sequence[Row]) -> int:
        if len(rows) < 2 or kind is Kind.COMMIT:
            return sum(self._add(kind, row) for row in rows)
        most = max(1, MOST_VALUES // len(rows[0]))
        return sum(
            self._add_many(kind, rows[first : first + most]) for first in range(0, len(rows), most)
        )

    def _add_many(self, kind: Kind, rows: Sequence[Row]) -> int:
        """Those whose key is not there yet; two never come with the same keys at the same time but
        where a batch is executed twice: then an error has it tried again."""
        values: list[Any] = []
        tuples = ", ".join(
            f"({', '.join(self._value(name, value, values) for name, value in row.items())})"
            for row in rows
        )
        listed = ", ".join(map(self.ident, rows[0]))
        table = self.named(kind.value)
        test = " AND ".join(f"o.{self.ident(name)} = v.{self.ident(name)}" for name in KEYS[kind])
        with translated("target", CONTROL):
            return self.connection.change(
                f"INSERT INTO {table} ({listed}) SELECT {listed} FROM (VALUES {tuples})"
                f" AS v ({listed}) WHERE NOT EXISTS (SELECT 1 FROM {table} AS o"
                f" WITH (UPDLOCK, HOLDLOCK) WHERE {test})",
                values,
            )

    def joins(self, run_ids: Sequence[str]) -> bool:
        return bool(self.batch_id)

    def transact_all(self, run_ids: Sequence[str], body: Callable[[], T], hold: Hold) -> T:
        with translated("target", f"{len(run_ids)} runs"), self.transaction():
            # Always in the same order, so that two batches cannot deadlock.
            for run_id in sorted(run_ids):
                self._hold_for(run_id, hold)
            return body()

    def _hold_for(self, run_id: str, hold: Hold) -> None:
        whole = hold in (Hold.CHANGE, Hold.ALONE)
        self.hold_run(run_id, EXCLUSIVE if whole else SHARED)
        if not whole:
            mode = SHARED if hold is Hold.STEP else EXCLUSIVE
            name = self.lock(f"penstock:committed:{run_id}")
            self._wait(name, f"commit records of run {run_id}", mode)

    def _add(self, kind: Kind, row: Row) -> int:
        # An error would end the transaction.
        if kind is Kind.COMMIT:
            row = {**row, "series_key": row["series"] or f"run {row['run_id']}"}
        values: list[Any] = []
        listed = [self._value(name, value, values) for name, value in row.items()]
        keys: list[tuple[str, ...]] = [KEYS[kind]]
        if kind is Kind.COMMIT:
            keys.append(("series_key", "partition_id"))
        tests = [
            " AND ".join(
                f"{self.ident(name)} = {self._value(name, row[name], values)}" for name in names
            )
            for names in keys
        ]
        statement = (
            f"INSERT INTO {self.named(kind.value)} ({', '.join(map(self.ident, row))})"
            f" SELECT {', '.join(listed)} WHERE NOT EXISTS (SELECT 1 FROM"
            f" {self.named(kind.value)} WITH (UPDLOCK, HOLDLOCK) WHERE {' OR '.join(tests)})"
        )
        with translated("target", CONTROL):
            try:
                return self.connection.change(statement, values)
            except DriverError as error:
                # Babelfish keeps no such lock: somebody may have come between, and be found now.
                if error.state != INTEGRITY or self.connection.rows("SELECT @@TRANCOUNT") != [(0,)]:
                    raise
                return self.connection.change(statement, values)

    # Transactions

    def begin(self) -> None:
        self.connection.change("BEGIN TRANSACTION")

    def commit(self) -> None:
        self.connection.change("COMMIT TRANSACTION")

    def roll_back(self) -> None:
        with suppress(DriverError):  # of a session that has ended
            self.connection.change("IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION")

    def transact(
        self,
        run_id: str,
        body: Callable[[], T],
        hold: Hold = Hold.CHANGE,
        partition_ids: Sequence[str] = (),
        patience: float = 0,
    ) -> T:
        with translated("target", f"run {run_id}"), self.transaction():
            self._wait_for_attempts(run_id, partition_ids, patience)
            self._hold_for(run_id, hold)
            if hold is Hold.ALONE:
                # What the run's open attempts do is void from here on.
                self.void({"run_id": run_id})
            return body()

    def hold_run(self, run_id: str, mode: str) -> None:
        """As an attempt does it when it commits: meanwhile the run cannot be started over."""
        self._wait(self.lock(f"penstock:run:{run_id}"), f"run {run_id}", mode)

    def hold_loads(self, table: TableRef, seconds: float) -> None:
        """Keep attempts of all runs from loading a table until the transaction ends."""
        wait_for(self.connection, self.lock(f"penstock:load:{table}"), seconds, f"table {table}")

    def hold_making(self, table: TableRef) -> None:
        """Keep other runs from making what is missing until the transaction ends: two that make the
        same would fail one of them."""
        self._wait(self.lock("penstock:making"), f"table {table}", EXCLUSIVE)

    def _wait(self, name: str, what: str, mode: str) -> None:
        wait_for(self.connection, name, self.patience.stall_timeout, what, mode=mode)

    def _wait_for_attempts(
        self, run_id: str, partition_ids: Sequence[str], patience: float
    ) -> None:
        """Keep attempts of some partitions from beginning; those that are open are waited for."""
        until = time.monotonic() + patience
        for partition_id in partition_ids:
            self.guard_partition(run_id, partition_id)
            while self.owners({"run_id": run_id, "partition_id": partition_id}):
                if time.monotonic() >= until:
                    raise TransientError(
                        f"target: run {run_id}: an attempt of partition {partition_id} is open "
                        f"for more than {patience:g} s; try again once it has ended",
                        Diagnosis(side="target"),
                    )
                time.sleep(LOOK_EVERY)

    # Attempts: each has a lock by its token's name as long as it lives

    def new_token(self, before: str) -> str:
        if before:
            release(self.connection, self.lock(before))
        token = super().new_token(before)
        return token if try_lock(self.connection, self.lock(token), owner=SESSION) else ""

    @contextmanager
    def guarding(self, run_id: str, partition_id: str) -> Iterator[None]:
        with self.transaction():
            self.guard_partition(run_id, partition_id)
            yield

    def guard_partition(self, run_id: str, partition_id: str) -> None:
        """Keep others from looking whose a partition is, until the transaction ends."""
        name = self.lock(f"penstock:{run_id}:{partition_id}")
        self._wait(name, f"partition {partition_id} of run {run_id}", EXCLUSIVE)

    def is_alive(self, stage: StageRow) -> bool:
        return not are_free(self.connection, [self.lock(stage.token)])

    def holds(self, token: str) -> bool:
        return (
            self.connection.change(
                f"UPDATE {self.named('stage')} SET {self.sign} WHERE token = ? AND owner = 1",
                [token],
            )
            == 1
        )

    def stage_table(self, token: str) -> str:
        return self.session.table(TableRef(self.schema, f"stage {token}"))

    def drop_stage(self, token: str) -> None:
        """One that is still locked stays for the next sweep."""
        self.connection.change("SET LOCK_TIMEOUT 500")
        try:
            self.connection.change(f"DROP TABLE IF EXISTS {self.stage_table(token)}")
            self.connection.change(f"DELETE FROM {self.named('stage')} WHERE token = ?", [token])
        finally:
            self.connection.change(LOCK_TIMEOUT)

    # The table that is loaded

    def made_at(self, table: TableRef) -> str:
        return made_at(self.session, table)

    def when_made(self, made: str) -> str:
        return made.partition(":")[2]

    @contextmanager
    def alone(self, run_id: str, step_id: str = "") -> Iterator[None]:
        yield  # steps are transactions
