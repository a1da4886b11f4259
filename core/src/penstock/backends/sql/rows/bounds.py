"""Texts of bounds as values; `penstock.model.extents.Bound` defines their tags."""

from __future__ import annotations

import re
from decimal import Decimal

from penstock.errors import PlanningError
from penstock.model import values
from penstock.model.extents import Bound, Key

TEXTS = ("text", "varchar", "bpchar")
WHOLE_NUMBERS = ("int2", "int4", "int8")
TIMES = ("date", "timestamp", "timestamptz")
_WHOLE = re.compile(r"\s*[+-]?\d+\s*")
_NUMBER = re.compile(r"\s*([+-]?)(\d*)(?:\.(\d*))?(?:[eE][+-]?\d+)?\s*")
_HEX = re.compile(r"\\x((?:[0-9a-fA-F]{2})*)")


def check_whole(bound: Bound) -> None:
    """Check a whole-number bound.

    Raises:
        PlanningError: it is not a whole number, and a cast would round it.
    """
    if not _WHOLE.fullmatch(bound.text):
        raise no_value(bound)


def decimal(bound: Bound) -> tuple[str, int, int]:
    """Return a number without an exponent, its number of digits, and how many of them are decimals.

    Raises:
        PlanningError: the bound is not a number.
    """
    match = _NUMBER.fullmatch(bound.text)
    if match is None or not (match[2] or match[3]):
        raise no_value(bound)
    plain = format(Decimal(bound.text.strip()), "f")
    whole, _, fraction = plain.lstrip("+-").partition(".")
    return plain, max(1, len(whole.lstrip("0")) + len(fraction)), len(fraction)


def hexadecimal(bound: Bound) -> str:
    """Return the hexadecimal digits of a binary bound.

    Raises:
        PlanningError: the bound is not binary.
    """
    match = _HEX.fullmatch(bound.text)
    if match is None:
        raise no_value(bound)
    return match[1]


def no_value(bound: Bound) -> PlanningError:
    """Return the error for a bound whose text is not a value of its type."""
    return PlanningError(
        f"expected a value of type {bound.type}, found {values.value(repr(bound.text))}"
    )


def check_ranged(key: Key, tag: str, ranged: tuple[str, ...]) -> None:
    """Check that a key can be partitioned into ranges.

    Args:
        key: the key.
        tag: the type of the value, as in `Bound`.
        ranged: the tags of types whose text is exact and whose order is total.

    Raises:
        PlanningError: the key's type is not one of them.
    """
    if tag not in ranged:
        raise PlanningError(
            f"--key {key.text}: expected a column of type {', '.join(ranged)} to partition into "
            f"ranges; found {tag}"
        )
