"""Values that a column would change: a driver or a server may cut, round, pad or replace them, and
say nothing, or not which one it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.shared.values.arrow import shown
from penstock.errors import Diagnosis, PermanentError

Changed = Callable[[pa.Array], pa.Array]
"""Tells for each value of an array whether it would become another one."""


@dataclass(frozen=True, slots=True)
class ValueGuard:
    expected: str
    """For messages."""
    changed: Changed


def check_values(
    batch: pa.RecordBatch, guards: Sequence[Iterable[ValueGuard]], subject: str, passed: int
) -> None:
    """
    Parameters:
        guards: those of each column, in the batch's order.
        subject: what is copied, for errors.
        passed: rows of the stream before this batch.

    Raises:
        PermanentError: names the column, the row, counted from 1 in the stream, and the value.
    """
    for name, array, mine in zip(batch.schema.names, batch.columns, guards, strict=True):
        for guard in mine:
            row = pc.index(guard.changed(array).fill_null(False), True).as_py()
            if row >= 0:
                raise PermanentError(
                    f"{subject}: column {name!r}, row {passed + row + 1:,}: expected "
                    f"{guard.expected}, found {shown(array, row)}",
                    Diagnosis(side="target"),
                )


def characters(most: int, type_: object) -> ValueGuard:
    """Texts that are longer than their type."""
    return ValueGuard(f"a value of {type_}", lambda array: pc.greater(pc.utf8_length(array), most))


def octets(most: int, type_: object) -> ValueGuard:
    """Bytes that are more than their type has."""
    return ValueGuard(
        f"a value of {type_}", lambda array: pc.greater(pc.binary_length(array), most)
    )


def all_octets(count: int, type_: object) -> ValueGuard:
    """Bytes that are not as many as their type always has."""
    return ValueGuard(
        f"{count} bytes, as {type_} has them",
        lambda array: pc.not_equal(pc.binary_length(array), count),
    )


def days(first: date, last: date, type_: object) -> ValueGuard:
    """Times that are not of the days that their type has."""

    def outside(array: pa.Array) -> pa.Array:
        found = array.cast(pa.date32(), safe=False)  # without the time of the day
        return pc.or_(pc.less(found, first), pc.greater(found, last))

    return ValueGuard(f"a day from {first} to {last}, as {type_} has them", outside)


def steps(step: int, type_: object) -> ValueGuard:
    """Times between two values of their type.

    Parameters:
        step: microseconds from one value to the next one.
    """
    return ValueGuard(
        f"a time without more digits than {type_} has",
        lambda array: remains(array.cast(pa.int64()), step),
    )


def remains(numbers: pa.Array, step: int) -> pa.Array:
    """Whether each whole number is no multiple of another one."""
    return pc.not_equal(pc.multiply(pc.divide(numbers, step), step), numbers)
