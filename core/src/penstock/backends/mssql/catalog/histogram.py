"""Bounds of a key's ranges from a statistics histogram, without reading the table.

A histogram has at most 200 steps, and few if keys are evenly distributed. Between two steps keys
are assumed to be evenly distributed, as the server does.

https://learn.microsoft.com/en-us/sql/relational-databases/system-dynamic-management-views/sys-dm-db-stats-histogram-transact-sql
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from penstock.backends.api.facts import WeightedBound
from penstock.backends.mssql.session import ONE_TABLE, MssqlSession
from penstock.backends.sql.dialect import Type
from penstock.backends.sql.rows.midpoints import middles, time_of
from penstock.errors import PlanningError
from penstock.model.extents import Bound, Key
from penstock.model.tables import TableRef

# The share of rows that may have been written since.
STALE = 0.05
# The share of rows that may lie between two known bounds; beyond it a sample is better.
COARSE = 1 / 32
# The share of rows below which ranges are not halved again.
FINE = 1 / 1024
# Types whose order differs from that of the steps: see `Dialect.comparable`.
_OTHER_ORDER = ("varchar",)
_STATISTICS = (
    "JOIN sys.stats AS t ON t.object_id = o.object_id AND t.has_filter = 0"
    " JOIN sys.stats_columns AS x ON x.object_id = t.object_id AND x.stats_id = t.stats_id"
    " AND x.stats_column_id = 1"
    " JOIN sys.columns AS c ON c.object_id = x.object_id AND c.column_id = x.column_id"
    " CROSS APPLY sys.dm_db_stats_properties(t.object_id, t.stats_id) AS p"
)


@dataclass(frozen=True, slots=True)
class HistogramStep:
    """A step of a histogram, as in the view `sys.dm_db_stats_histogram`.

    See https://learn.microsoft.com/en-us/sql/relational-databases/statistics.
    """

    key: str | None
    """The key as the text of a bound; None for NULL."""
    below: float
    """The number of rows between the previous step and this one."""
    equal: float
    """The number of rows with this key."""


def read_bounds(
    session: MssqlSession, table: TableRef, key: Key, tag: str, type_: Type, rows: int
) -> tuple[tuple[WeightedBound, ...], float, str] | None:
    """Return weighted bounds, the share of NULL keys, and their origin; None without a histogram.

    None also if the histogram is too old or too coarse.

    Args:
        session: a session with the source.
        table: the table.
        key: a column of the table.
        tag: the tag of the key's type.
        type_: the key's type.
        rows: the table's current number of rows.
    """
    if tag in _OTHER_ORDER:
        return None
    try:
        statistics = session.facts_of_table(statistics_query(session, key), table)
        if not statistics:
            return None
        ((number, name, counted, sampled, changed, day),) = statistics
        if max(changed or 0, rows - counted) > STALE * counted:
            return None
        steps = [
            HistogramStep(text, float(below), float(equal))
            for text, below, equal in session.facts_of_table(
                steps_query(session, int(number), tag, type_), table
            )
        ]
    except PlanningError:  # the server is too old, or the user may not see the values
        return None
    bounds = bounds_of(steps, tag, max(0, rows - counted))
    if bounds is None:
        return None
    every = "" if sampled == counted else f", {sampled:,} of {counted:,} rows"
    return *bounds, f"the histogram of statistics {name} ({day}{every})"


def statistics_query(session: MssqlSession, key: Key) -> str:
    """Return the query for a column's most recent statistics, and how they were created."""
    return (
        "SELECT TOP (1) t.stats_id, t.name, p.rows, p.rows_sampled, p.modification_counter,"
        f" CONVERT(varchar(10), p.last_updated, 23) {ONE_TABLE} {_STATISTICS}"
        f" WHERE c.name = {session.dialect.literal(key.text)} AND p.rows > 0"
        " ORDER BY p.modification_counter, p.rows_sampled DESC"
    )


def steps_query(session: MssqlSession, number: int, tag: str, type_: Type) -> str:
    """Return the query for the steps of a column's histogram.

    Args:
        session: a session with the source.
        number: the id of the statistics.
        tag: the tag of the column's type.
        type_: the column's type.
    """
    apply = f"CROSS APPLY sys.dm_db_stats_histogram(o.object_id, {number}) AS h"
    text = session.dialect.bound_text(tag, f"CAST(h.range_high_key AS {type_})")
    return f"SELECT {text}, h.range_rows, h.equal_rows {ONE_TABLE} {apply} ORDER BY h.step_number"


def bounds_of(
    steps: Sequence[HistogramStep], tag: str, more: int
) -> tuple[tuple[WeightedBound, ...], float] | None:
    """Compute the bounds of a histogram; see `read_bounds`.

    Args:
        steps: the histogram's steps, in order.
        tag: the tag of the key's type.
        more: the number of rows added since; most keys grow, so they follow the last one.
    """
    nulls = sum(step.equal for step in steps if step.key is None)
    keyed = [(step.key, step.below, step.equal) for step in steps if step.key is not None]
    total = sum(below + equal for _, below, equal in keyed) + more
    if not total:
        return None
    pieces: list[tuple[str, float]] = []
    for (low, _, equal), (high, below, _) in pairwise(keyed):
        (first, rows), *halves = _halve(tag, low, high, below, FINE * total)
        if max([rows, *(each for _, each in halves)]) > COARSE * total:
            return None
        pieces += [(first, rows + equal), *halves]
    last, _, equal = keyed[-1]
    pieces.append((last, equal + more))
    bounds = tuple(WeightedBound(Bound(tag, text), rows / total) for text, rows in pieces)
    return bounds, nulls / (nulls + total)


def _halve(tag: str, low: str, high: str, rows: float, least: float) -> Iterator[tuple[str, float]]:
    """Yield keys that halve the rows between two keys until few remain.

    Each comes with its rows up to the next.
    """
    at = next(iter(middles(tag, low, high)), None) if rows > least and tag in _EVEN else None
    # A text may be less precise than its value, and a bound out of order would select rows twice.
    if at is None or not _EVEN[tag](low) < _EVEN[tag](at) < _EVEN[tag](high):
        yield low, rows
        return
    yield from _halve(tag, low, at, rows / 2, least)
    yield from _halve(tag, at, high, rows / 2, least)


_EVEN: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("int2", "int4", "int8", "numeric"), Fraction),
    **dict.fromkeys(("date", "timestamp", "timestamptz"), time_of),
}
"""Tags of keys that can be halved, and how to parse their texts."""
