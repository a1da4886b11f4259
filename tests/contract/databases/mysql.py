"""MySQL or MariaDB for the contract suite."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime, time
from typing import Any

from pymysql.constants import FIELD_TYPE
from pymysql.converters import conversions

from penstock_testkit import connect_mysql

from ..database import Database, Places, SqlDatabase

IN_UTC = "SET time_zone = '+00:00'"
CONVERSIONS = {
    **conversions,
    FIELD_TYPE.TIMESTAMP: lambda text: datetime.fromisoformat(text).replace(tzinfo=UTC),
    FIELD_TYPE.TIME: time.fromisoformat,
}


class MySQL(SqlDatabase):
    name = "mysql"
    quote = "`"
    place = "%s"
    statements_elsewhere = "counted in tests/backends/mysql"
    made_type = "decimal(20,0)"
    scarcely = "?snapshot_sessions=4"

    def __init__(self, url: str) -> None:
        self.url = url
        self._database = url.rpartition("/")[2]
        self.table = f"{self._database}.t"

    @classmethod
    @contextmanager
    def opened(cls, places: Places) -> Iterator[Database]:
        with places.mysql() as url:
            yield cls(url)

    def connected(self) -> AbstractContextManager[Any]:
        return closing(connect_mysql(self.url, conv=CONVERSIONS, init_command=IN_UTC))

    def everything(self) -> list[str]:
        mine = (self._database, "penstock")
        with self.connected() as connection, connection.cursor() as cursor:
            mariadb = "MariaDB" in connection.get_server_info()
            cursor.execute(
                "SELECT schema_name FROM information_schema.schemata WHERE schema_name IN %s"
                " UNION SELECT concat(name, ' ', table_id) FROM information_schema."
                f"{'innodb_sys_tables' if mariadb else 'innodb_tables'}"
                " WHERE substring_index(name, '/', 1) IN %s",
                (mine, mine),
            )
            return sorted(name for (name,) in cursor.fetchall())
