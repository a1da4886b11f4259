"""Snowflake, or what emulates it, for the contract suite."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import date, time
from decimal import Decimal
from typing import Any

from penstock_testkit import connect_snowflake, is_emulated

from ..database import Database, Places, SqlDatabase
from ..rows import Rows


class Snowflake(SqlDatabase):
    name = "snowflake"
    table = "public.t"
    quote = ""
    made_type = "number(21,0)"

    def __init__(self, url: str) -> None:
        self.url = url

    @classmethod
    @contextmanager
    def opened(cls, places: Places) -> Iterator[Database]:
        with places.snowflake() as url:
            yield cls(url)

    @property
    def source(self) -> Mapping[str, Any]:
        # The emulator has no time travel.
        return {**super().source, "snapshot": "none"} if is_emulated(self.url) else super().source

    def insert_all(self, cursor: Any, statement: str, rows: Rows) -> None:
        # The driver binds times as numbers, which the emulator rounds, and decimals, which it does
        # not know.
        for row in rows.rows:
            values = [str(v) if isinstance(v, date | time | Decimal) else v for v in row]
            cursor.execute(statement, values)

    def connected(self) -> AbstractContextManager[Any]:
        return closing(connect_snowflake(self.url))

    def everything(self) -> list[str]:
        with self.connected() as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT table_schema || '.' || table_name || ' ' || created"
                " FROM information_schema.tables WHERE table_schema <> 'INFORMATION_SCHEMA'"
            )
            return sorted(name for (name,) in cursor.fetchall())
