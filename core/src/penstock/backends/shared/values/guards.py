"""Guards against values that a driver or server would silently truncate, round, pad or replace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.shared.values.arrow import shown
from penstock.errors import Diagnosis, PermanentError

Changed = Callable[[pa.Array], pa.Array]
"""Returns for each value of an array whether it would be changed."""


@dataclass(frozen=True, slots=True)
class ValueGuard:
    """A check of one column's values before they are handed to a driver."""

    expected: str
    """The expected values, for messages."""
    changed: Changed


def check_values(
    batch: pa.RecordBatch, guards: Sequence[Iterable[ValueGuard]], subject: str, rows_before: int
) -> None:
    """Check a batch for values that its columns would change.

    Args:
        batch: the record batch.
        guards: the guards of each column, in the batch's order.
        subject: the table being copied, for error messages.
        rows_before: the number of rows before this batch.

    Raises:
        PermanentError: names the column, the row (counted from 1 in the stream) and the value.
    """
    for name, array, mine in zip(batch.schema.names, batch.columns, guards, strict=True):
        for guard in mine:
            row = pc.index(guard.changed(array).fill_null(False), True).as_py()
            if row >= 0:
                raise PermanentError(
                    f"{subject}: column {name!r}, row {rows_before + row + 1:,}: expected "
                    f"{guard.expected}, found {shown(array, row)}",
                    Diagnosis(side="target"),
                )


def characters(max_length: int, type_: object) -> ValueGuard:
    """Return a guard against texts that are longer than their type."""
    return ValueGuard(
        f"a value of {type_}", lambda array: pc.greater(pc.utf8_length(array), max_length)
    )


def octets(max_length: int, type_: object) -> ValueGuard:
    """Return a guard against binary values that are longer than their type."""
    return ValueGuard(
        f"a value of {type_}", lambda array: pc.greater(pc.binary_length(array), max_length)
    )


def all_octets(count: int, type_: object) -> ValueGuard:
    """Return a guard against binary values whose length differs from their fixed-length type."""
    return ValueGuard(
        f"{count} bytes, the length of {type_}",
        lambda array: pc.not_equal(pc.binary_length(array), count),
    )


def days(first: date, last: date, type_: object) -> ValueGuard:
    """Return a guard against times outside the range of days of their type.

    Args:
        first: the first day of the type.
        last: the last day of the type.
        type_: the type, as the session describes it.
    """

    def outside(array: pa.Array) -> pa.Array:
        days = array.cast(pa.date32(), safe=False)  # without the time of day
        return pc.or_(pc.less(days, first), pc.greater(days, last))

    return ValueGuard(f"a day from {first} to {last}, the range of {type_}", outside)


def steps(step: int, type_: object) -> ValueGuard:
    """Return a guard against times between two values of their type.

    Args:
        step: microseconds between two values.
        type_: the type, as the session describes it.
    """
    return ValueGuard(
        f"a time with no more digits than {type_} has",
        lambda array: remains(array.cast(pa.int64()), step),
    )


def remains(numbers: pa.Array, step: int) -> pa.Array:
    """Return for each number whether it is not a multiple of another."""
    return pc.not_equal(pc.multiply(pc.divide(numbers, step), step), numbers)
