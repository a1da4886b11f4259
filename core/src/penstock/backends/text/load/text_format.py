"""Text files as the format of a dataset's files."""

from __future__ import annotations

import io
from collections.abc import Set
from typing import Any

import pyarrow as pa

from penstock.backends.text.load import csv_format, json_format
from penstock.backends.text.load.texts import stored_as
from penstock.backends.text.location import CSV, TextOptions


class TextFormat:
    """See `FileFormat`.

    Args:
        whole: whether files become parts of one, without headers of their own.
    """

    def __init__(self, options: TextOptions, *, whole: bool) -> None:
        self._options = options
        self._whole = whole
        self.noun = options.noun
        self.suffix = f".{options.extension}"
        plain = options.extension.partition(".")[0]
        self.suffixes: tuple[str, ...] = (f".{plain}", f".{plain}.gz", f".{plain}.zst")

    def large_columns(self, batch: pa.RecordBatch) -> Set[str]:
        return frozenset()

    def writer(
        self, sink: Any, schema: pa.Schema, compression: str | None, large: Set[str]
    ) -> TextWriter:
        writer = TextWriter(sink, self._options)
        if not self._whole:
            writer.write(self.header(schema))
        return writer

    def header(self, schema: pa.Schema) -> bytes:
        """Return the line before the first row, if any, uncompressed."""
        return csv_format.header(schema, self._options) if self._options.format == CSV else b""

    def packed(self, content: bytes) -> bytes:
        """Compress content as a separate file, which others may follow."""
        sink = io.BytesIO()
        writer = TextWriter(sink, self._options)
        writer.write(content)
        writer.close()
        return sink.getvalue()

    def empty(self, schema: pa.Schema) -> bytes:
        return self.packed(self.header(schema))

    def stored_as(self, kind: pa.DataType) -> pa.DataType:
        return stored_as(kind)


class _Into(io.RawIOBase):
    """A sink that stays open when pyarrow closes it."""

    def __init__(self, sink: Any) -> None:
        super().__init__()
        self._sink = sink

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        count: int = self._sink.write(data)
        return count


class TextWriter:
    """See `RowsWriter`."""

    def __init__(self, sink: Any, options: TextOptions) -> None:
        self._options = options
        into = pa.PythonFile(_Into(sink), mode="w")
        self._stream = (
            pa.CompressedOutputStream(into, options.compression) if options.compression else into
        )

    def write(self, content: bytes | memoryview) -> None:
        if content:
            self._stream.write(content)

    def write_table(self, table: pa.Table, row_group_size: int) -> None:
        if self._options.format == CSV:
            self.write(csv_format.rows(table, self._options))
        else:
            self.write(json_format.rows(table))

    def close(self) -> None:
        self._stream.close()
