"""The data files of one attempt: rows are gathered into row groups, row groups into files.

Memory is bounded by the size of a row group, or of the rows waiting to be sorted into folders; each
folder's rows then form a row group. A row with a large value ends its row group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.backends.api.execution.roll_forward import Piece
from penstock.backends.api.worker import Wait
from penstock.backends.parquet.load.file_format import ContentWriter, FileFormat, RowsWriter
from penstock.backends.parquet.load.large_values import check_memory
from penstock.backends.parquet.load.names import NULL_FOLDER, data_name, folder_of
from penstock.backends.parquet.load.steps import stored_schema
from penstock.backends.parquet.storage.uploads import MOST_IN_MEMORY, Sink, Uploads
from penstock.backends.shared.attempts.transfer import Transfer
from penstock.backends.shared.values.arrow import exactly
from penstock.backends.shared.values.row_groups import ROW_GROUP_ROWS, RowGroups
from penstock.errors import Diagnosis, PermanentError

# Bytes of rows waiting to be sorted into folders.
FOLDERS_BYTES = 32 << 20
FILE_BYTES = 1 << 30
MOST_FOLDERS = 1000


@dataclass(frozen=True, slots=True)
class Naming:
    """The parts of the names of an attempt's files."""

    run_id: str
    partition_id: str
    attempt: int
    nonce: str
    suffix: str

    def name(self, number: int) -> str:
        return data_name(
            self.run_id, self.partition_id, self.attempt, self.nonce, number, self.suffix
        )


@dataclass(slots=True)
class _File:
    path: str
    sink: Sink
    writer: RowsWriter | None
    large: Set[str]
    rows: int = 0
    size: int = 0
    """In bytes, once the file has ended."""


