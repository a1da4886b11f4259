"""Local and S3 folders of Parquet files, and their rows as a worker reads them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.backends.api.worker import ARROW
from penstock.backends.parquet.reader import ParquetReader
from penstock.backends.parquet.source import ParquetSource
from penstock.model.extents import Extent, FilePart, Files
from penstock.model.plans import Partition
from penstock.model.tables import ColumnPair, Located, Relation, TableRef
from penstock.spec.worker_spec import WorkerSpec
from penstock.workers.stream import Meter, Waiter
from penstock_testkit import S3Server

Rows = list[dict[str, Any]]


@dataclass
class Store:
    root: Path
    server: S3Server | None = None
    bucket: str = ""
    endpoint: str | None = None
    """The endpoint of a proxy in front of the server."""

    def url(self, pattern: str = "") -> str:
        if self.server is None:
            return f"file://{self.root}/{pattern}"
        return self.server.url(f"{self.bucket}/{pattern}", self.endpoint)

    def path(self, name: str) -> str:
        """Return the path as the file system names it."""
        return str(self.root / name) if self.server is None else f"{self.bucket}/{name}"

    def put(self, name: str, content: bytes) -> None:
        if self.server is None:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_bytes(content)
        else:
            self.server.put(self.bucket, name, content)

    def write(self, name: str, table: pa.Table | dict[str, Any], **options: Any) -> None:
        self.put(name, encoded(table, **options))

    def remove(self, name: str) -> None:
        if self.server is None:
            (self.root / name).unlink()
        else:
            self.server.client.delete_object(Bucket=self.bucket, Key=name)

    def source(self, pattern: str = "") -> ParquetSource:
        return ParquetSource(self.url(pattern))


def encoded(table: pa.Table | dict[str, Any], **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(table) if isinstance(table, dict) else table, sink, **options)
    return sink.getvalue()


def waiter(timeout: float = 60.0) -> Waiter:
    return Waiter(Meter(), timeout)


def reader(
    url: str,
    pairs: Sequence[ColumnPair],
    *,
    where: str | None = None,
    relation: Relation | None = None,
    snapshot: str | None = None,
) -> ParquetReader:
    return ParquetReader(
        WorkerSpec(
            run_id="run",
            generation=1,
            source=url,
            target="",
            source_backend="",
            target_backend="",
            relation=relation or Located(),
            target_table=TableRef("", "target"),
            pairs=tuple(pairs),
            format=ARROW,
            where=where,
            mode="append",
            conflict_columns=(),
            volatile=False,
            series="",
            snapshot=snapshot,
            stall_timeout=60,
            grace=1,
            control_schema="penstock",
            schema="",
            writing={},
        )
    )


def read(
    url: str,
    extent: Extent,
    columns: Sequence[str] | None = None,
    relation: Relation | None = None,
    **options: Any,
) -> pa.Table:
    """Return all rows that a worker reads for a partition."""
    if columns is None:
        with closing(ParquetSource(url)) as source:
            columns = [column.name for column in source.columns(relation or Located())]
    pairs = [ColumnPair(name, name) for name in columns]
    reading = reader(url, pairs, relation=relation, **options)
    batches = [batch for batch, _, _ in reading.read(Partition("p0001", extent), waiter())]
    table = pa.Table.from_batches(batches)
    assert reading.rows == table.num_rows
    return table


def parts(source: ParquetSource) -> tuple[FilePart, ...]:
    """Return whole files as parts, as strategy `files` partitions them."""
    files = source.statistics(Located(), None).files
    return tuple(FilePart(file.path, file.size, file.version) for file in files)


def all_files(store: Store, pattern: str = "") -> Files:
    with closing(store.source(pattern)) as source:
        return Files(parts(source))
