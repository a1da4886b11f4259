"""Sessions of SQLite for the SQL kit."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from urllib.parse import quote

from penstock.backends.sql.catalog.catalog_facts import TableQuery
from penstock.backends.sql.dialect import Type
from penstock.backends.sql.one_file.database import OneFile
from penstock.backends.sql.one_file.functions import FUNCTIONS, Total
from penstock.backends.sql.one_file.session import DriverSession
from penstock.errors import Diagnosis, PermanentError, PlanningError, TransientError
from penstock.model.tables import TableRef

from .dialect import SQLITE

_TYPES = TableQuery(
    "x.name, x.type",
    "main.sqlite_master AS m JOIN pragma_table_xinfo(m.name, 'main') AS x",
    "'main'",
    "m.name",
    "x.hidden <> 1",
    "x.cid",
)
_PASSING = (
    *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR),
    sqlite3.SQLITE_INTERRUPT,
)


@contextmanager
def translated(
    side: str, subject: str, lasting: type[PermanentError] = PermanentError
) -> Iterator[None]:
    """Turn SQLite's errors into Penstock's."""
    try:
        yield
    except sqlite3.Error as error:
        # The lowest byte of an extended code is its kind.
        transient = getattr(error, "sqlite_errorcode", 0) & 0xFF in _PASSING
        kind = TransientError if transient else lasting
        raise kind(f"{side}: {subject}: {error}", Diagnosis(side=side)) from error


def connect(path: str, side: str, mode: str, patience: float = 60.0) -> SqliteSession:
    """Open a connection.

    Args:
        mode: `ro` to read, `rw` to write.
        patience: seconds to wait for other writers, or to keep others from writing.
    """
    if not os.path.exists(path):
        raise PlanningError(f"{side}: expected an SQLite database, found no file {path}")
    with translated(side, path, PlanningError):
        connection = sqlite3.connect(
            f"file:{quote(path)}?mode={mode}",
            uri=True,
            timeout=patience or 1e6,
            isolation_level=None,
            check_same_thread=False,
        )
        for name, count, function in FUNCTIONS:
            connection.create_function(name, count, function, deterministic=True)
        connection.create_aggregate("penstock_total", 1, Total)  # type: ignore[arg-type]
        return SqliteSession(connection, side)


class SqliteSession(DriverSession):
    connection: sqlite3.Connection
    dialect = SQLITE
    catalog = "main"

    def planning(self, subject: str) -> AbstractContextManager[None]:
        return translated(self.side, subject, PlanningError)

    def search_path(self) -> tuple[str, ...]:
        return ("main",)

    def translated(self, subject: str) -> AbstractContextManager[None]:
        return translated(self.side, subject)

    def describe_all(
        self, tables: Sequence[TableRef]
    ) -> Mapping[TableRef, Sequence[tuple[str, Type]]]:
        found: dict[TableRef, Sequence[tuple[str, Type]]] = {
            table: [(name, _affinity(declared)) for name, declared in rows]
            for table, rows in self.about_all(_TYPES, tables).items()
        }
        untyped = [table for table, columns in found.items() if not all(t for _, t in columns)]
        return {**found, **super().describe_all(untyped)}

    def describe(self, query: str, subject: str) -> list[tuple[str, Type]]:
        """Return columns with declared types; a computed one has the type of its first value."""
        self.fetch(f"CREATE TEMP VIEW penstock_described AS {query}", subject)
        try:
            found = self.fetch("SELECT name, type FROM pragma_table_info('penstock_described')", "")
            return [(name, _affinity(type_) or self._first(name, subject)) for name, type_ in found]
        finally:
            self.fetch("DROP VIEW temp.penstock_described", subject)

    def _first(self, name: str, subject: str) -> str:
        column = SQLITE.ident(name)
        query = f"SELECT upper(typeof({column})) FROM temp.penstock_described"
        found = self.fetch(f"{query} WHERE {column} IS NOT NULL LIMIT 1", subject)
        return str(found[0][0]) if found else "TEXT"


class SqliteFile(OneFile):
    """A file as a target, opened briefly for each use."""

    dialect = SQLITE

    def control_table(self, schema: str, name: str) -> TableRef:
        return TableRef("main", f"{schema}.{name}")

    @contextmanager
    def _opened(self, mode: str, begin: str) -> Iterator[SqliteSession]:
        opening = connect(self.path, "target", mode, self.patience)
        with closing(opening) as session, self.interruptible(session.connection):
            session.run(begin)
            yield session  # without a commit, closing the connection rolls back

    def reading(self) -> AbstractContextManager[SqliteSession]:
        return self._opened("ro", "BEGIN")

    def writing(self) -> AbstractContextManager[SqliteSession]:
        return self._opened("rw", "BEGIN IMMEDIATE")


def _affinity(declared: str) -> str:
    """Follow https://www.sqlite.org/datatype3.html#determination_of_column_affinity"""
    name = declared.upper()
    parts = {"INT": "INTEGER", "CHAR": "TEXT", "TEXT": "TEXT", "REAL": "REAL", "DOUB": "REAL"}
    return next((affinity for part, affinity in parts.items() if part in name), name)
