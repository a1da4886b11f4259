"""Record batches gathered into row groups of columnar files. Memory is bounded by one row group."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

# A size that suits readers that skip row groups.
ROW_GROUP_ROWS = 122_880
# Bytes of rows in memory: a row group of wide rows has fewer.
ROW_GROUP_BYTES = 32 << 20
COMPRESSION = "zstd"


class RowGroups:
    """A gatherer of rows for row groups.

    Args:
        rows: the maximum number per group.
    """

    def __init__(self, rows: int = ROW_GROUP_ROWS) -> None:
        self._most = rows
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self.bytes = 0
        """Bytes of the buffered rows."""

    def add(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._rows += batch.num_rows
        self.bytes += batch.nbytes

    def full(self) -> Iterator[pa.Table]:
        """Yield the groups that are large enough by now."""
        while self._rows >= self._most or self.bytes >= ROW_GROUP_BYTES:
            yield self._take_group()

    def remaining(self) -> Iterator[pa.Table]:
        """Yield all remaining rows."""
        while self._rows:
            yield self._take_group()

    def _take_group(self) -> pa.Table:
        table = pa.Table.from_batches(self._waiting)
        self._keep(table.slice(self._most).to_batches())
        return table.slice(0, self._most)

    def take_all(self) -> list[pa.RecordBatch]:
        """Return the waiting rows, in their order."""
        waiting = self._waiting
        self._keep([])
        return waiting

    def _keep(self, batches: list[pa.RecordBatch]) -> None:
        self._waiting = batches
        self._rows = sum(batch.num_rows for batch in batches)
        self.bytes = sum(batch.nbytes for batch in batches)
