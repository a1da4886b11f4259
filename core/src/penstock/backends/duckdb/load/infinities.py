"""Infinite dates and timestamps: numbers that DuckDB reserves, and Arrow treats as any other."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.shared.values.arrow import compacted, first_failing, leaves

_INFINITE = {"date": (1 << 31) - 1, "timestamp": (1 << 63) - 1}
# https://duckdb.org/docs/stable/sql/data_types/timestamp: earlier values have no text.
_FIRST = {"us": -9_223_372_022_400_000_000, "ns": -9_223_286_400_000_000_000}


class Infinite(ValueError):
    """An infinite date or timestamp was found.

    Args:
        kind: `date` or `timestamp`.
        text: the value that was found.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def first_infinite(array: pa.Array) -> tuple[int, Infinite] | None:
    """Return the index and kind of the first value that is not finite; None if all are."""
    try:
        check_finite(array)
    except Infinite:
        row = first_failing(array, check_finite)
    else:
        return None
    try:
        check_finite(compacted(array.slice(row, 1)))
        raise AssertionError("that row is finite")
    except Infinite as found:
        return row, found


def check_finite(array: pa.Array) -> None:
    """Check that all dates and timestamps are finite.

    Raises:
        Infinite: a value, at any depth, is infinite or beyond DuckDB's range.
    """
    for leaf in leaves(array):
        if pa.types.is_date32(leaf.type):
            _check_ends(leaf.view(pa.int32()), "date", -_INFINITE["date"] + 1)
        elif pa.types.is_timestamp(leaf.type):
            first = _FIRST.get(leaf.type.unit, -_INFINITE["timestamp"] + 1)
            _check_ends(leaf.view(pa.int64()), "timestamp", first)


def _check_ends(numbers: pa.Array, kind: str, first: int) -> None:
    ends = pc.min_max(numbers)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if high == _INFINITE[kind]:
        raise Infinite(kind, "infinity")
    if low == -_INFINITE[kind]:
        raise Infinite(kind, "-infinity")
    if low is not None and low < first:
        raise Infinite(kind, "one before all that are finite")
