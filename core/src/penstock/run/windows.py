"""The tables of a batch, one window after another: each takes locks on servers and memory here."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

WINDOW = 100


def windows(tables: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield the tables of a batch in windows, and collect garbage in between."""
    for first in range(0, len(tables), WINDOW):
        if first:
            # The objects of the last window's tables form reference cycles. The command line runs
            # the collector so seldom that they would pile up.
            gc.collect()
        yield tables[first : first + WINDOW]
