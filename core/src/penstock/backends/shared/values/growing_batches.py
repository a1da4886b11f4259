"""Batches from drivers that are asked for a number of rows: few at first, then as many as fit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pyarrow as pa

# Rows of a stream's first batch, since rows may be of any size, and the factor by which the next
# may grow.
FIRST_ROWS = 64
GROWTH = 8.0
# While a driver waits for rows it may block other threads, such as the one that shows that a worker
# is alive. So batches are small if rows arrive slowly.
BATCH_SECONDS = 1.0


def growing(
    fetch: Callable[[int], pa.RecordBatch], max_rows: int, size: int
) -> Iterator[pa.RecordBatch]:
    """Yield all rows; the first batch comes even if it has none.

    Args:
        fetch: returns the next rows, as many as requested; fewer at the end.
        max_rows: the maximum number of rows per batch.
        size: bytes per batch, if its rows are like those of the previous one.
    """
    rows = min(FIRST_ROWS, max_rows)
    while True:
        started = time.monotonic()
        batch = fetch(rows)
        growth = min(GROWTH, BATCH_SECONDS / max(1e-6, time.monotonic() - started))
        count, each = batch.num_rows, batch.nbytes / max(1, batch.num_rows)
        yield batch
        del batch  # before the next one exists
        if count < rows:
            return
        rows = max(1, min(max_rows, int(rows * growth), int(size / max(1.0, each))))
