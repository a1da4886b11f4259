"""A session of DuckDB for the shared SQL code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from types import MappingProxyType
from typing import Any

import duckdb
from duckdb import DuckDBPyConnection

from penstock.backends.duckdb.catalog.queries import subselect
from penstock.backends.duckdb.dialect import DUCKDB
from penstock.backends.duckdb.errors import planning, translated
from penstock.backends.sql.catalog.relations import read_relations
from penstock.backends.sql.dialect import Type
from penstock.backends.sql.one_file.session import DriverSession
from penstock.backends.sql.session import Row
from penstock.model.tables import TableRef

# Rows of a stream held at once.
BATCH = 1000
# Characters of a query whose common subexpressions are not looked for.
LONG_QUERY = 20_000


class DuckSession(DriverSession):
    """A session over a connection.

    Args:
        connection: a connection with the time zone UTC; see `connection.configure`.
    """

    dialect = DUCKDB

    connection: DuckDBPyConnection
    _stored_values: Mapping[str, str] = MappingProxyType({})

    def planning(self, subject: str) -> AbstractContextManager[None]:
        return planning(self.side, subject)

    def translated(self, subject: str) -> AbstractContextManager[None]:
        return translated(self.side, subject)

    def parenthesized(self, query: str) -> str:
        return subselect(query)

    @cached_property
    def catalog(self) -> str:
        ((name,),) = self.fetch("SELECT current_database()", "database")
        return str(name)

    def table(self, table: TableRef) -> str:
        """Return a table's name with the database.

        Otherwise a schema with the database's name would take precedence.
        """
        return f"{self.dialect.ident(self.catalog)}.{self.dialect.table(table)}"

    def search_path(self) -> tuple[str, ...]:
        """Return the search path, ``main`` by default."""
        ((names,),) = self.fetch("SELECT current_schemas(true)", "search path")
        return tuple(name for name in dict.fromkeys(names) if name != "pg_catalog")

    def hold(self, values: Mapping[str, str]) -> None:
        self._stored_values = {**self._stored_values, **values}
        with self.in_use:
            hold(self.connection, values)

    def _free(self) -> None:
        # It refuses during a call, and is closed with the last reference to it then.
        with suppress(duckdb.Error):
            super()._free()

    def fetch(self, query: str, subject: str, values: Sequence[Any] = ()) -> list[Row]:
        with self.planning(subject), self.in_use:
            plan_quickly(self.connection, query)
        return super().fetch(query, subject, values)

    def run(self, statements: str) -> int:
        with translated(self.side), self.in_use:
            rows = self.connection.execute(statements).fetchall()
        return int(rows[0][0]) if rows else 0

    def stream(self, query: str, subject: str) -> Iterator[Row]:
        return streamed(self.connection.cursor(), query, self.side, subject, self._stored_values)

    def describe_all(
        self, tables: Sequence[TableRef]
    ) -> Mapping[TableRef, Sequence[tuple[str, Type]]]:
        """Describe tables without reading rows: a row is a value whose parts are the columns."""
        if len(tables) == 1:
            return super().describe_all(tables)
        relations = read_relations(self)
        existing = [table for table in tables if table in relations]
        facts = self.about_all(self.dialect.column_facts, existing) if existing else {}
        names = {str(name).lower() for rows in facts.values() for name, *_ in rows}
        row = "penstock_row"  # a column of that name would take precedence
        while row in names:
            row += "_"
        rows = ", ".join(f"(SELECT {row} FROM {self.table(table)} AS {row})" for table in existing)
        structs = self.describe(f"SELECT {rows}", "tables") if existing else []
        columns = {
            table: type_.children for table, (_, type_) in zip(existing, structs, strict=True)
        }
        return {table: columns.get(table, ()) for table in tables}

    def describe(self, query: str, subject: str) -> list[tuple[str, Type]]:
        with planning(self.side, subject), self.in_use:
            relation = self.connection.sql(query)
            return list(zip(relation.columns, relation.types, strict=True))


def streamed(
    connection: DuckDBPyConnection,
    query: str,
    side: str,
    subject: str,
    stored_values: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Row]:
    """Yield the rows of a query.

    Args:
        connection: used for this query alone; closed at the end.
        query: the query.
        side: `source` or `target`.
        subject: the table or query, for error messages.
        stored_values: as for `Session.hold`.
    """
    try:
        with planning(side, subject):
            connection.execute("SET TimeZone = 'UTC'")
            hold(connection, stored_values)
            plan_quickly(connection, query)
            connection.execute(query)
            while rows := connection.fetchmany(BATCH):
                yield from rows
    finally:
        connection.close()


def plan_quickly(connection: DuckDBPyConnection, query: str) -> None:
    """Leave out an optimization that takes minutes for expressions over a thousand columns."""
    if len(query) > LONG_QUERY:
        connection.execute("SET disabled_optimizers = 'common_subexpressions'")


def hold(connection: DuckDBPyConnection, values: Mapping[str, str]) -> None:
    """Store secret texts by name; see `Session.hold`."""
    for name, digits in values.items():
        connection.execute(f"SET VARIABLE penstock_{name} = {DUCKDB.literal(digits)}")
