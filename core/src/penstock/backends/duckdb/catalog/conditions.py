"""A partition's extent as a condition, the same wherever DuckDB evaluates it."""

from __future__ import annotations

from penstock.backends.duckdb.quoting import bound_value, comparable, ident, raw
from penstock.errors import PlanningError
from penstock.model.extents import (
    BlockRange,
    Extent,
    HashBucket,
    Key,
    KeyIsNull,
    KeyOther,
    KeyRange,
    KeyValues,
    Whole,
)

# Rows of a row group: what a block of a table is here.
# https://duckdb.org/docs/stable/internals/storage
GROUP_ROWS = 122_880


def key_expression(key: Key) -> str:
    return raw(key.text) if key.expression else ident(key.text)


def digest_of(text: str) -> str:
    """The first 15 hexadecimal digits of the md5 of a text, as a number: the same in any version.

    DuckDB's own `hash` may change with it.
    """
    return f"CAST('0x' || left(md5({text}), 15) AS UBIGINT)"


def condition(where: str | None, extent: Extent) -> str:
    """The whole predicate of a partition: its extent and the run's condition.

    Raises:
        PlanningError: the extent is none of DuckDB's.
    """
    parts = [] if where is None else [raw(where)]
    parts += _extent(extent)
    return " AND ".join(parts) or "true"


def _extent(extent: Extent) -> list[str]:
    match extent:
        case Whole():
            return []
        case BlockRange(lower, upper):
            parts = [f"rowid >= {lower * GROUP_ROWS}"]
            return parts if upper is None else [*parts, f"rowid < {upper * GROUP_ROWS}"]
        case KeyRange(key, None, None) | KeyOther(key, ()):
            return [f"{key_expression(key)} IS NOT NULL"]
        case KeyRange(key, first, last):
            ends = []
            if first is not None:
                ends.append(f"{_compared(key, first.type)} >= {bound_value(first)}")
            if last is not None:
                ends.append(f"{_compared(key, last.type)} < {bound_value(last)}")
            return ends
        case KeyIsNull(key):
            return [f"{key_expression(key)} IS NULL"]
        case KeyValues(key, values):
            listed = ", ".join(map(bound_value, values))
            return [f"{_compared(key, values[0].type)} IN ({listed})"]
        case KeyOther(key, values):
            listed = ", ".join(map(bound_value, values))
            return [f"{_compared(key, values[0].type)} NOT IN ({listed})"]
        case HashBucket(key, modulus, remainder):
            number = digest_of(f"CAST({key_expression(key)} AS VARCHAR)")
            return [f"coalesce({number} % {modulus}, 0) = {remainder}"]
        case _:
            raise PlanningError(f"DuckDB has no rows by {extent}")


def _compared(key: Key, tag: str) -> str:
    return comparable(tag, key_expression(key))
