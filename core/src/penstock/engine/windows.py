"""The tables of a batch, one window after another: each takes locks on servers and memory here."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

WINDOW = 100
# A full collection looks at everything that is imported, and at all runs of the batch: as much work
# as fifty tables, or more.
FULL_EVERY = 25
YOUNG, ALL = 1, 2


def windows(tables: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the tables of a batch in windows, and collect garbage in between."""
    for number, first in enumerate(range(0, len(tables), WINDOW)):
        if number:
            # The objects of the last window's tables form reference cycles. The command line runs
            # the collector so seldom that they would pile up.
            gc.collect(YOUNG if number % FULL_EVERY else ALL)
        yield tables[first : first + WINDOW]
