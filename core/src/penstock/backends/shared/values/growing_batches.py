"""Batches of as many rows as a driver is asked for: few at first, then as many as fit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pyarrow as pa

# Of a stream's first batch, whose rows may be of any size; and what the next one may grow by.
FIRST_ROWS = 64
GROWTH = 8.0
# While a driver waits for the rows of a batch it may let no other thread run, such as the one that
# tells that a worker is alive: so where rows come slowly, a batch has few.
BATCH_SECONDS = 1.0


def growing(
    fetch: Callable[[int], pa.RecordBatch], most: int, size: int
) -> Iterator[pa.RecordBatch]:
    """All rows; the first batch comes even if it has none.

    Parameters:
        fetch: the next rows, as many as it is told; fewer at the end.
        most: rows of a batch, at most.
        size: bytes of a batch, as far as its rows are like those of the one before.
    """
    rows = min(FIRST_ROWS, most)
    while True:
        begun = time.monotonic()
        batch = fetch(rows)
        growth = min(GROWTH, BATCH_SECONDS / max(1e-6, time.monotonic() - begun))
        count, each = batch.num_rows, batch.nbytes / max(1, batch.num_rows)
        yield batch
        del batch  # before there is another one
        if count < rows:
            return
        rows = max(1, min(most, int(rows * growth), int(size / max(1.0, each))))