class Output:
    """The output of one attempt.

    Args:
        schema: the schema of the rows.
        writing: as in `CopySpec.writing`.
    """

    def __init__(
        self,
        uploads: Uploads,
        transfer: Transfer,
        schema: pa.Schema,
        writing: Mapping[str, Any],
        naming: Naming,
        format: FileFormat,
    ) -> None:
        self._uploads = uploads
        self._transfer = transfer
        self._partition_by: Sequence[str] = writing.get("partition_by") or ()
        self._schema = stored_schema(schema, self._partition_by)
        self._group_rows = writing.get("row_group_size") or ROW_GROUP_ROWS
        self._file_size = writing.get("file_size") or FILE_BYTES
        self._compression = writing.get("compression")
        self._naming = naming
        self._format = format
        self._open: dict[str, _File] = {}
        """By folder."""
        self._files: list[_File] = []
        self._large: frozenset[str] = frozenset()
        """The columns that had large values so far."""
        self._waiting = RowGroups(self._group_rows)
        self.rows = 0

    def write(self, batch: pa.RecordBatch, wait: Wait) -> None:
        """Write one batch.

        Raises:
            PermanentError: the rows belong into too many folders, or a value is too large.
        """
        if not batch.num_rows:
            return
        if large := self._format.large_columns(batch):
            check_memory(batch, large, self.rows, f"target: partition {self._naming.partition_id}")
            self._large |= large
        self.rows += batch.num_rows
        self._waiting.add(batch)
        if self._partition_by:
            if self._waiting.bytes >= FOLDERS_BYTES:
                self._write_folders(wait)
        else:
            for group in self._waiting.full():
                self._write_group("", group, wait)

    def write_content(self, content: bytes | memoryview, rows: int, wait: Wait) -> None:
        """Write rows that are in the form of the files already, not sorted into folders."""
        writer = self._writer("", wait)
        assert isinstance(writer, ContentWriter)
        writer.write(content)
        self.rows += rows
        self._written("", rows, wait)

    def end(self, wait: Wait) -> None:
        """End all files; their parts may still be being sent."""
        if self._partition_by:
            self._write_folders(wait)
        for group in self._waiting.remaining():
            self._write_group("", group, wait)
        for folder in list(self._open):
            self._end_file(folder, wait)

    def pieces(self) -> tuple[Piece, ...]:
        """Return the files that were begun.

        They are complete once the output has ended and the transfer is done.
        """
        return tuple(
            Piece(file.path, file.rows, file.size, file.sink.upload()) for file in self._files
        )

    def _write_folders(self, wait: Wait) -> None:
        """Write the waiting rows, with one row group per folder."""
        waiting = self._waiting.take_all()
        if not waiting:
            return
        rows = pa.concat_batches(waiting)
        del waiting
        names = [f"k{number}" for number in range(len(self._partition_by))]
        keys = [rows.column(name) for name in self._partition_by]
        positions = pa.array(range(rows.num_rows), pa.int32())
        # In a single thread the rows of a group keep their order.
        groups = (
            pa.table([*keys, positions], [*names, "position"])
            .group_by(names, use_threads=False)
            .aggregate([("position", "list")])
        )
        values = zip(*(_folder_texts(groups[name]) for name in names), strict=True)
        members = groups["position_list"].combine_chunks()
        table = pa.Table.from_batches([rows.select(self._schema.names).take(members.flatten())])
        del rows, keys
        start = 0
        for value, count in zip(values, members.value_lengths().to_pylist(), strict=True):
            folder = self._folder(value)
            for first in range(0, count, self._group_rows):
                group = table.slice(start + first, min(self._group_rows, count - first))
                self._write_group(folder, group, wait)
            start += count

    def _folder(self, values: tuple[str | None, ...]) -> str:
        """Return the folder for some values.

        Raises:
            PermanentError: a value cannot be the name of a folder.
        """
        if NULL_FOLDER in values:
            raise PermanentError(
                f"target: partition {self._naming.partition_id}: --partition-by: expected any "
                f"text but {NULL_FOLDER!r}, which names the folder of NULL",
                Diagnosis(side="target"),
            )
        return folder_of(self._partition_by, values)

    def _write_group(self, folder: str, group: pa.Table, wait: Wait) -> None:
        writer = self._writer(folder, wait)
        writer.write_table(group, row_group_size=group.num_rows)
        self._written(folder, group.num_rows, wait)

    def _writer(self, folder: str, wait: Wait) -> RowsWriter:
        file = self._open.get(folder)
        if file is not None and file.large != self._large:
            self._end_file(folder, wait)
            file = None
        file = file or self._begin_file(folder)
        assert file.writer is not None
        return file.writer

    def _written(self, folder: str, rows: int, wait: Wait) -> None:
        file = self._open[folder]
        file.rows += rows
        file.sink.drain(wait, crowded=len(self._open) > MOST_IN_MEMORY)
        if file.sink.size >= self._file_size:
            self._end_file(folder, wait)

    def _begin_file(self, folder: str) -> _File:
        if len(self._open) == MOST_FOLDERS:
            raise PermanentError(
                f"target: partition {self._naming.partition_id}: --partition-by "
                f"{','.join(self._partition_by)}: expected at most {MOST_FOLDERS:,} folders in a "
                "partition, found more; use columns with fewer values, or partition the source by "
                "them (--strategy values or range, --key)",
                Diagnosis(side="target"),
            )
        path = folder + self._naming.name(len(self._files))
        sink = self._uploads.begin(path, self._naming.run_id, self._transfer, self._file_size)
        writer = self._format.writer(sink, self._schema, self._compression, self._large)
        self._open[folder] = file = _File(path, sink, writer, self._large)
        self._files.append(file)
        return file

    def _end_file(self, folder: str, wait: Wait) -> None:
        file = self._open.pop(folder)
        assert file.writer is not None
        file.writer.close()
        file.writer = None  # its metadata grows with the number of row groups
        file.sink.end(wait)
        file.size = file.sink.size


def _folder_texts(values: pa.ChunkedArray) -> list[str | None]:
    return list(exactly(values.combine_chunks(), pa.string()).to_pylist())
