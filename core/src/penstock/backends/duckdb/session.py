"""A session of DuckDB, as the SQL kit asks it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from duckdb import DuckDBPyConnection

from penstock.backends.duckdb.connection import catalog_name, full_name
from penstock.backends.duckdb.dialect import DUCKDB
from penstock.backends.duckdb.errors import planning
from penstock.backends.sql.dialect import Type
from penstock.backends.sql.session import Row
from penstock.model.tables import TableRef

# Rows of a stream that are held at once.
BATCH = 1000


class DuckSession:
    """
    Parameters:
        connection: its session's zone is UTC; see `connection.configure`.
    """

    dialect = DUCKDB

    def __init__(self, connection: DuckDBPyConnection, side: str) -> None:
        self.connection = connection
        self.side = side

    @cached_property
    def catalog(self) -> str:
        return catalog_name(self.connection, self.side)

    def table(self, table: TableRef) -> str:
        return full_name(self.catalog, table)

    def fetch(self, query: str, subject: str) -> list[Row]:
        with planning(self.side, subject):
            return self.connection.execute(query).fetchall()

    def facts(self, query: str, table: TableRef) -> list[Row]:
        """What the catalog says of a table: `$1` to `$3` are its database, schema and name."""
        with planning(self.side, f"table {table}"):
            names = [self.catalog, table.schema, table.name]
            return self.connection.execute(query, names).fetchall()

    def stream(self, query: str, subject: str) -> Iterator[Row]:
        return streamed(self.connection.cursor(), query, self.side, subject)

    def describe(self, query: str, subject: str) -> list[tuple[str, Type]]:
        with planning(self.side, subject):
            found = self.connection.sql(query)
            return list(zip(found.columns, found.types, strict=True))

    def check(self, query: str, subject: str) -> None:
        self.fetch(f"EXPLAIN {query}", subject)


def streamed(connection: DuckDBPyConnection, query: str, side: str, subject: str) -> Iterator[Row]:
    """The rows of a query.

    Parameters:
        connection: for this alone; it is closed at the end.
    """
    try:
        with planning(side, subject):
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute(query)
            while found := connection.fetchmany(BATCH):
                yield from found
    finally:
        connection.close()
