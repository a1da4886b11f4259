"""Rows of a Python process as record batches of the types that travel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from penstock.backends.parquet.files.damage import check_values
from penstock.backends.parquet.files.scan import BATCH_ROWS, FileScan
from penstock.backends.shared.served_rows import served_batches
from penstock.model.extents import FilePart

ROWS = FilePart("rows", 0, "")
"""Stands for all rows, which have no parts."""


class RowsScan(FileScan):
    """A scan as for Parquet files, of rows that a socket serves.

    Args:
        path: the socket.
        schema: the columns, in the types that travel.
    """

    noun = "Arrow"

    def __init__(
        self, path: str, schema: pa.Schema, stopped: Callable[[], bool] = lambda: False
    ) -> None:
        super().__init__(fs.LocalFileSystem(), schema, "source", stopped)
        self._path = path

    def check(self, part: FilePart) -> None:
        pass  # nothing can be rewritten

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
        first = 1
        for batch in served_batches(self._path, self._stopped):
            check_values(batch, first)
            yield self._shaped(batch, columns, {}, first)
            first += batch.num_rows
            del batch
