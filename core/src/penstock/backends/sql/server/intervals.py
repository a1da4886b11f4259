"""Widths of windows of time, where the database has no type for them."""

from __future__ import annotations

import re

from penstock.errors import UsageError

_UNITS = "microsecond|second|minute|hour|day|week|month|quarter|year"
_INTERVAL = re.compile(rf"\s*([+-]?\d+)\s*({_UNITS})s?\s*", re.I)


def parse_interval(text: str) -> tuple[int, str]:
    """
    Returns: how many, and of which unit.

    Raises:
        UsageError: it is none.
    """
    found = _INTERVAL.fullmatch(text)
    if found is None:
        raise UsageError(
            "--interval: expected a number and a unit, such as '1 day' or '3 months'; found "
            f"{text!r}"
        )
    return int(found[1]), found[2].lower()
