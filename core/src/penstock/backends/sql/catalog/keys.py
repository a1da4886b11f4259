"""Bounds of a key, as the database compares and writes them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from penstock.backends.api.facts import RankedBound, WeightedBound
from penstock.backends.sql.dialect import raw
from penstock.backends.sql.rows.bounds import TIMES
from penstock.backends.sql.rows.conditions import condition
from penstock.backends.sql.session import Session
from penstock.errors import PlanningError, UsageError
from penstock.model.extents import Bound, Key, Whole

# A value shared by many rows leaves fewer tiles for the rest; finer tiles make up for it.
TILES_PER_PARTITION = 4
# In a sample: enough for a thousand even partitions.
MOST_BOUNDS = 4000
# Comparisons of two bounds per statement: some servers limit the width of rows.
MOST_TESTS = 1000
NOTHING = "nothing: the source has no statistics on it, and it cannot be sampled"
SPAN = "the key's minimum and maximum"


def tiles(
    session: Session, rows: str, key: Key, tag: str, where: str | None, count: int
) -> tuple[tuple[WeightedBound, ...], float]:
    """Return weighted keys, each starting a tile of about as many rows, and the share of NULLs.

    Equal keys are never separated: a bound's weight extends to the next bound.

    Args:
        session: the session with the database.
        rows: the item of FROM with the table's rows.
        key: the key.
        tag: the type of the value, as in `Bound`.
        where: the condition of `--where`; None for all rows.
        count: the number of parts to aim for.
    """
    dialect = session.dialect
    bound_rows = session.fetch(
        f"""
        WITH counted AS (
            SELECT value, {dialect.counted} AS n FROM (
                SELECT {dialect.compared_key(key, tag)} AS value FROM {rows}
                WHERE {condition(dialect, where, Whole())}
            ) AS listed GROUP BY value
        ), placed AS (
            SELECT value, sum(n) OVER (ORDER BY value) - n AS place, sum(n) OVER () AS known
            FROM counted WHERE value IS NOT NULL
        ), tiled AS (
            SELECT value, place, known, floor(place * {count} / known) AS tile FROM placed
        ), bounds AS (
            SELECT value, place, known, tile, lag(tile) OVER (ORDER BY value) AS previous FROM tiled
        )
        SELECT {dialect.bound_text(tag, "value")} AS bound, place, known,
            (SELECT coalesce(sum(n), 0) FROM counted WHERE value IS NULL)
        FROM bounds WHERE previous IS NULL OR tile > previous ORDER BY value""",
        f"--key {key.text}",
    )
    if not bound_rows:
        return (), 0.0
    _, _, non_null, nulls = bound_rows[0]
    ends = [*(place for _, place, _, _ in bound_rows[1:]), non_null]
    bounds = tuple(
        WeightedBound(Bound(tag, text), float(end - place) / float(non_null))
        for (text, place, _, _), end in zip(bound_rows, ends, strict=True)
    )
    return bounds, float(nulls) / float(non_null + nulls)


def windows(
    session: Session, rows: str, key: Key, tag: str, interval: str, where: str | None, limit: int
) -> tuple[tuple[Bound, ...], str]:
    """Return windows; see `SourceCatalog.windows`.

    They start at the year, week, day or hour of the first value.

    Args:
        session: a session with the source.
        rows: the item of FROM.
        key: the key.
        tag: the type of the key, as in `Bound`.
        interval: the width of a window, such as `1 day`.
        where: the condition of `--where`; None for all rows.
        limit: the most windows; more are an error.
    """
    check_timed(key, tag)
    dialect = session.dialect
    width = dialect.interval(interval)
    positive = session.fetch(f"SELECT {dialect.is_positive(width)}", f"--interval {interval!r}")
    check_positive(interval, positive=bool(positive[0][0]))
    value = dialect.key(key)
    tested = dialect.is_finite(value) + ("" if where is None else f" AND {raw(where)}")
    ends = session.fetch(
        f"SELECT {dialect.bound_text(tag, f'min({value})')}, "
        f"{dialect.bound_text(tag, f'max({value})')} FROM {rows} WHERE {tested}",
        f"--key {key.text}",
    )
    first, last = ends[0]
    if first is None:
        return (), SPAN
    low, high = (dialect.bound(Bound(tag, text)) for text in (first, last))
    starts = dialect.window_starts(width, tag, low, high, limit + 1)
    texts = session.fetch(
        f"SELECT {dialect.bound_text(tag, 'start')} AS bound FROM ({starts}) AS s ORDER BY start",
        f"--interval {interval!r}",
    )
    check_windows(interval, len(texts), limit, first, last)
    return tuple(Bound(tag, text) for (text,) in texts), SPAN


def check_timed(key: Key, tag: str) -> None:
    """Check that a key is a date or timestamp.

    Raises:
        PlanningError: the key is neither.
    """
    if tag not in TIMES:
        raise PlanningError(
            f"--strategy time: --key {key.text}: expected a column of type {', '.join(TIMES)}; "
            f"found {tag}"
        )


def check_positive(interval: str, *, positive: bool) -> None:
    """Check that an interval is longer than zero.

    Args:
        interval: the interval, as the user wrote it.
        positive: whether the database finds it longer than zero.

    Raises:
        UsageError: the interval is zero or negative.
    """
    if not positive:
        raise UsageError(f"--interval: expected an interval longer than zero, found {interval!r}")


def check_windows(interval: str, count: int, limit: int, first: str, last: str) -> None:
    """Check that an interval does not partition a key into more windows than a plan may have.

    Args:
        interval: the interval, as the user wrote it.
        count: the number of windows; may stop at one more than the limit.
        limit: the highest number allowed.
        first: the lowest value of the key.
        last: the highest value of the key.

    Raises:
        PlanningError: there are too many windows.
    """
    if count > limit:
        raise PlanningError(
            f"--interval {interval!r}: more than {limit:,} windows from {first} to {last}; "
            "use a wider interval"
        )


def distinct_values(
    session: Session, key: Key, listed: str, tag: str, type_: str, limit: int, subject: str
) -> tuple[Bound, ...]:
    """Return the distinct non-NULL values of a query's single column, in the key's order.

    Args:
        session: the session with the source.
        key: the key.
        listed: the query for the values.
        tag: the type of the value, as in `Bound`.
        type_: the key's type, to which the values are cast.
        limit: the most values to return; more are an error.
        subject: the subject of error messages.

    Raises:
        PlanningError: there are more values than the limit, or a value cannot be written in a
            condition.
    """
    dialect = session.dialect
    value = dialect.collated_value(key, tag, "value")
    chosen = dialect.limited_query(
        f"SELECT DISTINCT {value} AS value FROM (SELECT {dialect.cast('value', type_)} AS value "
        "FROM penstock_listed) AS typed WHERE value IS NOT NULL",
        limit + 1,
    )
    values = session.fetch(
        f"WITH penstock_listed (value) AS ({listed}) "
        f"SELECT {dialect.bound_text(tag, 'value')} AS bound FROM ({chosen}) AS d ORDER BY value",
        subject,
    )
    check_distinct(subject, len(values), limit)
    bounds = tuple(Bound(tag, text) for (text,) in values)
    try:
        for each in bounds[:1]:
            dialect.bound_operand(key, each)
    except PlanningError:
        raise PlanningError(f"{subject}: no condition can name values of type {tag}") from None
    return bounds


def check_one_column(width: int) -> None:
    """Check the query for the values of a key.

    Raises:
        PlanningError: the query does not have exactly one column.
    """
    if width != 1:
        raise PlanningError(f"--values-query: expected one column, found {width}")


def check_distinct(subject: str, count: int, limit: int) -> None:
    """Check that a key has few enough distinct values for one partition each.

    Args:
        subject: the table and its key, for the message.
        count: the number of values; may stop at one more than the limit.
        limit: the highest number allowed.

    Raises:
        PlanningError: there are too many values.
    """
    if count > limit:
        raise PlanningError(
            f"{subject}: more than {limit:,} distinct values; expected a key with fewer, or "
            "--strategy range or hash"
        )


def misplaced_bound(session: Session, key: Key, bounds: Sequence[Bound]) -> int | None:
    """Return the index of a bound out of order; see `SourceCatalog.misplaced_bound`.

    Args:
        session: a session with the source.
        key: the key, with the collation by which its values are compared.
        bounds: the bounds, in the order to check.
    """
    dialect = session.dialect
    texts = [dialect.collated_value(key, bound.type, dialect.bound(bound)) for bound in bounds]
    # Some casts of a text return NULL, and a comparison with NULL proves nothing.
    tests = [f"CASE WHEN {low} < {high} THEN 0 ELSE 1 END" for low, high in pairwise(texts)]
    for first in range(0, len(tests), MOST_TESTS):
        listed = ", ".join(tests[first : first + MOST_TESTS])
        (row,) = session.fetch(f"SELECT {listed}", f"--key {key.text}: bounds")
        for place, fails in enumerate(row, first + 1):
            if fails:
                return place
    return None


def rank_values(
    session: Session, key: Key, tag: str, texts: Sequence[str]
) -> tuple[RankedBound, ...]:
    """Return values that the user wrote, ranked; see `SourceCatalog.rank_values`.

    Args:
        session: a session with the source.
        key: the key.
        tag: the type of the key, as in `Bound`.
        texts: the values, as texts.
    """
    if not texts:
        return ()
    dialect = session.dialect
    listed = " UNION ALL ".join(
        f"SELECT {place}, {_value(session, key, tag, text)}, {_is_exact(session, tag, text)}"
        for place, text in enumerate(texts)
    )
    rows = session.fetch(
        f"WITH penstock_written (place, value, exact) AS ({listed}) "
        f"SELECT {dialect.bound_text(tag, 'value')}, dense_rank() OVER (ORDER BY value), exact "
        "FROM penstock_written ORDER BY place",
        f"--key {key.text}: bounds",
    )
    return tuple(
        RankedBound(Bound(tag, _plain(tag, text)), rank, bool(exact)) for text, rank, exact in rows
    )


def _plain(tag: str, text: str) -> str:
    """Remove trailing zeros, which values get because those of one list share a scale."""
    return text.rstrip("0").rstrip(".") if tag == "numeric" and "." in text else text


def _value(session: Session, key: Key, tag: str, text: str) -> str:
    try:
        return session.dialect.collated_value(key, tag, session.dialect.bound(Bound(tag, text)))
    except PlanningError as error:
        raise PlanningError(f"--key {key.text}: {error.message}") from error


def _is_exact(session: Session, tag: str, text: str) -> str:
    if tag != "date":
        return "1"
    # A cast to a date silently drops the time of day.
    date, time = (session.dialect.bound(Bound(name, text)) for name in ("date", "timestamp"))
    midnight = session.dialect.cast(date, session.dialect.types["timestamp"])
    # a condition is not a value in every database
    return f"CASE WHEN {midnight} = {time} THEN 1 ELSE 0 END"
