"""The format of a dataset's files: how they are written and named."""

from __future__ import annotations

import io
from collections.abc import Set
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.backends.parquet.files.column_types import stored_as
from penstock.backends.parquet.load.large_values import large_columns
from penstock.backends.parquet.load.names import SUFFIXES
from penstock.backends.shared.values.row_groups import COMPRESSION

DICTIONARY_BYTES = 64 << 10
"""A column with more distinct values than fit is stored as it is: on TPC-H lineitem, pyarrow's own
limit of 1 MiB takes a quarter more CPU time, for files a fifth larger."""


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

    def large_columns(self, batch: pa.RecordBatch) -> Set[str]:
        """Return the columns whose values are so large that `writer` must know."""
        ...

    def writer(
        self, sink: Any, schema: pa.Schema, compression: str | None, large: Set[str]
    ) -> RowsWriter:
        """Return a writer for one file.

        Args:
            sink: takes bytes through `write`.
            schema: the columns of the file.
            compression: the requested compression; None for the default.
            large: the columns with large values.
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

    def large_columns(self, batch: pa.RecordBatch) -> Set[str]:
        return large_columns(batch)

    def writer(
        self, sink: Any, schema: pa.Schema, compression: str | None, large: Set[str]
    ) -> RowsWriter:
        # pyarrow expects the leaves of nested columns, so beside large values these have neither
        # dictionaries nor statistics.
        small = [name for name in schema.names if name not in large] if large else True
        writer: RowsWriter = pq.ParquetWriter(
            sink,
            schema,
            compression=compression or COMPRESSION,
            use_dictionary=small,
            write_statistics=small,
            dictionary_pagesize_limit=DICTIONARY_BYTES,
            # As DuckDB and Spark store decimals of up to 18 digits.
            store_decimal_as_integer=True,
        )
        return writer

    def stored_as(self, kind: pa.DataType) -> pa.DataType:
        return stored_as(kind)

    def empty(self, schema: pa.Schema) -> bytes:
        buffer = io.BytesIO()
        pq.write_table(schema.empty_table(), buffer)
        return buffer.getvalue()


PARQUET: FileFormat = ParquetFormat()
