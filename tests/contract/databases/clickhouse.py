"""ClickHouse for the contract suite: chdb behind the testkit's front, or an external server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from penstock_testkit import connect_clickhouse

from ...plain_rows import plain
from ..database import Database, Places
from ..rows import Row, Rows


class ClickHouse(Database):
    name = "clickhouse"
    statements = ((90, 115), (12, 22))
    many = 5  # a server in its own process is slow
    made_type = "Decimal(20, 0)"
    recopies = False
    starts_over = False
    sees_executions = False

    def __init__(self, url: str) -> None:
        self.url = url
        self.table = f"{url.rpartition('/')[2]}.t"

    @classmethod
    @contextmanager
    def opened(cls, places: Places) -> Iterator[Database]:
        with places.clickhouse() as url:
            yield cls(url)

    @property
    def _table_name(self) -> str:
        return f"{self.table}".rpartition(".")[2]

    @property
    def source(self) -> Mapping[str, Any]:
        return {**super().source, "snapshot": "none"}

    def execute(self, statement: str) -> None:
        with closing(connect_clickhouse(self.url)) as client:
            client.command(statement)

    def make(self, rows: Rows, key: str = "") -> None:
        columns = [f"`{name}` {self.types[kind].name}" for name, kind in rows.columns.items()]
        with closing(connect_clickhouse(self.url)) as client:
            client.command(
                f"CREATE TABLE {self._table_name} ({', '.join(columns)})"
                " ENGINE = MergeTree ORDER BY tuple()"
            )

    def empty(self, share: int = 1) -> None:
        with closing(connect_clickhouse(self.url)) as client:
            client.command(f"DELETE FROM {self._table_name} WHERE id % {share} = 0")

    def insert(self, rows: Rows) -> None:
        if rows.rows:
            with closing(connect_clickhouse(self.url)) as client:
                client.insert_arrow(self._table_name, rows.arrow(), settings={"async_insert": 0})

    def read(self) -> list[Row]:
        with closing(connect_clickhouse(self.url)) as client:
            found = client.query_arrow(f"SELECT * FROM {self._table_name}", use_strings=True)
        return sorted((plain(row.values()) for row in found.to_pylist()), key=repr)

    def everything(self) -> list[str]:
        with closing(connect_clickhouse(self.url)) as client:
            found = client.query(
                "SELECT name, toString(uuid) FROM system.tables WHERE database = currentDatabase()"
            )
            return sorted(f"{name} {uuid}" for name, uuid in found.result_rows)
