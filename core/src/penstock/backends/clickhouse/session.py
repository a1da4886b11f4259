"""A server's tables for the shared SQL code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from penstock.backends.clickhouse.connection import Connection
from penstock.backends.clickhouse.dialect import CLICKHOUSE
from penstock.backends.clickhouse.errors import translated
from penstock.backends.clickhouse.types import ChType, parse
from penstock.backends.sql.catalog.catalog_facts import TableQuery
from penstock.backends.sql.dialect import Type, raw
from penstock.backends.sql.server.session import InterruptibleSession
from penstock.model.tables import TableRef

_UUID = TableQuery("toString(uuid)", "system.tables", "database", "name")
_TYPES = TableQuery("name, type", "system.columns", "database", "table", order="position")


class ClickHouseSession(InterruptibleSession):
    """See `Session`."""

    connection: Connection
    dialect = CLICKHOUSE
    catalog = ""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.side = connection.side

    @property
    def server(self) -> str:
        return ""  # tables have UUIDs

    def search_path(self) -> tuple[str, ...]:
        return (self.connection.database,)

    def translated(self, subject: str = "") -> AbstractContextManager[None]:
        return translated(self.side, subject)

    def describe(self, query: str, subject: str) -> list[tuple[str, Type]]:
        columns = self.fetch(f"DESCRIBE TABLE {raw(query)}", subject)
        return [(name, parse(type_)) for name, type_, *_ in columns]

    def describe_all(
        self, tables: Sequence[TableRef]
    ) -> Mapping[TableRef, Sequence[tuple[str, Type]]]:
        if len(tables) == 1:
            return super().describe_all(tables)
        columns = self.about_all(_TYPES, tables)
        return {
            table: [(name, parse(type_)) for name, type_ in rows] for table, rows in columns.items()
        }

    def hold(self, values: Mapping[str, str]) -> None:
        self.connection.query_parameters = {**self.connection.query_parameters, **values}

    def check(self, query: str, subject: str) -> None:
        self.fetch(f"EXPLAIN {query}", subject)

    # Tables

    def uuid(self, table: TableRef) -> str:
        """Return a table's UUID, which stays when it is renamed; empty if it does not exist."""
        uuids = self.about_all(_UUID, [table])[table]
        return str(uuids[0][0]) if uuids else ""

    def cached_uuid(self, table: TableRef) -> str:
        """Return a table's UUID, from known facts if possible."""
        uuids = self.about(_UUID, table)
        return str(uuids[0][0]) if uuids else ""

    def resolve_type(self, type_text: str, subject: str) -> ChType:
        """Return a type that the user wrote.

        Raises:
            PlanningError: the server has no type of that name.
        """
        literal = self.dialect.literal(type_text)
        query = f"SELECT toTypeName(defaultValueOfTypeName({literal}))"
        return parse(str(self.once(query, subject)[0][0]))
