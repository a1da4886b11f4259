"""The format of a dataset's files: how they are written and named."""

from __future__ import annotations

import io
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.backends.parquet.files.column_types import stored_as
from penstock.backends.parquet.load.names import SUFFIXES
from penstock.backends.shared.values.row_groups import COMPRESSION


class RowsWriter(Protocol):
    """A file being written."""

    def write_table(self, table: pa.Table, row_group_size: int) -> None: ...

    def close(self) -> None: ...


@runtime_checkable
class ContentWriter(Protocol):
    """A `RowsWriter` that also takes rows in the file's own form."""

    def write(self, content: bytes | memoryview) -> None: ...


class FileFormat(Protocol):
    """A format of the files in a dataset."""

    @property
    def noun(self) -> str:
        """The word before "file" in messages."""
        ...

    @property
    def suffix(self) -> str:
        """The suffix of the names of written files."""
        ...

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The lower-case suffixes of names that readers of the dataset treat as data."""
        ...

    def writer(self, sink: Any, schema: pa.Schema, compression: str | None) -> RowsWriter:
        """Return a writer for one file.

        Args:
            sink: takes bytes through `write`.
            schema: the columns of the file.
            compression: the requested compression; None for the default.
        """
        ...

    def stored_as(self, kind: pa.DataType) -> pa.DataType:
        """Return the type of a column created for a type of the source.

        Raises:
            ValueError: the format has no such type; the message gives the reason.
        """
        ...

    def empty(self, schema: pa.Schema) -> bytes:
        """Return a file without rows, which records the columns."""
        ...


class ParquetFormat:
    """Parquet; see `FileFormat`."""

    noun = "Parquet"
    suffix = ".parquet"
    suffixes = SUFFIXES

    def writer(self, sink: Any, schema: pa.Schema, compression: str | None) -> RowsWriter:
        writer: RowsWriter = pq.ParquetWriter(sink, schema, compression=compression or COMPRESSION)
        return writer

    def stored_as(self, kind: pa.DataType) -> pa.DataType:
        return stored_as(kind)

    def empty(self, schema: pa.Schema) -> bytes:
        buffer = io.BytesIO()
        pq.write_table(schema.empty_table(), buffer)
        return buffer.getvalue()


PARQUET: FileFormat = ParquetFormat()
