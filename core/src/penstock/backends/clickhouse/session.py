"""A server's tables, as the SQL kit asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing

import pyarrow as pa

from penstock.backends.clickhouse.connection import Connection
from penstock.backends.clickhouse.dialect import CLICKHOUSE
from penstock.backends.clickhouse.errors import planning, translated
from penstock.backends.clickhouse.types import ChType, parse
from penstock.backends.sql.dialect import Type, raw
from penstock.backends.sql.server.session import ServerSession
from penstock.backends.sql.session import Row
from penstock.model.tables import TableRef


class ClickHouseSession(ServerSession):
    """See `Session`."""

    connection: Connection
    dialect = CLICKHOUSE
    catalog = ""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.side = connection.side

    def search_path(self) -> tuple[str, ...]:
        return (self.connection.database,)

    def translated(self, subject: str = "") -> AbstractContextManager[None]:
        return translated(self.side, subject)

    def stream(self, query: str, subject: str) -> Iterator[Row]:
        with planning(self.side, subject), closing(self.connection.stream(query)) as found:
            for batch in pa.ipc.open_stream(found):
                yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    def describe(self, query: str, subject: str) -> list[tuple[str, Type]]:
        found = self.fetch(f"DESCRIBE TABLE {raw(query)}", subject)
        return [(name, parse(type_)) for name, type_, *_ in found]

    def check(self, query: str, subject: str) -> None:
        self.fetch(f"EXPLAIN {query}", subject)

    # Tables

    def uuid(self, table: TableRef) -> str:
        """What a table keeps when it is renamed; empty where there is none of that name."""
        found = self.facts(
            "SELECT toString(uuid) FROM system.tables"
            " WHERE database = {p2:String} AND name = {p3:String}",
            table,
        )
        return str(found[0][0]) if found else ""

    def type_named(self, text: str, subject: str) -> ChType:
        """A type that somebody wrote.

        Raises:
            PlanningError: the server has none of that name.
        """
        literal = self.dialect.literal(text)
        query = f"SELECT toTypeName(defaultValueOfTypeName({literal}))"
        return parse(str(self.fetch(query, subject)[0][0]))
