"""The texts of bounds as values: `penstock.model.extents.Bound` says what their tags mean."""

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
    """
    Raises:
        PlanningError: it is no whole number; a cast would round it.
    """
    if not _WHOLE.fullmatch(bound.text):
        raise no_value(bound)


def decimal(bound: Bound) -> tuple[str, int, int]:
    """A number without an exponent, how many digits it has, and how many of them are decimals.

    Raises:
        PlanningError: it is no number.
    """
    found = _NUMBER.fullmatch(bound.text)
    if found is None or not (found[2] or found[3]):
        raise no_value(bound)
    plain = format(Decimal(bound.text.strip()), "f")
    whole, _, fraction = plain.lstrip("+-").partition(".")
    return plain, max(1, len(whole.lstrip("0")) + len(fraction)), len(fraction)


def hexadecimal(bound: Bound) -> str:
    """The digits of a value of bytes.

    Raises:
        PlanningError: it is none.
    """
    found = _HEX.fullmatch(bound.text)
    if found is None:
        raise no_value(bound)
    return found[1]


def no_value(bound: Bound) -> PlanningError:
    return PlanningError(
        f"expected a value of type {bound.type}, found {values.value(repr(bound.text))}"
    )


def check_ranged(key: Key, tag: str, ranged: tuple[str, ...]) -> None:
    """
    Parameters:
        ranged: tags of the types whose text is exact and whose order is total.

    Raises:
        PlanningError: the key's type is none of them.
    """
    if tag not in ranged:
        raise PlanningError(
            f"--key {key.text}: cannot be ranged: expected a column of type {', '.join(ranged)}; "
            f"found {tag}"
        )
