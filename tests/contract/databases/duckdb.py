"""DuckDB for the contract suite."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from zlib import crc32

import duckdb
import pyarrow as pa

from ...plain_rows import plain
from ..database import Database, Places, SqlDatabase, in_folder
from ..rows import Row


class DuckDB(SqlDatabase):
    name = "duckdb"
    statements = ((240, 6), (40, 21))
    made_type = "HUGEINT"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "t.duckdb"
        self.url = f"duckdb:///{self._path}"

    @classmethod
    def opened(cls, places: Places) -> AbstractContextManager[Database]:
        return in_folder(cls, places)

    def connected(self) -> AbstractContextManager[Any]:
        return duckdb.connect(str(self._path))

    def read(self) -> list[Row]:
        with duckdb.connect(str(self._path), read_only=True) as connection:
            # In UTC, regardless of the machine's time zone.
            connection.execute("SET TimeZone = 'UTC'")
            found: pa.Table = connection.sql(f"SELECT * FROM {self.table}").to_arrow_table()
        return sorted((plain(row.values()) for row in found.to_pylist()), key=repr)

    def everything(self) -> list[str]:
        files = [path for path in self._folder.rglob("*") if path.is_file()]
        return sorted(
            f"{path.relative_to(self._folder)} {crc32(path.read_bytes())}" for path in files
        )
