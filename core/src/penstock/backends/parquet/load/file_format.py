"""The format of a dataset's files: how they are written, and how they are called."""

from __future__ import annotations

import io
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.backends.parquet.files.column_types import stored_as
from penstock.backends.parquet.load.names import SUFFIXES
from penstock.backends.shared.values.row_groups import COMPRESSION


class RowsWriter(Protocol):
    """One file that is being written."""

    def write_table(self, table: pa.Table, row_group_size: int) -> None: ...

    def close(self) -> None: ...


class FileFormat(Protocol):
    @property
    def noun(self) -> str:
        """What such a file is called before the word "file", for people."""
        ...

    @property
    def suffix(self) -> str:
        """The end of the names of files that are written."""
        ...

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The ends of names, in small letters, that readers of the dataset take for data."""
        ...

    def writer(self, sink: Any, schema: pa.Schema, compression: str | None) -> RowsWriter:
        """
        Parameters:
            sink: takes bytes by `write`.
            compression: what was asked for; None: as usual.
        """
        ...

    def stored_as(self, kind: pa.DataType) -> pa.DataType:
        """The type that a made column has, where the source's is this one.

        Raises:
            ValueError: there is none; says why.
        """
        ...

    def empty(self, schema: pa.Schema) -> bytes:
        """A file without rows, which tells the columns."""
        ...


class ParquetFormat:
    noun = "Parquet"
    suffix = ".parquet"
    suffixes = SUFFIXES

    def writer(self, sink: Any, schema: pa.Schema, compression: str | None) -> RowsWriter:
        made: RowsWriter = pq.ParquetWriter(sink, schema, compression=compression or COMPRESSION)
        return made

    def stored_as(self, kind: pa.DataType) -> pa.DataType:
        return stored_as(kind)

    def empty(self, schema: pa.Schema) -> bytes:
        written = io.BytesIO()
        pq.write_table(schema.empty_table(), written)
        return written.getvalue()


PARQUET: FileFormat = ParquetFormat()
