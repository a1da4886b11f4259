"""Parquet files in a bucket for tests of pairs, written and read through a folder."""

from __future__ import annotations

import uuid
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from penstock_testkit import S3Server

from ..database import Database, Places, in_folder
from ..rows import Row, Rows
from .parquet import Parquet


class S3(Parquet):
    def __init__(self, folder: Path, server: S3Server) -> None:
        super().__init__(folder)
        self._server = server
        self._bucket = server.create_bucket(f"b-{uuid.uuid4().hex[:12]}")
        self.url = server.url(f"{self._bucket}/lake/")

    @classmethod
    def opened(cls, places: Places) -> AbstractContextManager[Database]:
        return in_folder(partial(cls, server=places.s3()), places)

    @property
    def source(self) -> dict[str, str]:
        return {"source": self._server.url(f"{self._bucket}/lake/*.parquet")}

    def insert(self, rows: Rows) -> None:
        super().insert(rows)
        for path in self._folder.glob("*.parquet"):
            self._server.put(self._bucket, f"lake/{path.name}", path)

    def empty(self, share: int = 1) -> None:
        super().empty()
        keys = [key for key in self.everything() if key.endswith(".parquet")]
        for key in keys[::share]:
            self._server.client.delete_object(Bucket=self._bucket, Key=key)

    def read(self) -> list[Row]:
        self._folder.mkdir(exist_ok=True)
        for key in self.everything():
            if key.endswith(".parquet"):
                path = self._folder / key.rpartition("/")[2]
                path.write_bytes(self._server.read(self._bucket, key))
        return super().read()

    def everything(self) -> list[str]:
        return sorted(self._server.keys(self._bucket, "lake/"))
