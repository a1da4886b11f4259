"""Sizes and durations in the notation that users write."""

from __future__ import annotations

import re
from typing import Any

from penstock.errors import UsageError

# Servers and the operating system keep the milliseconds of a timeout in 32 bits.
LONGEST = 24 * 86400.0


_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


_DURATION_UNITS = {
    "": 1.0,
    "ms": 0.001,
    "s": 1.0,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}


def parse_size(value: Any, flag: str) -> int:
    """Parse a size in bytes: a number, ``64MB`` (powers of 1000, as in output) or ``1.5 GiB``."""
    pattern = r"\s*(\d+(?:\.\d+)?)\s*(?:([KMGT]?)(I?)B?)\s*"
    match = re.fullmatch(pattern, str(value), re.IGNORECASE)
    if match is None or (match[3] and not match[2]):
        raise UsageError(f"{flag}: expected a size such as 64MB or 1GB, found {value!r}")
    size = float(match[1]) * (1024 if match[3] else 1000) ** _POWERS[match[2].upper()]
    if size == float("inf"):
        raise UsageError(
            f"{flag}: expected a size such as 64MB or 1GB, found one that is too large"
        )
    return int(size)


def parse_duration(value: Any, flag: str) -> float:
    """Parse a duration in seconds: ``90s``, ``10m``, ``1h`` or a number."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", str(value), re.IGNORECASE)
    if match is None or match[2].lower() not in _DURATION_UNITS:
        raise UsageError(f"{flag}: expected a duration such as 90s, 10m or 1h, found {value!r}")
    return float(match[1]) * _DURATION_UNITS[match[2].lower()]


def duration_text(seconds: float) -> str:
    """Return a duration as text, in the largest unit that divides it evenly."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds and seconds % length == 0:
            return f"{seconds / length:g}{unit}"
    return f"{seconds:g}s"


def check_duration(seconds: float, flag: str, longest: float = LONGEST) -> None:
    """Check that a duration is not negative, and not too long.

    Args:
        seconds: the duration.
        flag: the option, for the message.
        longest: the limit in seconds; the default is the longest that timers support.

    Raises:
        UsageError: the duration is negative, or longer than `longest`.
    """
    if not 0 <= seconds <= longest:  # rejects NaN too
        expected = "at least 0" if seconds < 0 else f"at most {longest / 86400:g}d"
        raise UsageError(f"{flag}: expected {expected}, found {seconds} s")
