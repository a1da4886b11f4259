"""The control tables: the sessions, transactions and locks of their records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from penstock.backends.api.execution.records import Kind, Row
from penstock.backends.mssql.catalog.tables import creation_mark
from penstock.backends.mssql.connection import LOCK_TIMEOUT, Connection
from penstock.backends.mssql.dialect import MSSQL
from penstock.backends.mssql.errors import INTEGRITY, DriverError, translated
from penstock.backends.mssql.load.locks import (
    EXCLUSIVE,
    SESSION,
    SHARED,
    are_free,
    release,
    try_lock,
    wait_for,
)
from penstock.backends.mssql.session import MssqlSession
from penstock.backends.sql.server.named_locks import LockRecords
from penstock.backends.sql.server.records import CONTROL, KEYS, ControlScripts
from penstock.model.tables import TableRef

# How long a session waits for a lock on the target while others wait for it.
LOCK_MS = 5_000
# Per statement; the server accepts 2,100.
MOST_VALUES = 2_000


def _names_of(schema: str) -> dict[str, str]:
    name = MSSQL.ident(schema)
    return {
        "make": MSSQL.literal(f"CREATE SCHEMA {name}"),
    }


SCRIPTS = ControlScripts(__package__, MSSQL, _names_of)
ddl = SCRIPTS.control


class MssqlRecords(LockRecords[MssqlSession]):
    """Records in the control tables of SQL Server."""

    scheme = "mssql"
    schema_word = "schema"
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

    def keep(self, name: str) -> bool:
        return try_lock(self.connection, name, owner=SESSION)

    def is_held(self, names: Sequence[str]) -> bool:
        return not are_free(self.connection, names)

    def release(self, name: str) -> None:
        release(self.connection, name)

    def wait_for(self, name: str, seconds: float, subject: str, *, shared: bool = False) -> None:
        wait_for(self.connection, name, seconds, subject, mode=SHARED if shared else EXCLUSIVE)

    # The tables

    @contextmanager
    def limited_lock_waits(self) -> Iterator[None]:
        """Wait only briefly for locks in the block: others queue behind a session that waits."""
        self.connection.change(f"SET LOCK_TIMEOUT {LOCK_MS}")
        try:
            yield
        finally:
            with suppress(DriverError):  # the session may have ended
                self.connection.change(LOCK_TIMEOUT)

    grants = "GRANT SELECT, INSERT, UPDATE, DELETE ON SCHEMA::{} TO the user"

    def denial_message(self, error: Exception) -> str:
        return error.words if isinstance(error, DriverError) else ""

    def add(self, kind: Kind, rows: Sequence[Row]) -> int:
        if len(rows) < 2 or kind is Kind.COMMIT:
            return sum(self._add(kind, row) for row in rows)
        most = max(1, MOST_VALUES // len(rows[0]))
        return sum(
            self._add_many(kind, rows[first : first + most]) for first in range(0, len(rows), most)
        )

    def _add_many(self, kind: Kind, rows: Sequence[Row]) -> int:
        """Insert rows whose keys do not exist yet.

        Two sessions insert the same key only if a batch is executed twice; the resulting error
        causes a retry.
        """
        values: list[Any] = []
        tuples = ", ".join(
            f"({', '.join(self._value(name, value, values) for name, value in row.items())})"
            for row in rows
        )
        listed = ", ".join(map(self.ident, rows[0]))
        table = self.table_name(kind.value)
        test = " AND ".join(f"o.{self.ident(name)} = v.{self.ident(name)}" for name in KEYS[kind])
        with translated("target", CONTROL):
            return self.connection.change(
                f"INSERT INTO {table} ({listed}) SELECT {listed} FROM (VALUES {tuples})"
                f" AS v ({listed}) WHERE NOT EXISTS (SELECT 1 FROM {table} AS o"
                f" WITH (UPDLOCK, HOLDLOCK) WHERE {test})",
                values,
            )

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
            f"INSERT INTO {self.table_name(kind.value)} ({', '.join(map(self.ident, row))})"
            f" SELECT {', '.join(listed)} WHERE NOT EXISTS (SELECT 1 FROM"
            f" {self.table_name(kind.value)} WITH (UPDLOCK, HOLDLOCK) WHERE {' OR '.join(tests)})"
        )
        with translated("target", CONTROL):
            try:
                return self.connection.change(statement, values)
            except DriverError as error:
                # Babelfish does not keep this lock: another session may have inserted a row, which
                # is visible now.
                if error.state != INTEGRITY or self.connection.rows("SELECT @@TRANCOUNT") != [(0,)]:
                    raise
                return self.connection.change(statement, values)

    # Transactions

    def begin(self) -> None:
        self.connection.change("BEGIN TRANSACTION")

    def commit(self) -> None:
        self.connection.change("COMMIT TRANSACTION")

    def roll_back(self) -> None:
        with suppress(DriverError):  # the session may have ended
            self.connection.change("IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION")

    # Attempts

    def holds(self, token: str) -> bool:
        return (
            self.connection.change(
                f"UPDATE {self.table_name('stage')} SET {self.sign} WHERE token = ? AND owner = 1",
                [token],
            )
            == 1
        )

    def stage_table(self, token: str) -> str:
        return self.session.table(TableRef(self.schema, f"stage {token}"))

    def drop_stage(self, token: str) -> None:
        """Drop a stage.

        One that is still locked is left to the next sweep.
        """
        self.connection.change("SET LOCK_TIMEOUT 500")
        try:
            self.connection.change(f"DROP TABLE IF EXISTS {self.stage_table(token)}")
            self.connection.change(
                f"DELETE FROM {self.table_name('stage')} WHERE token = ?", [token]
            )
        finally:
            self.connection.change(LOCK_TIMEOUT)

    # The table that is loaded

    def creation_mark(self, table: TableRef) -> str:
        return creation_mark(self.session, table)

    def creation_time(self, mark: str) -> str:
        return mark.partition(":")[2]
