"""Values between two others, as texts of bounds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import takewhile
from math import floor
from unicodedata import combining, normalize

_PREFIX = 8
_POINTS = 0x110000
_DIGITS = " 0123456789abcdefghijklmnopqrstuvwxyz"


def middles(tag: str, low: str, high: str) -> Sequence[str]:
    """Return texts that may lie between two others, the likeliest first.

    For texts with a collation only the database knows the order.

    Args:
        tag: the type of the value, as in `Bound`.
        low: the lower text.
        high: the upper text.
    """
    match tag:
        case "int2" | "int4" | "int8":
            return (str((int(low) + int(high) + 1) // 2),)
        case "numeric":
            return (_halved_decimal(low, high),)
        case "date" | "timestamp" | "timestamptz":
            return _halved_time(tag, low, high)
        case "bytea":
            digits = _halved(bytes.fromhex(low[2:]), bytes.fromhex(high[2:]))
            return ("\\x" + digits.hex(),)
        case "text":
            letters = _by_letters(_folded(low), _folded(high))
            return (letters, _by_code_points(low, high), *_beginnings(low, high))
    return ()


def _halved_time(tag: str, low: str, high: str) -> Sequence[str]:
    try:
        first, last = (time_of(text) for text in (low, high))
    except ValueError:
        return ()  # of a year or day that does not exist, as in 0000-00-00
    at = first + (last - first) / 2
    if tag == "date":
        return (at.date().isoformat(),)
    text = at.replace(tzinfo=None).isoformat(" ", "microseconds")
    return (f"{text}+00" if tag == "timestamptz" else text,)


def time_of(text: str) -> datetime:
    """Return a date or time from its text; one without a zone counts as UTC.

    Raises:
        ValueError: the text is not a date or time that Python supports.
    """
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _halved_decimal(low: str, high: str) -> str:
    """Return the middle with as many decimals as the ends have, exactly."""
    scale = max(len(text.partition(".")[2]) for text in (low, high))
    number = floor((Fraction(low) + Fraction(high)) / 2 * 10**scale)
    return format(Decimal(f"{number}E-{scale}"), "f")


def _halved(low: bytes, high: bytes) -> bytes:
    """Return the middle, treating the bytes after the common prefix as numbers."""
    common = _shared(low, high)
    numbers = [
        int.from_bytes(each[common : common + _PREFIX].ljust(_PREFIX, b"\0"))
        for each in (low, high)
    ]
    return low[:common] + (sum(numbers) // 2).to_bytes(_PREFIX)


def _shared(low: str | bytes, high: str | bytes) -> int:
    """Return the length of the common prefix."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(low, high, strict=False)))


def _folded(text: str) -> str:
    """Remove case and accents, which most collations compare last."""
    return "".join(c for c in normalize("NFKD", text.casefold()) if not combining(c))


def _by_letters(low: str, high: str) -> str:
    """Return the middle of two texts.

    It treats letters as digits, whose order nearly all collations share.
    """
    common = _shared(low, high)
    number = sum(_number(text[common : common + _PREFIX]) for text in (low, high)) // 2
    digits = ""
    for _ in range(_PREFIX):
        number, place = divmod(number, len(_DIGITS))
        digits = _DIGITS[place] + digits
    return low[:common] + digits.rstrip()


def _number(text: str) -> int:
    number = 0
    for character in text.ljust(_PREFIX):
        place = bisect_right(_DIGITS, character) - 1
        number = number * len(_DIGITS) + max(place, 0)
    return number


def _by_code_points(low: str, high: str) -> str:
    common = _shared(low, high)
    number = 0
    for text in (low, high):
        for place in range(common, common + 2):
            point = ord(text[place]) if place < len(text) else 0
            number += point * (_POINTS if place == common else 1)
    first, second = divmod(number // 2, _POINTS)
    # Low code points are not characters, and high ones may be surrogates.
    points = (chr(each) for each in (first, second) if each >= ord(" ") and not _is_half(each))
    return low[:common] + "".join(points)


def _beginnings(low: str, high: str) -> Sequence[str]:
    """Return prefixes of the ends: letters between them may come elsewhere in the alphabet."""
    common = _shared(low, high)
    longer = [low[: common + count] + "n" for count in range(1, _PREFIX)]
    return (high[: common + 1], *longer)


def _is_half(point: int) -> bool:
    return 0xD800 <= point < 0xE000
