"""Rows of text files as record batches of the columns' types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from penstock.backends.parquet.errors import translated
from penstock.backends.parquet.files.listing import ListedFile
from penstock.backends.parquet.files.scan import BATCH_BYTES, BATCH_ROWS, FileScan
from penstock.backends.parquet.files.types import key_value
from penstock.backends.text.files import csv_rows, json_rows
from penstock.backends.text.files.checked_rows import CheckedRows
from penstock.backends.text.files.contents import opened
from penstock.backends.text.files.csv_quotes import MOST_HEADER_BYTES, first_row
from penstock.backends.text.files.passing import Outside
from penstock.backends.text.files.streams import TextStream
from penstock.backends.text.files.values import FOLDER, JSON, typed_batch
from penstock.backends.text.location import CSV, TextOptions
from penstock.errors import Interrupted, PermanentError, SnapshotLost
from penstock.model.extents import FilePart


class TextScan(FileScan):
    """A scan as for Parquet files; a text file has no parts.

    Args:
        schema: the columns, with the types that their texts are parsed as.
        names: the columns of each file, if known and the files have no header.
    """

    def __init__(
        self,
        filesystem: fs.FileSystem,
        schema: pa.Schema,
        options: TextOptions,
        side: str = "source",
        stopped: Callable[[], bool] = lambda: False,
        names: Sequence[str] = (),
    ) -> None:
        super().__init__(filesystem, schema, side, stopped)
        self._names = names
        self._options = options
        self.noun = options.noun
        self._nested = frozenset(part.name for part in schema if part.metadata == JSON)

    def groups(self, part: FilePart, condition: ds.Expression) -> Sequence[int] | None:
        return None

    def batch_rows(self, part: FilePart, columns: Sequence[str]) -> int:
        return BATCH_ROWS

    def _part(
        self,
        part: FilePart,
        columns: Sequence[str],
        row_groups: Sequence[int] | None,
        head: int | None,
    ) -> Iterator[pa.RecordBatch]:
        keys = ListedFile(part.path, part.size, part.version).keys
        stored = [name for name in columns if self.schema.field(name).metadata != FOLDER]
        schema = pa.schema([self.schema.field(name).remove_metadata() for name in stored])
        self.check(part)
        first = 2 if self._options.format == CSV and self._options.header else 1
        remaining = head
        for texts in self._texts(part, stored):
            if self._stopped():
                raise Interrupted(f"{self._side}: {part.path}: reading was canceled")
            typed = typed_batch(
                texts if remaining is None else texts.slice(0, remaining),
                schema,
                first,
                given=bool(self._options.schema),
            )
            first += texts.num_rows
            for batch in _sliced(typed):
                yield self._with_keys(batch, columns, keys)
            if remaining is not None:
                remaining -= typed.num_rows
                if remaining <= 0:
                    break
        # What was read is of one version of the file only if that one is still there.
        self.check(part)

    def pieces(self, parts: Sequence[FilePart]) -> Iterator[tuple[bytes, int]]:
        """Yield the rows of files as they are, with the number that end in each piece.

        Args:
            parts: files whose rows can pass through; see `api.worker.CSV`.

        Raises:
            SnapshotLost: a file was rewritten or removed.
            TransientError, PermanentError: a file cannot be read; names it.
        """
        for part in parts:
            try:
                with translated(self._side, part.path, self.noun):
                    yield from self._pieces(part)
            except PermanentError as error:
                if not isinstance(error, SnapshotLost):
                    self.check(part)  # as in `batches`
                raise

    def _pieces(self, part: FilePart) -> Iterator[tuple[bytes, int]]:
        def begin() -> TextStream:
            return opened(self._filesystem, part.path)

        self.check(part)
        options, outside = self._options, Outside()
        if options.schema:
            for piece, count in CheckedRows(begin, options, self.schema).pieces():
                if self._stopped():
                    raise Interrupted(f"{self._side}: {part.path}: reading was canceled")
                yield piece, count
            self.check(part)
            return
        skipped = len(first_row(begin, options.delimiter, MOST_HEADER_BYTES)) * options.header
        with begin() as stream:
            while piece := stream.read():
                if self._stopped():
                    raise Interrupted(f"{self._side}: {part.path}: reading was canceled")
                rows, skipped = piece[skipped:], max(0, skipped - len(piece))
                if rows:
                    yield rows, outside.of(rows).count(b"\n")
        self.check(part)

    def _texts(self, part: FilePart, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        def begin() -> TextStream:
            return opened(self._filesystem, part.path)

        if self._options.format == CSV:
            names = self._names or csv_rows.names_of(begin, self._options)
            yield from csv_rows.batches(begin, self._options, names, columns)
            return
        chosen = {name: name in self._nested for name in columns}
        yield from map(json_rows.batch, json_rows.groups(begin, chosen))

    def _with_keys(
        self, batch: pa.RecordBatch, columns: Sequence[str], keys: Mapping[str, str | None]
    ) -> pa.RecordBatch:
        if not columns:  # Rows without columns are only counted.
            return batch
        stored = set(batch.schema.names)
        arrays = [
            batch.column(name)
            if name in stored
            else pa.repeat(key_value(keys[name], self.schema.field(name).type), batch.num_rows)
            for name in columns
        ]
        return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _sliced(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield pieces of manageable size."""
    width = max(batch.nbytes / max(batch.num_rows, 1), 1)
    rows = max(1, min(BATCH_ROWS, int(BATCH_BYTES / width)))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
