"""The kinds of nights, by how they detect changed rows, and how far back they look."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from penstock.errors import PlanningError, UsageError
from penstock.spec.units import parse_duration

XMIN = "xmin"
"""Detection by row versions."""
COLUMN = "column"
"""Detection by a column that grows with each change."""

FILES = "files"
"""Detection by files that are new."""

TIMES = ("date", "timestamp", "timestamptz", "timestamp_ns")
"""Tags of the time types; the other types that a night can read by are numbers."""

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
FLAG = "--lookback"


def check_lookback(text: str) -> None:
    """Check that a lookback is a number or a duration.

    Raises:
        UsageError: the lookback is neither.
    """
    if not _NUMBER.fullmatch(text.strip()):
        parse_duration(text, FLAG)


def check_unit(text: str, tag: str, column: str) -> None:
    """Check that a lookback suits a column's type.

    Args:
        text: the lookback.
        tag: the tag of the column's type; see `Bound`.
        column: the column's name, for the message.

    Raises:
        PlanningError: the lookback is not a length of such values.
    """
    if tag in TIMES:
        seconds_back(text, column)
    else:
        number_back(text, column)


def seconds_back(text: str, column: str) -> float:
    """Return the lookback for a column of times, in seconds.

    Raises:
        PlanningError: the lookback is a number without a unit.
    """
    if _NUMBER.fullmatch(text.strip()) and Decimal(text.strip()):
        raise PlanningError(
            f"{FLAG}: expected a duration such as 10m or 2d, since {column} holds times; found "
            f"{text!r}"
        )
    return parse_duration(text, FLAG)


def number_back(text: str, column: str) -> Decimal:
    """Return the lookback for a column of numbers.

    Raises:
        PlanningError: the lookback is not a plain number, as if it has a unit.
    """
    try:
        return Decimal(text.strip())
    except InvalidOperation:
        raise PlanningError(
            f"{FLAG}: expected a number such as 1000, since {column} holds numbers; found {text!r}"
        ) from None


def required_lookback(columns: str) -> UsageError:
    """Return the error for a load by column without a lookback."""
    return UsageError(
        f"--incremental {columns}: expected {FLAG}: a row whose transaction starts before a run "
        "and commits after it may have a lower value than the run's greatest, and would be "
        f"missed. Pass {FLAG} 1h (longer than any transaction that writes the table; rows read "
        f"again are merged) or, for a column of numbers, {FLAG} 1000; or {FLAG} 0 to look back "
        "at nothing"
    )
