"""Messages for values that lose something on their way into a column, or are rejected."""

from __future__ import annotations

COMPUTED = "the target computes this column"
DIGITS = "digits beyond the precision of the target are rounded away"
DAY = "the time of day is dropped"
UTC = "the time zone is assumed to be UTC"
NO_VALUE = "texts that the target's type cannot represent are rejected"
NO_FIT = "values of one type have no form in the other"
NOT_UTF8 = "bytes that are not UTF-8 are rejected"
OUT_OF_RANGE = "numbers out of the target's range are rejected"
JSON = "white space, key order and repeated keys are lost"
AS_JSON = "arrays are written as JSON"
NO_TRUTH = "numbers other than 0 and 1 are rejected"
FRACTIONS = "numbers that are out of range or have a fraction are rejected"


def longer(scale: int) -> str:
    """Return the message for values with more decimals.

    Args:
        scale: the target's decimal places.
    """
    return f"numbers with more than {scale} decimal places are rejected"


def finer(unit: str) -> str:
    """Return the message for times with a finer unit.

    Args:
        unit: the target's unit of time: `s`, `ms` or `us`.
    """
    name = {"s": "second", "ms": "millisecond", "us": "microsecond"}[unit]
    return f"fractions of a {name} are rejected"


def beyond(bits: int) -> str:
    """Return the message for whole numbers beyond a float's precision.

    Args:
        bits: the number of bits that the target, a float, holds exactly.
    """
    return f"whole numbers beyond {bits} bits are rejected"
