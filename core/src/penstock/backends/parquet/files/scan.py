"""The rows of files as record batches, in bounded memory, whatever the size of row groups.

A row group is decoded batch by batch (`ParquetFile.iter_batches`), never as a whole, unlike in
pyarrow's own datasets.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pyarrow.types as is_
from pyarrow import fs

from penstock.backends.parquet.errors import Broken, translated
from penstock.backends.parquet.files import int96
from penstock.backends.parquet.files.damage import check_values
from penstock.backends.parquet.files.footers import open_file
from penstock.backends.parquet.files.listing import ListedFile, local_file
from penstock.backends.parquet.files.types import converted, engine, key_value, travelling
from penstock.backends.shared.values.arrow import first_failing, shown
from penstock.errors import (
    Diagnosis,
    Interrupted,
    PermanentError,
    SnapshotLost,
)
from penstock.model.extents import FilePart

# Per batch. Fewer rows cost far more where four workers share two CPUs; more gain little
# (measured).
BATCH_ROWS = 16_384
BATCH_BYTES = 4 << 20
# For long values that may repeat: the file stores each once, a batch stores every occurrence.
UNSURE_ROWS = 256
# Row groups up to this size are fetched from S3 at once, with columns in parallel.
AT_ONCE = 48 << 20
# Otherwise columns are read in pieces of this total size.
PIECES = 48 << 20
LEAST_PIECE, MOST_PIECE, LOCAL_PIECE = 64 << 10, 8 << 20, 1 << 20

_FORMAT = ds.ParquetFileFormat(coerce_int96_timestamp_unit="us")


def whole_file(file: ListedFile) -> FilePart:
    """Return a whole file as a part of a partition."""
    return FilePart(file.path, file.size, file.version)


class FileScan:
    """A reader of parts of files.

    Args:
        schema: the columns of all files, in the types that travel, and those of the folders.
        stopped: asked between two batches.
    """

    noun = "Parquet"
    """The format of the files, for messages."""

    def __init__(
        self,
        filesystem: fs.FileSystem,
        schema: pa.Schema,
        side: str = "source",
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._filesystem = filesystem
        self.schema = schema
        self._side = side
        self._stopped = stopped
        self._widest = 0.0
        self._remote = not isinstance(filesystem, fs.LocalFileSystem)

    def batches(
        self,
        parts: Sequence[FilePart],
        columns: Sequence[str],
        row_groups_of: Callable[[FilePart], Sequence[int] | None] = lambda part: None,
        head: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches of some columns, in this order.

        Args:
            parts: the parts to read, in order.
            columns: the columns to read, in order; empty to count rows only.
            row_groups_of: returns the row groups of a part to read; None for all.
            head: the maximum number of rows per row group.

        Raises:
            SnapshotLost: a file was rewritten or removed.
            TransientError, PermanentError: a file cannot be read; names it.
        """
        for part in parts:
            try:
                with translated(self._side, part.path, self.noun):
                    yield from self._part(part, columns, row_groups_of(part), head)
            except PermanentError as error:
                if not isinstance(error, SnapshotLost):
                    self.check(part)  # half of one version and half of another is not a valid file
                raise

    def check(self, part: FilePart) -> None:
        """Check that a part's file is unchanged.

        Raises:
            SnapshotLost: the file was rewritten or removed.
            TransientError, PermanentError: the file cannot be opened.
        """
        with translated(self._side, part.path):
            self._open(part).close()

    def _part(
        self,
        part: FilePart,
        columns: Sequence[str],
        row_groups: Sequence[int] | None,
        head: int | None,
    ) -> Iterator[pa.RecordBatch]:
        if row_groups is not None and not row_groups:
            return
        with self._open(part) as handle:
            metadata = pq.read_metadata(handle)
            groups = range(
                part.lower, metadata.num_row_groups if part.upper is None else part.upper
            )
            first = 1
            for number in range(groups.stop):
                if number in groups and (row_groups is None or number in row_groups):
                    yield from self._group(part, handle, metadata, number, columns, head, first)
                first += metadata.row_group(number).num_rows
        # The rows read belong to one version of the file only if that version still exists.
        self.check(part)

    def groups(self, part: FilePart, condition: ds.Expression) -> Sequence[int] | None:
        """Return the row groups of a file that may hold rows for a condition, by their statistics.

        None for all, if the footer cannot answer the condition.
        """
        text = str(condition)
        if any(in_engine(part).type != part.type and part.name in text for part in self.schema):
            return None  # it refers to other values than the file's
        with translated(self._side, part.path):
            fragment = _FORMAT.make_fragment(part.path, self._filesystem)
            stored = fragment.physical_schema
            if any(
                field.name in stored.names
                and travelling(stored.field(field.name).type) != field.type
                and field.name in text
                for field in self.schema
            ):
                return None  # other files have the column as another type
            keys = ListedFile(part.path, 0, "").keys
            outer = [
                field for field in self.schema if field.name in keys.keys() - set(stored.names)
            ]
            folder_values = ds.scalar(True)
            for field in outer:
                value = key_value(keys[field.name], field.type)
                column = ds.field(field.name)
                folder_values &= column == value if value.is_valid else column.is_null()
            fragment = _FORMAT.make_fragment(
                part.path, self._filesystem, partition_expression=folder_values
            )
            try:
                subset = fragment.subset(condition, schema=pa.schema([*stored, *outer]))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                return None  # types that sort differently from their statistics, such as views
            return [group.id for group in subset.row_groups]

    def _open(self, part: FilePart) -> pa.NativeFile:
        try:
            handle = self._filesystem.open_input_file(part.path)
        except FileNotFoundError as error:
            raise self._changed(part, "it no longer exists") from error
        if self._remote:
            tag = handle.metadata().get("ETag", b"").decode()
            current = ListedFile(part.path, handle.size(), tag)
        else:
            current = local_file(part.path, os.stat(part.path))
        if (current.size, current.version) != (part.size, part.version):
            handle.close()
            raise self._changed(
                part,
                f"it was rewritten: expected {part.size:,} bytes, version {part.version}; found "
                f"{current.size:,} bytes, version {current.version}",
            )
        return handle

    def _changed(self, part: FilePart, why: str) -> SnapshotLost:
        return SnapshotLost(
            f"{self._side}: {part.path} has changed since planning: {why}",
            Diagnosis(side=self._side),
        )

    def _group(
        self,
        part: FilePart,
        handle: pa.NativeFile,
        metadata: pq.FileMetaData,
        number: int,
        columns: Sequence[str],
        head: int | None,
        first: int,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches of one row group.

        Args:
            part: the part with the row group.
            handle: the part's open file.
            metadata: the file's footer.
            number: the number of the row group in the file, from 0.
            columns: the columns to read.
            head: the maximum number of rows; None for all.
            first: the number of its first row in the file.
        """
        group = metadata.row_group(number)
        if not group.num_rows:
            return
        keys = ListedFile(part.path, 0, "").keys
        stored, _, count, _ = _sizes(group, columns)
        piece = min(max(PIECES // max(count, 1), LEAST_PIECE), MOST_PIECE)
        at_once = self._remote and stored <= AT_ONCE and head is None
        texts = [name for name in columns if is_.is_string(self.schema.field(name).type)]
        few_valued = _few_valued(group, texts)

        def opened(unit: str = "us") -> pq.ParquetFile:
            return open_file(
                self._filesystem,
                part.path,
                handle=handle,
                metadata=metadata,
                buffer_size=0 if at_once else piece if self._remote else min(piece, LOCAL_PIECE),
                pre_buffer=at_once,
                few_valued=few_valued,
                int96=unit,
            )

        parquet = opened()
        stored_names = set(parquet.schema_arrow.names)
        if missing := [name for name in columns if name not in stored_names and name not in keys]:
            raise PermanentError(
                f"{self._side}: {part.path}: expected columns {', '.join(map(repr, columns))}; "
                f"found no {', '.join(map(repr, missing))}",
                Diagnosis(side=self._side),
            )
        if head is None and (counted := int96.columns_of(metadata, columns)):

            def read(unit: str) -> Iterator[pa.RecordBatch]:
                options = {"row_groups": [number], "columns": counted, "use_threads": False}
                return iter(opened(unit).iter_batches(BATCH_ROWS, **options))

            int96.check(read, first, self._stopped)
        rows = self._rows(group, columns)
        remaining = group.num_rows if head is None else min(head, group.num_rows)
        batches = parquet.iter_batches(
            batch_size=min(rows, remaining),
            row_groups=[number],
            columns=[name for name in columns if name in stored_names],
            use_threads=False,
        )
        for batch in batches:
            if self._stopped():
                raise Interrupted(f"{self._side}: {part.path}: reading was canceled")
            check_values(batch, first)
            shaped = self._shaped(batch, columns, keys, first)
            remaining -= batch.num_rows
            first += batch.num_rows
            self._widest = max(self._widest, shaped.nbytes / max(batch.num_rows, 1))
            del batch
            yield shaped
            if remaining <= 0:
                return
        raise PermanentError(
            f"{self._side}: {part.path}: row group {number} ended early: {remaining:,} of the "
            f"{group.num_rows:,} rows in its footer are missing",
            Diagnosis(side=self._side),
        )

    def batch_rows(self, part: FilePart, columns: Sequence[str]) -> int:
        """Return the number of rows per batch, for these columns anywhere in a part."""
        with translated(self._side, part.path), self._open(part) as handle:
            metadata = pq.read_metadata(handle)
            groups = range(metadata.num_row_groups)[part.lower : part.upper]
            rows = [self._rows(metadata.row_group(number), columns) for number in groups]
            return min(rows, default=BATCH_ROWS)

    def _rows(self, group: Any, columns: Sequence[str]) -> int:
        """Return the number of rows per batch in one row group."""
        _, unpacked, _, sure = _sizes(group, columns)
        width = max(unpacked / max(group.num_rows, 1), self._widest / 2, 1)
        return max(1, min(BATCH_ROWS if sure else UNSURE_ROWS, int(BATCH_BYTES / width)))

    def _shaped(
        self,
        batch: pa.RecordBatch,
        columns: Sequence[str],
        keys: Mapping[str, str | None],
        first: int,
    ) -> pa.RecordBatch:
        """Return a batch with its columns in order and in the types that travel.

        Columns whose values come from the names of folders are included.

        Args:
            batch: the rows of a file.
            columns: the columns, in order.
            keys: the values in the names of the file's folders.
            first: the number of its first row in the file.

        Raises:
            Broken: a value does not fit a type that other files need.
        """
        names = set(batch.schema.names)
        arrays = []
        for name in columns:
            type_ = self.schema.field(name).type
            if name in names:
                arrays.append(_widened(batch.column(name), type_, name, first))
            else:
                arrays.append(pa.repeat(key_value(keys[name], type_), batch.num_rows))
        if not arrays:  # Without columns, rows are only counted.
            return batch
        return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _widened(array: pa.Array, type_: pa.DataType, name: str, first: int) -> pa.Array:
    try:
        return converted(array, type_)
    except pa.ArrowInvalid as error:
        row = first_failing(array, lambda part: converted(part, type_))
        raise Broken(
            f"column {name!r}, row {first + row:,}: expected a value of {type_}, the type that the "
            f"column has in other files, found {shown(array, row)}; cast it in the file"
        ) from error


def _sizes(group: Any, columns: Sequence[str]) -> tuple[int, int, int, bool]:
    """Return the sizes of some columns in a row group.

    These are stored bytes, bytes before compression, the number of values, and whether the bytes
    show how large the values are.
    """
    names = set(columns)
    stored = unpacked = count = 0
    sure = True
    for place in range(group.num_columns):
        column = group.column(place)
        # A nested column's path begins with its name; a name may contain dots itself.
        path = column.path_in_schema
        if path not in names and not any(path.startswith(name + ".") for name in names):
            continue
        stored += column.total_compressed_size
        unpacked += column.total_uncompressed_size
        count += 1
        if column.physical_type == "BYTE_ARRAY" and column.has_dictionary_page:
            # Writers omit the lowest and highest value if they are long.
            statistics = column.statistics
            empty = statistics is not None and statistics.null_count == column.num_values
            sure &= empty or (statistics is not None and statistics.has_min_max)
    return stored, unpacked, count, sure


def _few_valued(group: Any, texts: Sequence[str]) -> list[str]:
    """Return the columns that take a byte or less per value.

    Examining each of their few values once takes a third of the time (measured).
    """
    names = set(texts)
    parts = (group.column(place) for place in range(group.num_columns))
    return [
        part.path_in_schema
        for part in parts
        if part.path_in_schema in names
        and part.physical_type == "BYTE_ARRAY"
        and part.has_dictionary_page
        and part.total_uncompressed_size <= part.num_values
    ]


def in_engine(part: pa.Field) -> pa.Field:
    """Return a column as DuckDB reads it."""
    return pa.field(part.name, engine(part.type), part.nullable)
