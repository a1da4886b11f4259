"""A session for the shared SQL code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from penstock.backends.mssql.connection import Connection
from penstock.backends.mssql.dialect import MSSQL, OLDER
from penstock.backends.mssql.errors import translated
from penstock.backends.mssql.types import type_of
from penstock.backends.sql.dialect import Type
from penstock.backends.sql.server.queries import Queries
from penstock.backends.sql.server.session import InterruptibleSession
from penstock.backends.sql.session import Row
from penstock.model.tables import TableRef

ONE_TABLE = "FROM (SELECT CAST(? AS int) AS object_id) AS o"
"""The table that a query for `facts` is about."""
CATALOG = Queries("penstock.backends.mssql.catalog", {"table": ONE_TABLE})


class MssqlSession(InterruptibleSession):
    """See `Session`."""

    connection: Connection

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.side = connection.side
        self.dialect = MSSQL if connection.utf8 else OLDER

    @property
    def catalog(self) -> str:
        return self.connection.snapshot or self.connection.database

    @property
    def server(self) -> str:
        ((name,),) = self.once("SELECT @@SERVERNAME", "server")
        return f"{name}/{self.connection.database}"

    def resolve_type(self, type_text: str, subject: str) -> Type:
        return super().resolve_type(type_text.partition(" COLLATE")[0], subject)

    def facts(self, query: str, table: TableRef) -> list[Row]:
        """Return a catalog's rows about a table; the query's value is the table's object id."""
        if self.catalog_facts is not None and ONE_TABLE in query:
            return self.catalog_facts.about(query, table, partial(self._facts_of_many, query))
        return self.facts_of_table(query, table)

    def catalog_rows(self, name: str, table: TableRef) -> list[Row]:
        """Return the answer to a catalog query about a table."""
        return self.facts(CATALOG[name], table)

    def facts_of_table(self, query: str, table: TableRef) -> list[Row]:
        """Return the same for this table alone."""
        number = self._number(table)
        return [] if number is None else self.fetch(query, f"table {table}", [number])

    def _facts_of_many(self, query: str, tables: Sequence[TableRef]) -> dict[TableRef, list[Row]]:
        assert self.catalog_facts is not None
        facts: dict[TableRef, list[Row]] = {table: [] for table in tables}
        numbers = {
            number: each
            for each in tables
            if (number := self.catalog_facts.about("number", each, self._numbers)) is not None
        }
        if numbers:
            for number, *row in self.fetch(query_for_many(query, list(numbers)), "tables"):
                facts[numbers[int(number)]].append(tuple(row))
        return facts

    def _numbers(self, tables: Sequence[TableRef]) -> dict[TableRef, int | None]:
        if len(tables) == 1 or self.connection.babelfish:
            return {table: self._number(table) for table in tables}
        listed = ", ".join("OBJECT_ID(?)" for _ in tables)
        (row,) = self.fetch(f"SELECT {listed}", "tables", list(map(self.table, tables)))
        return dict(zip(tables, row, strict=True))

    def _number(self, table: TableRef) -> int | None:
        # Faster than a search through all objects.
        ((number,),) = self.fetch("SELECT OBJECT_ID(?)", f"table {table}", [self.table(table)])
        if number is None and self.connection.babelfish:
            # It cannot parse every quoted name.
            rows = self.fetch(
                "SELECT o.object_id FROM sys.objects AS o JOIN sys.schemas AS s"
                " ON s.schema_id = o.schema_id WHERE s.name = ? AND o.name = ?",
                f"table {table}",
                [table.schema, table.name],
            )
            number = rows[0][0] if rows else None
        return None if number is None else int(number)

    def search_path(self) -> tuple[str, ...]:
        ((schema,),) = self.fetch("SELECT SCHEMA_NAME()", "schema")
        return tuple(dict.fromkeys((str(schema), "dbo")))

    def translated(self, subject: str = "") -> AbstractContextManager[None]:
        return translated(self.side, subject)

    @contextmanager
    def trial_transaction(self) -> Iterator[None]:
        """Open a transaction that is rolled back."""
        self.connection.change("BEGIN TRANSACTION")
        try:
            yield
        finally:
            self.connection.change("IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION")

    def describe(self, query: str, subject: str) -> list[tuple[str, Type]]:
        # This does not run the query, see
        # https://learn.microsoft.com/en-us/sql/relational-databases/system-stored-procedures/sp-describe-first-result-set-transact-sql
        rows = self.fetch(
            f"EXEC sys.sp_describe_first_result_set @tsql = {self.dialect.literal(query)}", subject
        )
        columns = sorted((row for row in rows if not row[_HIDDEN]), key=lambda row: row[_ORDINAL])
        return [
            (row[_NAME] or "", type_of(row[_TYPE] or row[_CLR], *row[_SIZES])) for row in columns
        ]


def query_for_many(query: str, numbers: Sequence[int]) -> str:
    """Return a query about one table, asked about several.

    Its rows begin with the table's object id.
    """
    verb, selected = ("SELECT", query[len("SELECT") :])
    if selected.startswith(" DISTINCT"):
        verb, selected = "SELECT DISTINCT", selected[len(" DISTINCT") :]
    listed = ", ".join(f"({number:d})" for number in numbers)
    tables = f"FROM (SELECT v.object_id FROM (VALUES {listed}) AS v (object_id)) AS o"
    return f"{verb} o.object_id,{selected.replace(ONE_TABLE, tables, 1)}"


# Columns of the description of a query.
_HIDDEN, _ORDINAL, _NAME, _TYPE, _SIZES, _CLR = 0, 1, 2, 5, slice(6, 9), 13
