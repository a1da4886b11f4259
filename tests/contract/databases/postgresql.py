"""PostgreSQL for the contract suite."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psycopg

from ..database import Database, Places, SqlDatabase


class PostgreSQL(SqlDatabase):
    name = "postgresql"
    table = "public.t"
    place = "%s::{}"
    statements_elsewhere = (
        "counted in tests/backends/postgresql: test_many_tables, test_many_targets"
    )
    made_type = "numeric"

    def __init__(self, url: str) -> None:
        self.url = url

    @classmethod
    @contextmanager
    def opened(cls, places: Places) -> Iterator[Database]:
        with places.server() as url:
            yield cls(url)

    def connected(self) -> AbstractContextManager[Any]:
        return psycopg.connect(self.url)

    def everything(self) -> list[str]:
        with psycopg.connect(self.url) as connection:
            rows = connection.execute(
                "SELECT format('%s %s %s', relkind, oid::regclass, relfilenode) FROM pg_class"
                " WHERE relnamespace::regnamespace::text !~ '^(pg_|information_schema)'"
            ).fetchall()
        return sorted(name for (name,) in rows)
