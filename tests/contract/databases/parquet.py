"""Parquet files in a folder for the contract suite."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.parquet as pq

from ...plain_rows import plain
from ..database import Database, Places, in_folder
from ..rows import Row, Rows


class Parquet(Database):
    name = "parquet"
    table = None
    needs_table = False
    statements_elsewhere = "its URL is one table: there is no batch"
    made_type = "decimal128(30, 0)"

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "lake"
        self.url = f"file://{self._folder}/"

    @classmethod
    def opened(cls, places: Places) -> AbstractContextManager[Database]:
        return in_folder(cls, places)

    @property
    def source(self) -> dict[str, str]:
        return {"source": f"{self.url}*.parquet"}

    @property
    def target(self) -> dict[str, str]:
        return {"target": self.url}

    def make(self, rows: Rows, key: str = "") -> None:
        """Do nothing: a target of files needs no preparation."""

    def insert(self, rows: Rows) -> None:
        self._folder.mkdir(exist_ok=True)
        table, file_count = rows.arrow(), len(list(self._folder.glob("*.parquet")))
        step = -(-table.num_rows // 3) or 1
        for number, start in enumerate(range(0, max(table.num_rows, 1), step), file_count):
            path = self._folder / f"part-{number}.parquet"
            pq.write_table(table.slice(start, step), path, row_group_size=max(1, step // 4))

    def empty(self, share: int = 1) -> None:
        for path in sorted(self._folder.rglob("*.parquet"))[::share]:
            path.unlink()

    def read(self) -> list[Row]:
        if not list(self._folder.rglob("*.parquet")):
            return []
        found = ds.dataset(self._folder, format="parquet", partitioning="hive").to_table()
        return sorted((plain(row.values()) for row in found.to_pylist()), key=repr)

    def everything(self) -> list[str]:
        return sorted(str(path.relative_to(self._folder)) for path in self._folder.rglob("*"))
