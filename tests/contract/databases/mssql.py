"""SQL Server for the contract suite."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import date
from functools import cached_property
from typing import Any

from penstock_testkit import connect_mssql

from ..database import Database, Places, SqlDatabase
from ..rows import Rows


class MSSQL(SqlDatabase):
    name = "mssql"
    table = "dbo.t"
    statements_elsewhere = "SQL Server's statements are those of the driver, which is not counted"
    made_type = "decimal(20,0)"
    finds_texts = False

    def __init__(self, url: str) -> None:
        self.url = url

    @classmethod
    @contextmanager
    def opened(cls, places: Places) -> Iterator[Database]:
        with places.mssql() as url:
            yield cls(url)

    @property
    def source(self) -> Mapping[str, Any]:
        # Babelfish has no database snapshots.
        return {**super().source, "snapshot": "none"} if self._is_babelfish else super().source

    @cached_property
    def _is_babelfish(self) -> bool:
        with self.connected() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT CAST(SERVERPROPERTY('Babelfish') AS int)")
            return bool(cursor.fetchone()[0])

    @property
    def lacks(self) -> Collection[str]:
        return ("blocks",) if self._is_babelfish else ()

    @property
    def hashes_texts(self) -> bool:
        # Checksums of texts need a UTF-8 collation.
        with self.connected() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT COLLATIONPROPERTY('Latin1_General_100_BIN2_UTF8', 'CodePage')")
            return cursor.fetchone()[0] is not None

    def connected(self) -> AbstractContextManager[Any]:
        return closing(connect_mssql(self.url))

    def insert_all(self, cursor: Any, statement: str, rows: Rows) -> None:
        # The driver uses the first rows' sizes for all rows, and rejects days before 1753.
        for row in rows.rows:
            cursor.execute(statement, [str(v) if type(v) is date else v for v in row])

    def everything(self) -> list[str]:
        with self.connected() as connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT s.name + '.' + o.name + ' ' + CAST(o.object_id AS varchar(20)) FROM"
                " sys.objects AS o JOIN sys.schemas AS s ON s.schema_id = o.schema_id"
                " WHERE o.type = 'U' AND o.is_ms_shipped = 0"
            )
            return sorted(name for (name,) in cursor.fetchall())
