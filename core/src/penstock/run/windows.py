"""The tables of a batch, a window of them after the other: each takes locks on both servers, and
memory here."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

WINDOW = 100


def windows(tables: Sequence[T]) -> Iterator[Sequence[T]]:
    for first in range(0, len(tables), WINDOW):
        if first:
            # What was known of the last window's tables refers to itself in circles. The command
            # line collects those so seldom that they would pile up.
            gc.collect()
        yield tables[first : first + WINDOW]
