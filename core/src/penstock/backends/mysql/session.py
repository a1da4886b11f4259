"""A session, as the SQL kit asks it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import pymysql

from penstock.backends.mysql.connection import Connection
from penstock.backends.mysql.dialect import MySqlDialect
from penstock.backends.mysql.errors import planning, translated
from penstock.backends.mysql.types import type_of
from penstock.backends.sql.dialect import Type, raw
from penstock.backends.sql.server.session import ServerSession
from penstock.backends.sql.session import Row

BATCH = 1000


class MySqlSession(ServerSession):
    """See `Session`."""

    connection: Connection
    catalog = "def"

    def __init__(self, connection: Connection, dialect: MySqlDialect) -> None:
        self.connection = connection
        self.dialect = dialect
        self.side = connection.side

    def search_path(self) -> tuple[str, ...]:
        ((database,),) = self.fetch("SELECT database()", "database")
        return (database,) if database else ()

    def translated(self, subject: str = "") -> AbstractContextManager[None]:
        return translated(self.side, subject)

    def stream(self, query: str, subject: str) -> Iterator[Row]:
        with (
            planning(self.side, subject),
            self.connection.cursor(pymysql.cursors.SSCursor) as cursor,
        ):
            cursor.execute(query)
            while found := cursor.fetchmany(BATCH):
                yield from found

    def describe(self, query: str, subject: str) -> list[tuple[str, Type]]:
        with planning(self.side, subject), self.connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {raw(query)} AS described LIMIT 0")
            return [(field.name, type_of(field)) for field in cursor._result.fields]

    def explain(self, query: str) -> list[dict[str, Any]]:
        """The planner's table, in which columns differ between versions."""
        with (
            planning(self.side, "estimate"),
            self.connection.cursor(pymysql.cursors.DictCursor) as cursor,
        ):
            table = "" if self.connection.is_mariadb else "FORMAT=TRADITIONAL "
            cursor.execute(f"EXPLAIN {table}{query}")
            return list(cursor.fetchall())

    def check(self, query: str, subject: str) -> None:
        with planning(self.side, subject):
            self.connection.change(f"PREPARE penstock_check FROM {self.dialect.literal(query)}")
            self.connection.change("DEALLOCATE PREPARE penstock_check")
