"""The data files of one attempt: rows gathered into row groups, row groups into files.

Memory is bounded: by the bytes of a row group, and by those of all rows that wait for theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.backends.base import Wait
from penstock.backends.parquet.names import NULL_FOLDER, data_name, folder_of
from penstock.backends.parquet.records import DataFile
from penstock.backends.parquet.steps import stored_schema
from penstock.backends.parquet.transfer import Transfer
from penstock.backends.parquet.uploads import MOST_IN_MEMORY, Sink, Upload, Uploads
from penstock.errors import Diagnosis, PermanentError

# DuckDB's own, which readers that skip row groups are at ease with:
# https://duckdb.org/docs/stable/data/parquet/tips
ROW_GROUP_ROWS = 122_880
# Of rows in memory: a row group of wide rows has fewer.
ROW_GROUP_BYTES = 32 << 20
# Of rows that wait in all folders together.
WAITING_BYTES = 64 << 20
FILE_BYTES = 1 << 30
MOST_FOLDERS = 1000


@dataclass(frozen=True, slots=True)
class Naming:
    """What the names of an attempt's files are made of."""

    run_id: str
    partition_id: str
    attempt: int
    nonce: str

    def name(self, number: int) -> str:
        return data_name(self.run_id, self.partition_id, self.attempt, self.nonce, number)


@dataclass(slots=True)
class _File:
    path: str
    sink: Sink
    writer: Any
    rows: int = 0
    size: int = 0
    """In bytes, once it is ended."""


@dataclass(slots=True)
class _Folder:
    """Rows of one combination of values, and the file that they are written to."""

    path: str
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    """Of those that wait."""
    bytes: int = 0
    file: _File | None = None


class Output:
    """
    Parameters:
        schema: of the rows.
        writing: see `CopySpec.writing`.
    """

    def __init__(
        self,
        uploads: Uploads,
        transfer: Transfer,
        schema: pa.Schema,
        writing: Mapping[str, Any],
        naming: Naming,
    ) -> None:
        self._uploads = uploads
        self._transfer = transfer
        self._partition_by: Sequence[str] = writing.get("partition_by") or ()
        self._schema = stored_schema(schema, self._partition_by)
        self._group_rows = writing.get("row_group_size") or ROW_GROUP_ROWS
        self._file_size = writing.get("file_size") or FILE_BYTES
        self._compression = writing.get("compression") or "zstd"
        self._naming = naming
        self._folders: dict[str, _Folder] = {}
        self._files: list[_File] = []
        self._positions = pa.array([], pa.int32())
        self.rows = 0

    def write(self, batch: pa.RecordBatch, wait: Wait) -> None:
        """
        Raises:
            PermanentError: the values of the folders' columns are too many.
        """
        self.rows += batch.num_rows
        for path, rows in self._split(batch):
            folder = self._folders.get(path) or self._new_folder(path)
            folder.waiting.append(rows)
            folder.rows += rows.num_rows
            folder.bytes += rows.nbytes
            while folder.rows >= self._group_rows or folder.bytes >= ROW_GROUP_BYTES:
                self._write_group(folder, wait)
        while sum(folder.bytes for folder in self._folders.values()) > WAITING_BYTES:
            self._write_group(max(self._folders.values(), key=lambda each: each.bytes), wait)

    def end(self, wait: Wait) -> None:
        """End all files; what they consist of may still be under way."""
        for folder in self._folders.values():
            while folder.rows:
                self._write_group(folder, wait)
            if folder.file is not None:
                self._end_file(folder, wait)

    def files(self) -> tuple[DataFile, ...]:
        """Of an output that is ended, once its transfer is done."""
        return tuple(
            DataFile(file.path, file.rows, file.size, file.sink.upload()) for file in self._files
        )

    def begun(self) -> list[tuple[str, Upload]]:
        """What there is to be discarded."""
        return [(file.path, file.sink.upload()) for file in self._files]

    def _split(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of each folder."""
        if not batch.num_rows:
            return
        if not self._partition_by:
            yield "", batch
            return
        keys = [batch.column(name) for name in self._partition_by]
        names = [f"k{number}" for number in range(len(keys))]
        if len(self._positions) < batch.num_rows:
            self._positions = pa.array(range(batch.num_rows), pa.int32())
        table = pa.table([*keys, self._positions[: batch.num_rows]], [*names, "position"])
        # On one thread, the rows of a group keep their order.
        groups = table.group_by(names, use_threads=False).aggregate([("position", "list")])
        values = zip(*(groups[name].cast(pa.string()).to_pylist() for name in names), strict=True)
        rows = batch.select(self._schema.names)
        for value, positions in zip(values, groups["position_list"], strict=True):
            if NULL_FOLDER in value:
                raise PermanentError(
                    f"target: partition {self._naming.partition_id}: --partition-by: the text "
                    f"{NULL_FOLDER!r} names the folder of NULL: expected any other",
                    Diagnosis(side="target"),
                )
            yield folder_of(self._partition_by, value), rows.take(positions.values)

    def _new_folder(self, path: str) -> _Folder:
        if len(self._folders) == MOST_FOLDERS:
            raise PermanentError(
                f"target: partition {self._naming.partition_id}: --partition-by "
                f"{','.join(self._partition_by)}: expected {MOST_FOLDERS:,} folders in one "
                "partition at most, found more; use columns with fewer values, or cut the source "
                "by them (--strategy values or range, --key)",
                Diagnosis(side="target"),
            )
        self._folders[path] = _Folder(path)
        return self._folders[path]

    def _write_group(self, folder: _Folder, wait: Wait) -> None:
        """Write as many of the rows that wait as fit into one row group."""
        table = pa.Table.from_batches(folder.waiting)
        count = min(folder.rows, self._group_rows)
        group, rest = table.slice(0, count), table.slice(count)
        file = folder.file or self._begin_file(folder)
        file.writer.write_table(group, row_group_size=count)
        file.rows += count
        folder.waiting, folder.rows = rest.to_batches(), rest.num_rows
        folder.bytes = sum(batch.nbytes for batch in folder.waiting)
        file.sink.drain(wait, crowded=len(self._folders) > MOST_IN_MEMORY)
        if file.sink.size >= self._file_size:
            self._end_file(folder, wait)

    def _begin_file(self, folder: _Folder) -> _File:
        path = folder.path + self._naming.name(len(self._files))
        sink = self._uploads.begin(path, self._naming.run_id, self._transfer, self._file_size)
        writer = pq.ParquetWriter(sink, self._schema, compression=self._compression)
        folder.file = _File(path, sink, writer)
        self._files.append(folder.file)
        return folder.file

    def _end_file(self, folder: _Folder, wait: Wait) -> None:
        file, folder.file = folder.file, None
        assert file is not None
        file.writer.close()
        file.writer = None  # its metadata is as large as the file has row groups
        file.sink.end(wait)
        file.size = file.sink.size
