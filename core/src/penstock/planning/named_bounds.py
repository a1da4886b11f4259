"""Bounds of a key as the caller wrote them: the source parses them and puts them in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from penstock.backends.api.facts import RankedBound
from penstock.errors import PlanningError
from penstock.model.extents import Bound, Key

Rank = Callable[[tuple[str, ...]], tuple[RankedBound, ...]]
"""Parses values of a key and puts them in order; see `SourceCatalog.rank_values`."""
Range = tuple[str | None, str | None]
"""The lower bound, and the excluded upper bound; None for an open side."""


def read_ranges(
    rank: Rank, key: Key, ranges: Sequence[Range]
) -> tuple[tuple[Bound | None, Bound | None], ...]:
    """Return the bounds of ranges, parsed by the source.

    Args:
        rank: the source's parser.
        key: the key.
        ranges: the ranges, with bounds as texts.

    Raises:
        PlanningError: a bound is not a value of the key's type, a range ends before it begins, or
            two ranges overlap.
    """
    texts = tuple(text for range_ in ranges for text in range_ if text is not None)
    read = iter(rank(texts))
    ranked = [
        (None if lower is None else next(read), None if upper is None else next(read))
        for lower, upper in ranges
    ]
    for range_, (lower, upper) in zip(ranges, ranked, strict=True):
        _check_exact(key, [bound for bound in (lower, upper) if bound], _range_text(range_))
        if lower and upper and lower.rank > upper.rank:
            raise PlanningError(
                f"--key {key.text}: expected ascending bounds, found {_range_text(range_)}"
            )
    _check_apart(key, ranges, ranked)
    return tuple((_bound(lower), _bound(upper)) for lower, upper in ranked)


def _check_apart(
    key: Key,
    ranges: Sequence[Range],
    ranked: Sequence[tuple[RankedBound | None, RankedBound | None]],
) -> None:
    # An open side sorts before or after all bounds.
    last = max((bound.rank for pair in ranked for bound in pair if bound), default=0) + 1
    placed = sorted(
        (lower.rank if lower else 0, upper.rank if upper else last, position)
        for position, (lower, upper) in enumerate(ranked)
    )
    for (_, end, before), (begin, _, position) in pairwise(placed):
        if begin < end:
            raise PlanningError(
                f"--key {key.text}: expected ranges that do not overlap, found "
                f"{_range_text(ranges[position])} and {_range_text(ranges[before])}"
            )


def read_values(rank: Rank, key: Key, values: Sequence[str]) -> tuple[Bound, ...]:
    """Return values, parsed by the source.

    Args:
        rank: the source's parser.
        key: the key.
        values: the values as texts.

    Raises:
        PlanningError: a value is not of the key's type, or appears twice.
    """
    ranked = rank(tuple(values))
    text_by_rank: dict[int, str] = {}
    for text, value in zip(values, ranked, strict=True):
        _check_exact(key, [value], text)
        if value.rank in text_by_rank:
            raise PlanningError(
                f"--key {key.text}: expected each value once, found {text_by_rank[value.rank]!r} "
                f"and {text!r}, which are both {value.bound.text!r}"
            )
        text_by_rank[value.rank] = text
    return tuple(value.bound for value in ranked)


def _check_exact(key: Key, bounds: Sequence[RankedBound], shown: str) -> None:
    for bound in bounds:
        if not bound.exact:
            raise PlanningError(
                f"--key {key.text}: expected bounds of type {bound.bound.type}, found {shown}, "
                "which has a time of day"
            )


def _bound(ranked: RankedBound | None) -> Bound | None:
    return ranked.bound if ranked else None


def _range_text(bounds: Range) -> str:
    lower, upper = bounds
    return f"[{lower or ''}, {upper or ''})"
