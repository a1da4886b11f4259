"""A partition's extent as a condition."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.backends.sql.dialect import Dialect, raw
from penstock.errors import PlanningError
from penstock.model.extents import (
    BlockRange,
    Bound,
    ChildBlocks,
    Children,
    Crossing,
    Extent,
    HashBucket,
    Key,
    KeyIsNull,
    KeyOther,
    KeyRange,
    KeyValues,
    Whole,
)

TRUE = "1 = 1"


def condition(dialect: Dialect, where: str | None, extent: Extent) -> str:
    """Return the whole predicate of a partition: its extent and the run's condition.

    Args:
        dialect: the dialect of the statement.
        where: the condition of `--where`; None for all rows.
        extent: the rows of one partition, or all.

    Raises:
        PlanningError: the database does not support such extents.
    """
    parts = [] if where is None else [raw(where)]
    return " AND ".join([*parts, *_extent(dialect, extent)]) or TRUE


def _extent(dialect: Dialect, extent: Extent) -> Sequence[str]:
    match extent:
        case Whole() | Children():
            return []
        case BlockRange(lower, upper) | ChildBlocks(_, lower, upper):
            return dialect.blocks(lower, upper)
        case KeyRange(key, None, None) | KeyOther(key, ()):
            return [f"{dialect.key(key)} IS NOT NULL"]
        case KeyRange(key, first, last):
            ends = []
            if first is not None:
                value = dialect.bound_operand(key, first)
                ends.append(dialect.comparison(dialect.compared_key(key, first.type), ">=", value))
            if last is not None:
                value = dialect.bound_operand(key, last)
                ends.append(dialect.comparison(dialect.compared_key(key, last.type), "<", value))
            return ends
        case KeyIsNull(key):
            return [f"{dialect.key(key)} IS NULL"]
        case KeyValues(key, values):
            return [_listed(dialect, key, values)]
        case KeyOther(key, values):
            return [_listed(dialect, key, values, negated=True)]
        case Crossing(first, second):
            return [*_extent(dialect, first), *_extent(dialect, second)]
        case HashBucket(key, modulus, remainder):
            # Rows with a NULL key are in the first bucket.
            number = dialect.hash_number(dialect.key(key))
            return [dialect.in_bucket(number, modulus, remainder)]
        case _:
            raise PlanningError(f"{dialect.name} cannot select rows by {extent}")


def _listed(dialect: Dialect, key: Key, values: Sequence[Bound], *, negated: bool = False) -> str:
    listed = [dialect.bound_operand(key, value) for value in values]
    tag = values[0].type
    return dialect.listed(dialect.compared_key(key, tag), tag, listed, negated=negated)
