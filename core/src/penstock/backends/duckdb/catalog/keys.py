"""What is known about a key: its type, its bounds, windows of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from duckdb import DuckDBPyConnection

from penstock.backends.api.facts import WeightedBound
from penstock.backends.duckdb.catalog.conditions import key_expression
from penstock.backends.duckdb.errors import planning
from penstock.backends.duckdb.quoting import (
    TEXTS,
    TIMES,
    WHOLE_NUMBERS,
    bound_text,
    bound_value,
    comparable,
    literal,
    raw,
    type_of,
)
from penstock.backends.duckdb.rows import first
from penstock.errors import PlanningError
from penstock.model.extents import Bound, Key

# Tags of types whose text is exact and whose order is total.
RANGED = (
    "int2", "int4", "int8", "numeric", "float4", "float8", "date", "timestamp", "timestamptz",
    "timestamp_ns", "uuid", "text",
)  # fmt: skip
_TAGS = {
    "boolean": "bool",
    "tinyint": "int2",
    "smallint": "int2",
    "integer": "int4",
    "bigint": "int8",
    "utinyint": "int2",
    "usmallint": "int4",
    "uinteger": "int8",
    "ubigint": "numeric",
    "hugeint": "numeric",
    "uhugeint": "numeric",
    "decimal": "numeric",
    "float": "float4",
    "double": "float8",
    "varchar": "text",
    "enum": "text",
    "date": "date",
    "time": "time",
    "timestamp": "timestamp",
    "timestamp_s": "timestamp",
    "timestamp_ms": "timestamp",
    "timestamp with time zone": "timestamptz",
    "uuid": "uuid",
    "blob": "bytea",
}
# What a value takes that many rows share is missing elsewhere: finer tiles make up for it.
TILES_PER_PARTITION = 4
# Enough for a thousand even partitions.
MOST_BOUNDS = 4000


def tag_of(type_: Any) -> str:
    """The tag that bounds of a type carry."""
    return _TAGS.get(type_.id, str(type_).lower())


def check_ranged(key: Key, tag: str) -> None:
    if tag not in RANGED:
        raise PlanningError(
            f"--key {key.text}: cannot be ranged: expected a column of type {', '.join(RANGED)}; "
            f"found {tag}"
        )


def compared(key: Key, tag: str) -> str:
    return comparable(tag, key_expression(key))


def tiles(
    connection: DuckDBPyConnection, rows: str, key: Key, tag: str, where: str | None, count: int
) -> tuple[tuple[WeightedBound, ...], float]:
    """Keys that begin a tile of about equally many rows, with their weights; the share of NULLs.

    Equal keys are never told apart: a bound's weight reaches up to the next bound.
    """
    condition = "true" if where is None else raw(where)
    query = f"""
        WITH counted AS (
            SELECT {compared(key, tag)} AS value, count(*) AS n
            FROM {rows} WHERE {condition} GROUP BY 1
        ), placed AS (
            SELECT value, sum(n) OVER sorted - n AS place, sum(n) OVER () AS known
            FROM counted WHERE value IS NOT NULL WINDOW sorted AS (ORDER BY value)
        ), bounds AS (
            SELECT value, place, known,
                place * {count} // known > coalesce(
                    lag(place) OVER (ORDER BY value) * {count} // known, -1) AS begins
            FROM placed
        ), kept AS (SELECT value, place, known FROM bounds WHERE begins)
        SELECT {bound_text(tag, "value")},
            CAST(lead(place, 1, known) OVER (ORDER BY value) - place AS DOUBLE) / known,
            (SELECT coalesce(sum(n) FILTER (value IS NULL) / sum(n), 0) FROM counted)
        FROM kept ORDER BY value"""
    with planning("source", f"--key {key.text}"):
        found = connection.execute(query).fetchall()
    bounds = tuple(WeightedBound(Bound(tag, text), float(weight)) for text, weight, _ in found)
    return bounds, float(found[0][2]) if found else 0.0


def windows(
    connection: DuckDBPyConnection,
    rows: str,
    key: Key,
    tag: str,
    interval: str,
    where: str | None,
    limit: int,
) -> tuple[tuple[Bound, ...], str]:
    """See `SourceCatalog.windows`. They start at the year, week, day or hour of the first value."""
    if tag not in TIMES:
        raise PlanningError(
            f"--strategy time: --key {key.text}: expected a column of type {', '.join(TIMES)}; "
            f"found {tag}"
        )
    width = f"CAST({literal(interval)} AS INTERVAL)"
    with planning("source", f"--interval {interval!r}"):
        found = first(connection.execute(f"SELECT {width} > INTERVAL 0 DAY"))
    if found is None or not found[0]:
        raise PlanningError(
            f"--interval: expected an interval longer than zero, found {interval!r}"
        )
    value = key_expression(key)
    condition = f"isfinite({value})" + ("" if where is None else f" AND {raw(where)}")
    with planning("source", f"--key {key.text}"):
        first_last = first(
            connection.execute(
                f"SELECT CAST(min({value}) AS VARCHAR), CAST(max({value}) AS VARCHAR) FROM {rows} "
                f"WHERE {condition}"
            )
        )
    origin = "the key's least and greatest value"
    if first_last is None or first_last[0] is None:
        return (), origin
    lowest, highest = (f"CAST({literal(text)} AS {type_of(tag)})" for text in first_last)
    # In the session's zone, which is UTC, as the texts of bounds are.
    query = f"""
        WITH asked AS (SELECT {width} AS width),
        edges AS (
            SELECT width, CAST({highest} AS TIMESTAMP) AS last, date_trunc(
                CASE WHEN width >= INTERVAL 1 MONTH THEN 'year'
                    WHEN width >= INTERVAL 7 DAY AND epoch(width) % 604800 = 0 THEN 'week'
                    WHEN width >= INTERVAL 1 HOUR THEN 'day'
                    ELSE 'hour' END,
                CAST({lowest} AS TIMESTAMP)) AS first
            FROM asked
        )
        SELECT DISTINCT CAST(first + width * i AS {type_of(tag)}) AS start
        FROM edges, range({limit + 1}) AS r (i)
        WHERE first + width * i <= last"""
    text = f"SELECT {bound_text(tag, 'start')} FROM ({query}) AS s ORDER BY start"
    with planning("source", f"--interval {interval!r}"):
        starts = connection.execute(text).fetchall()
    if len(starts) > limit:
        raise PlanningError(
            f"--interval {interval!r}: more than {limit:,} windows from {first_last[0]} to "
            f"{first_last[1]}; expected a wider interval"
        )
    return tuple(Bound(tag, start) for (start,) in starts), origin


def read_ranges(
    connection: DuckDBPyConnection,
    key: Key,
    tag: str,
    ranges: Sequence[tuple[str | None, str | None]],
) -> tuple[tuple[Bound | None, Bound | None], ...]:
    """See `SourceCatalog.read_ranges`."""
    subject = f"--key {key.text}: bounds"
    listed = ", ".join(
        f"({place}, {_written(key, tag, lower)}, {_written(key, tag, upper)})"
        for place, (lower, upper) in enumerate(ranges)
    )
    query = f"""
        WITH written (position, lower, upper) AS (VALUES {listed}),
        ordered AS (
            SELECT *, lag(position) OVER sorted AS before, lag(upper) OVER sorted AS upper_before
            FROM written WINDOW sorted AS (ORDER BY lower NULLS FIRST, upper NULLS LAST)
        )
        SELECT {_text_of(tag, "lower")}, {_text_of(tag, "upper")}, coalesce(lower <= upper, true),
            CASE WHEN before IS NOT NULL AND coalesce(lower < upper_before, true) THEN before END
        FROM ordered ORDER BY position"""
    with planning("source", subject):
        rows = connection.execute(query).fetchall()
    found = []
    for position, (lower, upper, ascends, overlapped) in enumerate(rows):
        if not ascends:
            raise PlanningError(
                f"--key {key.text}: expected bounds that ascend, found {_shown(*ranges[position])}"
            )
        if overlapped is not None:
            raise PlanningError(
                f"--key {key.text}: expected ranges that are apart, found "
                f"{_shown(*ranges[position])} and {_shown(*ranges[overlapped])}"
            )
        found.append(
            (
                None if lower is None else Bound(tag, lower),
                None if upper is None else Bound(tag, upper),
            )
        )
    return tuple(found)


def read_values(
    connection: DuckDBPyConnection, key: Key, tag: str, values: Sequence[str]
) -> tuple[Bound, ...]:
    """See `SourceCatalog.read_values`."""
    if not values:
        return ()
    listed = ", ".join(
        f"({place}, {_written(key, tag, value)})" for place, value in enumerate(values)
    )
    query = f"""
        WITH written (position, value) AS (VALUES {listed})
        SELECT {_text_of(tag, "value")},
            nullif(min(position) OVER (PARTITION BY value), position)
        FROM written ORDER BY position"""
    with planning("source", f"--key {key.text}: values"):
        rows = connection.execute(query).fetchall()
    for position, (text, repeated) in enumerate(rows):
        if repeated is not None:
            raise PlanningError(
                f"--key {key.text}: expected each value once, found {values[repeated]!r} and "
                f"{values[position]!r}, which are {text!r} both"
            )
    return tuple(Bound(tag, text) for text, _ in rows)


def _written(key: Key, tag: str, text: str | None) -> str:
    """A text that somebody wrote, as a value; what its type would round off is refused."""
    if text is None:
        return "NULL" if tag == "numeric" else f"CAST(NULL AS {type_of(tag)})"
    try:
        value = bound_value(Bound(tag, text))
    except PlanningError as error:
        raise PlanningError(f"--key {key.text}: {error.message}") from error
    if tag == "date":
        # A cast to a date cuts the time of day off without a word.
        said = literal(f"expected a date, found {text}, which has a time of day")
        stamp = f"CAST({literal(text)} AS TIMESTAMP)"
        return f"CASE WHEN {stamp} = CAST({value} AS TIMESTAMP) THEN {value} ELSE error({said}) END"
    return comparable(tag, value) if tag in TEXTS else value


def _text_of(tag: str, value: str) -> str:
    text = bound_text(tag, value)
    if tag in WHOLE_NUMBERS or tag != "numeric":
        return text
    # Values of one list share a scale, which adds zeros.
    return f"CASE WHEN contains({text}, '.') THEN rtrim(rtrim({text}, '0'), '.') ELSE {text} END"


def _shown(lower: str | None, upper: str | None) -> str:
    return f"[{'' if lower is None else lower}, {'' if upper is None else upper})"
