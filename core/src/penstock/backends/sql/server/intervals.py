"""Widths of time windows, for databases without a type for them."""

from __future__ import annotations

import re

from penstock.errors import UsageError

_UNITS = "microsecond|second|minute|hour|day|week|month|quarter|year"
_INTERVAL = re.compile(rf"\s*([+-]?\d+)\s*({_UNITS})s?\s*", re.I)


def parse_interval(text: str) -> tuple[int, str]:
    """Parse an interval to a number and its unit.

    Raises:
        UsageError: the text is not an interval.
    """
    match = _INTERVAL.fullmatch(text)
    if match is None:
        raise UsageError(
            "--interval: expected a number and a unit, such as '1 day' or '3 months'; found "
            f"{text!r}"
        )
    return int(match[1]), match[2].lower()
