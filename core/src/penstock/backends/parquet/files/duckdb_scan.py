"""Parts of files as an object that DuckDB reads.

DuckDB passes on the columns and conditions that it needs, so that row groups are skipped by their
statistics.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from penstock.backends.parquet.files.scan import FileScan, in_engine
from penstock.backends.shared.background import BufferedIterator
from penstock.backends.shared.texts.plain_texts import plain_texts
from penstock.backends.shared.values.arrow import has_empty_struct
from penstock.model.extents import FilePart

# Batches read before DuckDB takes them.
AHEAD = 6


class ScannedFiles(ds.UnionDataset):  # type: ignore[misc]
    """Parts of files as an object that DuckDB reads: it requests a new scanner each time.

    DuckDB reads a `pyarrow.dataset.Dataset`, and passes columns and conditions to `scanner`. It
    does not evaluate these conditions itself.
    https://duckdb.org/docs/stable/guides/python/sql_on_arrow
    """

    scan: FileScan
    parts: Sequence[FilePart]
    head: int | None
    failures: list[Exception]
    """The failures of scans, of which DuckDB reports only the text, with Python's traceback."""
    recorded_conditions: list[ds.Expression | None] | None
    """If it is a list, nothing is read, and conditions are recorded here."""

    @classmethod
    def of(cls, scan: FileScan, parts: Sequence[FilePart], head: int | None = None) -> ScannedFiles:
        """Return parts of files as an object that DuckDB reads.

        Args:
            scan: reads the parts.
            parts: the parts.
            head: the maximum number of rows per row group; None for all.
        """
        readable = [part for part in scan.schema if not has_empty_struct(part.type)]
        files = cls(pa.schema([in_engine(part) for part in readable]), [])
        files.scan, files.parts, files.head = scan, parts, head
        files.failures, files.recorded_conditions = [], None
        return files

    def scanner(
        self,
        columns: list[str] | None = None,
        filter: ds.Expression | None = None,
        **_: Any,
    ) -> _Scanner:
        if self.recorded_conditions is not None:
            self.recorded_conditions.append(filter)
        names = self.schema.names
        if columns is not None or filter is not None:
            # An expression reveals its columns only in its text; naming one too many does no harm.
            text = "" if filter is None else str(filter)
            selected = names if columns is None else columns
            names = [name for name in names if name in selected or name in text]
        schema = pa.schema([self.schema.field(name) for name in names])
        selected = schema if columns is None else pa.schema([schema.field(n) for n in columns])
        batches = (
            iter(())
            if self.recorded_conditions is not None
            else self._ahead(schema, columns, filter)
        )
        return _Scanner(pa.RecordBatchReader.from_batches(selected, batches))

    def _ahead(
        self, schema: pa.Schema, columns: list[str] | None, condition: ds.Expression | None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the columns of rows that meet a condition, a few batches ahead.

        A scanner from pyarrow would run ahead without limit, and use twice the memory if DuckDB is
        slow (measured).
        """

        def chosen(stopped: Callable[[], bool]) -> Iterator[pa.RecordBatch]:
            for batch in self._batches(schema, condition):
                if stopped():
                    return
                rows = ds.dataset(pa.Table.from_batches([batch])).scanner(
                    columns=columns, filter=condition, use_threads=False
                )
                yield from rows.to_batches()

        try:
            yield from BufferedIterator(chosen, AHEAD).take(_waited)
        except Exception as error:
            self.failures.append(error)
            raise

    def _batches(
        self, schema: pa.Schema, condition: ds.Expression | None
    ) -> Iterator[pa.RecordBatch]:
        def chosen(part: FilePart) -> Sequence[int] | None:
            return None if condition is None else self.scan.groups(part, condition)

        for batch in self.scan.batches(self.parts, schema.names, chosen, self.head):
            arrays = [
                array if array.type == type_ else _in_engine(array, type_)
                for array, type_ in zip(batch.columns, schema.types, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _in_engine(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(array.type):
        return plain_texts(array)
    return array.cast(type_)


class _Scanner:
    """The part of `pyarrow.dataset.Scanner` that DuckDB uses."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader

    def to_reader(self) -> pa.RecordBatchReader:
        return self._reader


def _waited(side: str, descriptor: int, writing: bool) -> None:
    """Notice a stall while waiting for DuckDB."""
    select.select([descriptor], [], [])
