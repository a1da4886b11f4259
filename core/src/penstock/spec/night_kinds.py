"""How a night tells which rows may have changed, and how far back it looks."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from penstock.errors import PlanningError, UsageError
from penstock.spec.units import parse_duration

XMIN = "xmin"
"""By row versions."""
COLUMN = "column"
"""By a column that grows with each change."""

FILES = "files"
"""By files that were not there before."""

TIMES = ("date", "timestamp", "timestamptz", "timestamp_ns")
"""Tags of the types of times; others that a night is read by are numbers."""

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
FLAG = "--lookback"


def check_lookback(text: str) -> None:
    """
    Raises:
        UsageError: it is neither a number nor a duration.
    """
    if not _NUMBER.fullmatch(text.strip()):
        parse_duration(text, FLAG)


def check_unit(text: str, tag: str, column: str) -> None:
    """
    Parameters:
        tag: of the column's type; see `Bound`.

    Raises:
        PlanningError: the lookback is no length of such values.
    """
    if tag in TIMES:
        seconds_back(text, column)
    else:
        number_back(text, column)


def seconds_back(text: str, column: str) -> float:
    """For a column of times.

    Raises:
        PlanningError: it is a number without a unit.
    """
    if _NUMBER.fullmatch(text.strip()) and Decimal(text.strip()):
        raise PlanningError(
            f"{FLAG}: expected a duration such as 10m or 2d, since {column} holds times; found "
            f"{text!r}"
        )
    return parse_duration(text, FLAG)


def number_back(text: str, column: str) -> Decimal:
    """For a column of numbers.

    Raises:
        PlanningError: it has a unit.
    """
    try:
        return Decimal(text.strip())
    except InvalidOperation:
        raise PlanningError(
            f"{FLAG}: expected a number such as 1000, since {column} holds numbers; found {text!r}"
        ) from None


def required_lookback(columns: str) -> UsageError:
    """The error of a load by column that says nothing of how far back to look."""
    return UsageError(
        f"--incremental {columns}: expected {FLAG}: a row whose transaction began before a run and "
        "committed after it has an earlier value than the run's greatest, and would never arrive. "
        f"Pass {FLAG} 1h (longer than any transaction that writes the table; rows are read again, "
        f"and merged), or for a column of numbers {FLAG} 1000; or {FLAG} 0 to look back at nothing"
    )
