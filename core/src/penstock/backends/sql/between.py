"""Values between two others, as the texts of bounds."""

from __future__ import annotations

from bisect import bisect_right
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import takewhile
from math import floor

_PREFIX = 8
_DIGITS = " 0123456789abcdefghijklmnopqrstuvwxyz"


def middle(tag: str, low: str, high: str) -> str | None:
    """A text between two others, as far as can be told without knowing their order."""
    match tag:
        case "int2" | "int4" | "int8":
            return str((int(low) + int(high) + 1) // 2)
        case "numeric":
            return _halved_decimal(low, high)
        case "date" | "timestamp" | "timestamptz":
            first, last = (time_of(text) for text in (low, high))
            at = first + (last - first) / 2
            if tag == "date":
                return at.date().isoformat()
            text = at.replace(tzinfo=None).isoformat(" ", "microseconds")
            return f"{text}+00" if tag == "timestamptz" else text
        case "bytea":
            digits = _halved(bytes.fromhex(low[2:]), bytes.fromhex(high[2:]))
            return "\\x" + digits.hex()
        case "text":
            return _between(low, high)
    return None


def time_of(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _halved_decimal(low: str, high: str) -> str:
    """With as many decimals as the ends have: exact, whatever their digits."""
    scale = max(len(text.partition(".")[2]) for text in (low, high))
    number = floor((Fraction(low) + Fraction(high)) / 2 * 10**scale)
    return format(Decimal(f"{number}E-{scale}"), "f")


def _halved(low: bytes, high: bytes) -> bytes:
    """Between two, as numbers of the bytes after those that they share."""
    same = _shared(low, high)
    numbers = [
        int.from_bytes(each[same : same + _PREFIX].ljust(_PREFIX, b"\0")) for each in (low, high)
    ]
    return low[:same] + (sum(numbers) // 2).to_bytes(_PREFIX)


def _shared(low: str | bytes, high: str | bytes) -> int:
    """How many characters both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(low, high, strict=False)))


def _between(low: str, high: str) -> str:
    """Between two texts, as numbers of digits that nearly every collation has in this order."""
    same = _shared(low, high)
    ends = (low[same : same + _PREFIX], high[same : same + _PREFIX])
    upper = any(map(str.isupper, ends))
    number = sum(_number(end.lower()) for end in ends) // 2
    digits = ""
    for _ in range(_PREFIX):
        number, place = divmod(number, len(_DIGITS))
        digits = _DIGITS[place] + digits
    digits = digits.rstrip()
    return low[:same] + (digits.upper() if upper else digits)


def _number(text: str) -> int:
    number = 0
    for character in text.ljust(_PREFIX):
        place = bisect_right(_DIGITS, character) - 1
        number = number * len(_DIGITS) + max(place, 0)
    return number
