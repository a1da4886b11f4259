"""The control tables: sessions, transactions and locks of the records that are kept in them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.resources import files
from typing import Any, TypeVar

from penstock.backends.api.records import Hold, Kind, Row
from penstock.backends.mssql.connection import LOCK_TIMEOUT, Connection
from penstock.backends.mssql.dialect import MSSQL
from penstock.backends.mssql.errors import INTEGRITY, DriverError, translated
from penstock.backends.mssql.locks import (
    EXCLUSIVE,
    SESSION,
    SHARED,
    are_free,
    try_lock,
    wait_for,
)
from penstock.backends.mssql.session import MssqlSession
from penstock.backends.sql.server.records import CONTROL, ServerRecords
from penstock.errors import Diagnosis, TransientError
from penstock.model.tables import TableRef

# What a session waits for a lock on the target, while others wait for it.
LOCK_MS = 5_000
T = TypeVar("T")
_KEYS = {
    Kind.RUN: ("run_id",),
    Kind.COMMIT: ("run_id", "partition_id"),
    Kind.STEP: ("run_id", "step_id"),
    Kind.RECOPY: ("run_id", "partition_id", "request"),
    Kind.JOURNAL: ("run_id", "execution_id"),
}
LOOK_EVERY = 0.2
# Of one statement; the server takes 2,100.
MOST_VALUES = 2_000
MAKING_SECONDS = 60
_EXACT = "COLLATE Latin1_General_BIN2"


def ddl(schema: str) -> str:
    """The statements that create the control tables."""
    return f"{_script('control.sql', schema)};\n{_script('figures.sql', schema)}"


def _script(script: str, schema: str) -> str:
    text = files(__package__).joinpath(script).read_text(encoding="utf-8").rstrip()
    name = MSSQL.ident(schema)
    return text.format(
        schema=name,
        text=MSSQL.literal(schema),
        journal=MSSQL.literal(f"{name}.journal"),
        make=MSSQL.literal(f"CREATE SCHEMA {name}"),
        name="nvarchar",
        long="nvarchar(max)",
        exact=_EXACT,
    )


class MssqlRecords(ServerRecords):
    steps_with_records = True
    scheme = "mssql"
    kept_in = "schema"
    listing = "SELECT name FROM sys.tables WHERE schema_id = SCHEMA_ID(?)"
    besides = ("stage",)

    def __init__(self, session: MssqlSession, schema: str, *, loading: bool = False) -> None:
        super().__init__(session, schema, loading=loading)
        self._session = session
        self._open = False
        self.now = "CONVERT(nvarchar(40), SYSUTCDATETIME(), 121) + '+00:00'"
        self.text = "nvarchar(40)"

    @property
    def session(self) -> MssqlSession:
        return self._session

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

    def ddl(self) -> str:
        return ddl(self._schema)

    def figures_ddl(self) -> str:
        return _script("figures.sql", self._schema)

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
        test = " AND ".join(f"o.{self.ident(name)} = v.{self.ident(name)}" for name in _KEYS[kind])
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
        keys: list[tuple[str, ...]] = [_KEYS[kind]]
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

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.connection.change("BEGIN TRANSACTION")
        try:
            yield
            self.connection.change("COMMIT TRANSACTION")
        except BaseException:
            self.roll_back()
            raise

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
                self.connection.change(
                    f"UPDATE {self.named('stage')} SET owner = 0 WHERE run_id = ?", [run_id]
                )
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
            while self.owner(run_id, partition_id) is not None:
                if time.monotonic() >= until:
                    raise TransientError(
                        f"target: run {run_id}: an attempt of partition {partition_id} is open "
                        f"for more than {patience:g} s; try again once it has ended",
                        Diagnosis(side="target"),
                    )
                time.sleep(LOOK_EVERY)

    # Attempts: each has a row in `stage`, and a lock by its token's name as long as it lives.

    def guard_partition(self, run_id: str, partition_id: str) -> None:
        """Keep others from looking whose a partition is, until the transaction ends."""
        name = self.lock(f"penstock:{run_id}:{partition_id}")
        self._wait(name, f"partition {partition_id} of run {run_id}", EXCLUSIVE)

    def owner(self, run_id: str, partition_id: str) -> tuple[str, int] | None:
        """The token of the attempt that owns a partition and lives, and how far it has come."""
        found = self.connection.rows(
            f"SELECT token, beats FROM {self.named('stage')}"
            " WHERE run_id = ? AND partition_id = ? AND owner = 1",
            [run_id, partition_id],
        )
        for token, beats in found:
            if self.is_alive(token):
                return str(token), int(beats)
        return None

    def is_alive(self, token: str) -> bool:
        return not are_free(self.connection, [self.lock(token)])

    @contextmanager
    def alone(self, run_id: str, step_id: str = "") -> Iterator[None]:
        yield  # steps are transactions
