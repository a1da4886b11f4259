"""A `pair` whose target is not a server: files in a folder or a bucket, or a DuckDB file."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow.dataset as ds

from penstock_testkit import S3Server

from .pair import (
    BACKENDS,
    DEFINITION,
    ROWS,
    Pair,
    Side,
    connect,
    execute,
    insert_items,
)

# Columns that every format can carry; jsonb travels as text.
QUERY = "SELECT id, note, amount, at, tags::text, pad FROM item ORDER BY id"
COLUMNS = "id, note, amount, at, tags, pad"

Rows = list[tuple[Any, ...]]


class OutsidePair(Pair):
    """A PostgreSQL source, and a target of another kind."""

    def load(self) -> None:
        execute(self.source, DEFINITION, insert_items(1, ROWS), "ANALYZE item")

    def _route(self, side: Side) -> str:
        return super()._route(side) if side == "source" else self.target

    def rows(self) -> Rows:
        """Return all rows of the target by id, read without Penstock."""
        raise NotImplementedError

    def strays(self) -> list[str]:
        """Return everything that exists and should not."""
        raise NotImplementedError

    def check_content(self) -> None:
        with closing(connect(self.source)) as source:
            expected = source.execute(QUERY).fetchall()
        found = self.rows()
        if found != expected:
            missing = len({row[0] for row in expected} - {row[0] for row in found})
            raise AssertionError(
                f"expected {len(expected):,} rows, found {len(found):,}, {missing:,} missing, "
                f"{len({row[0] for row in found}):,} distinct"
            )
        if strays := self.strays():
            raise AssertionError(f"expected nothing else, found {strays}")

    def backends(self) -> list[str]:
        with psycopg.connect(self.source, autocommit=True) as connection:
            return [f"source {name}" for (name,) in connection.execute(BACKENDS)]


def from_arrow(table: Any) -> Rows:
    return sorted(tuple(row.values()) for row in table.select(COLUMNS.split(", ")).to_pylist())


class FolderPair(OutsidePair):
    def __init__(self, source: str, folder: Path) -> None:
        super().__init__(source, f"{folder}/")
        self.folder = folder

    def rows(self) -> Rows:
        return from_arrow(ds.dataset(self.folder, format="parquet").to_table())

    def strays(self) -> list[str]:
        named = {name for record in self.status().committed for name in record.files}
        files = {str(p.relative_to(self.folder)) for p in self.folder.rglob("*") if p.is_file()}
        remaining = {name for name in files - named if not name.endswith(".json")}
        return sorted(remaining - {"_penstock/lock"})


class BucketPair(OutsidePair):
    def __init__(self, source: str, s3: S3Server, bucket: str, folder: Path) -> None:
        super().__init__(source, s3.url(f"{bucket}/lake/item/"))
        self._s3 = s3
        self._bucket = bucket
        self._folder = folder

    def through(self, address: str) -> None:
        """Make all later runs reach the bucket at this address."""
        self.target = self._s3.url(f"{self._bucket}/lake/item/", endpoint=address)

    def all_keys(self) -> list[str]:
        return self._s3.keys(self._bucket, "lake/item/")

    def rows(self) -> Rows:
        for key in self.all_keys():
            if key.endswith(".parquet"):
                path = self._folder / key.replace("/", "-")
                path.write_bytes(self._s3.read(self._bucket, key))
        return from_arrow(ds.dataset(self._folder, format="parquet").to_table())

    def strays(self) -> list[str]:
        named = {f"lake/item/{f}" for record in self.status().committed for f in record.files}
        keys = set(self._s3.keys(self._bucket, "lake/item/"))
        found = sorted(key for key in keys - named if not key.endswith(".json"))
        return found + [f"upload of {upload['Key']}" for upload in self._s3.uploads(self._bucket)]


class DuckPair(OutsidePair):
    def __init__(self, source: str, path: Path) -> None:
        super().__init__(source, f"duckdb:///{path}")
        self._path = path

    def rows(self) -> Rows:
        with closing(duckdb.connect(str(self._path), read_only=True)) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            return from_arrow(connection.sql("SELECT * FROM public.item").to_arrow_table())

    def strays(self) -> list[str]:
        control_folder = Path(f"{self._path}.penstock")
        found = [p.name for p in control_folder.rglob("*") if p.is_file() and "lock" not in p.name]
        return sorted(found)
