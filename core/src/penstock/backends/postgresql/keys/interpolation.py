"""Bounds between those of a histogram, for more partitions than the histogram has steps.

Values are assumed to be evenly distributed within a step. Only the sizes of partitions depend on
this: the server sorts all bounds before any is used.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from fractions import Fraction
from itertools import pairwise

from penstock.backends.sql.rows.midpoints import time_of

# Bounds per partition, so that partitions are roughly even.
PER_PARTITION = 4
_EXTRA_DIGITS = 6
_MICROSECOND = timedelta(microseconds=1)


def between(tag: str, low: str, high: str, pieces: int) -> list[str]:
    """Return values that divide an interval into pieces of equal width, as texts of bounds.

    Args:
        tag: the type of the bounds.
        low: the text of the lower end.
        high: the text of the upper end.
        pieces: the number of pieces.

    Returns:
        Fewer than requested if the interval has fewer values; none if the type has no values in
        between, or an end is infinite.
    """
    try:
        texts = [*_between(tag, low, high, pieces)]
    except (ValueError, OverflowError):  # infinity, NaN, years BC and beyond 9999
        return []
    return [text for text in dict.fromkeys(texts) if text not in (low, high)]


def _between(tag: str, low: str, high: str, pieces: int) -> Iterator[str]:
    match tag:
        case "int2" | "int4" | "int8":
            yield from map(str, _steps(int(low), int(high), pieces))
        case "numeric":
            scale = max(len(text.partition(".")[2]) for text in (low, high)) + _EXTRA_DIGITS
            first, last = (int(Fraction(text) * 10**scale) for text in (low, high))
            yield from (_decimal(number, scale) for number in _steps(first, last, pieces))
        case "float4" | "float8":
            start, end = float(low), float(high)
            if math.isfinite(start) and math.isfinite(end):
                width = end / pieces - start / pieces
                yield from (repr(start + width * step) for step in range(1, pieces))
        case "date":
            first, last = (date.fromisoformat(text).toordinal() for text in (low, high))
            yield from (date.fromordinal(day).isoformat() for day in _steps(first, last, pieces))
        case "timestamp" | "timestamptz":
            begin = time_of(low)
            width = (time_of(high) - begin) // _MICROSECOND
            zone = "+00" if tag == "timestamptz" else ""
            for passed in _steps(0, width, pieces):
                at = (begin + passed * _MICROSECOND).astimezone(begin.tzinfo)
                at = (at - (at.utcoffset() or timedelta())).replace(tzinfo=None)
                yield at.isoformat(" ", "microseconds") + zone
        case "uuid":
            first, last = (uuid.UUID(text).int for text in (low, high))
            yield from (str(uuid.UUID(int=number)) for number in _steps(first, last, pieces))


def _steps(low: int, high: int, pieces: int) -> Iterator[int]:
    for step in range(1, pieces):
        yield low + (high - low) * step // pieces


def _decimal(number: int, scale: int) -> str:
    digits = str(abs(number)).rjust(scale + 1, "0")
    integer, fraction = digits[:-scale], digits[-scale:].rstrip("0")
    return ("-" if number < 0 else "") + integer + (f".{fraction}" if fraction else "")


def finer(
    tag: str, histogram: Sequence[str], bounds: dict[str, float], count: int
) -> tuple[dict[str, float], int]:
    """Return weighted bounds, unordered, and the number of pieces most steps were divided into.

    Args:
        tag: the type of the bounds.
        histogram: the bounds of its steps, in order.
        bounds: all bounds with their weights, including some that are not bounds of steps.
        count: the number of partitions.
    """
    pieces = -(-PER_PARTITION * count // max(1, len(histogram) - 1))
    weights = dict(bounds)
    for low, high in pairwise(histogram):
        if low not in bounds or high not in bounds:
            continue  # excluded by the run's condition
        added = [text for text in between(tag, low, high, pieces) if text not in weights]
        share = bounds[low] / (len(added) + 1)
        weights |= dict.fromkeys([low, *added], share)
    return weights, pieces
