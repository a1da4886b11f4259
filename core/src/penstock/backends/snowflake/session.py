"""A session for the shared SQL code."""

from __future__ import annotations

from contextlib import AbstractContextManager

from penstock.backends.shared.attempts.refusals import as_planning
from penstock.backends.snowflake.catalog.names import swapped
from penstock.backends.snowflake.connection import Connection
from penstock.backends.snowflake.dialect import SNOWFLAKE
from penstock.backends.snowflake.errors import translated
from penstock.backends.snowflake.types import type_of
from penstock.backends.sql.dialect import Type
from penstock.backends.sql.server.session import InterruptibleSession
from penstock.backends.sql.session import Row
from penstock.model.tables import TableRef


class SnowflakeSession(InterruptibleSession):
    """See `Session`."""

    connection: Connection
    dialect = SNOWFLAKE

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.side = connection.side
        self.moment = ""
        """As of which tables are read; empty: now."""

    @property
    def catalog(self) -> str:
        return self.connection.database

    @property
    def server(self) -> str:
        account = self.connection.host.partition(".")[0].lower()
        return f"{account}/{self.catalog}"

    def table(self, table: TableRef) -> str:
        name = self.dialect.table(table)
        if not self.moment:
            return name
        return f"{name} AT (TIMESTAMP => CAST('{self.moment}' AS TIMESTAMP_TZ))"

    def facts(self, query: str, table: TableRef) -> list[Row]:
        names = [self.catalog, swapped(table.schema), swapped(table.name)]
        return self.fetch(query, f"table {table}", names)

    def in_catalog(self, table: TableRef) -> TableRef:
        return TableRef(swapped(table.schema), swapped(table.name))

    def search_path(self) -> tuple[str, ...]:
        return (swapped(self.connection.schema),)

    def translated(self, subject: str = "") -> AbstractContextManager[None]:
        return translated(self.side, subject)

    def describe(self, query: str, subject: str) -> list[tuple[str, Type]]:
        with as_planning(), self.translated(subject):
            columns = self.connection.described(query)
        return [(swapped(column.name), type_of(column)) for column in columns]
