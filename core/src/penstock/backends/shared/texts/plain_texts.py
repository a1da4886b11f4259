"""Dates, times and decimals as texts that other systems parse, however large they are.

Arrow writes years beyond 9999, and those before year 1, in forms of its own, or not at all, and
small decimals with an exponent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_

_DAY = 86_400_000_000
# Within these dates Arrow writes years as other systems do: 0001-01-01 to 9999-12-31.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": _DAY, "ns": 1000 * _DAY}
# With more digits than this after the decimal point, Arrow may write an exponent.
_MOST_PLAIN_DIGITS = 6


def has_plain_text(kind: pa.DataType) -> bool:
    """Whether `plain_texts` accepts a type."""
    return bool(
        is_.is_date(kind) or is_.is_time(kind) or is_.is_timestamp(kind) or is_.is_decimal(kind)
    )


def is_usual(array: pa.Array) -> bool:
    """Whether Arrow itself writes all of these values as other systems do."""
    kind = array.type
    if is_.is_decimal(kind):
        return bool(0 <= kind.scale <= _MOST_PLAIN_DIGITS)
    if is_.is_date(kind):
        unit = 1 if is_.is_date32(kind) else _PER_DAY["ms"]
        return _is_within(array, _FIRST_DAY * unit, (_LAST_DAY + 1) * unit - 1)
    unit = _PER_DAY[kind.unit]
    if is_.is_time(kind):
        return _is_within(array, 0, unit - 1)
    return kind.unit == "ns" or _is_within(array, _FIRST_DAY * unit, (_LAST_DAY + 1) * unit - 1)


def _is_within(array: pa.Array, first: int, last: int) -> bool:
    numbers = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    ends = pc.min_max(numbers).as_py()
    return ends["min"] is None or (first <= ends["min"] and ends["max"] <= last)


def plain_texts(array: pa.Array, zone: str = "Z") -> pa.Array:
    """Return dates, times, timestamps or decimals as texts.

    Years before 1 are followed by ``BC``, as in ISO-style output of most databases.

    Args:
        array: the values.
        zone: follows a timestamp that has a time zone; its text is in UTC.

    Raises:
        ValueError: a time exceeds a day, or a timestamp exceeds 64 bits of microseconds. This
            includes `pyarrow.ArrowInvalid`.
    """
    kind = array.type
    if is_.is_decimal(kind):
        texts = array.cast(pa.string())
        if is_usual(array) or not pc.any(pc.match_substring(texts, "E")).as_py():
            return texts
        return _each(array.to_pylist(), lambda value: format(value, "f"))
    if is_.is_timestamp(kind) and kind.tz is not None:
        suffix = zone
        array = array.view(pa.int64()).view(pa.timestamp(kind.unit))
    else:
        suffix = ""
    if is_usual(array):
        texts = array.cast(pa.string())
        return pc.binary_join_element_wise(texts, suffix, "") if suffix else texts
    if is_.is_date(kind):
        return _each(array.cast(pa.date32()).view(pa.int32()).to_pylist(), date_text)
    if is_.is_time(kind):
        return _each(array.cast(pa.time64("us")).view(pa.int64()).to_pylist(), _time_text)
    numbers = array.cast(pa.timestamp("us")).view(pa.int64()).to_pylist()
    return _each(numbers, lambda number: _timestamp_text(number, suffix))


def _each(values: list[Any], write: Callable[[Any], str]) -> pa.Array:
    return pa.array((None if value is None else write(value) for value in values), pa.string())


def date_text(day: int) -> str:
    """Return a date of any year.

    Args:
        day: days since 1970-01-01.
    """
    era, of_era = divmod(day + 719_468, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day_of_month = of_year - (153 * month + 2) // 5 + 1
    month = (month + 2) % 12 + 1
    year += era * 400 + (month < 3)
    shown, suffix = (year, "") if year > 0 else (1 - year, " BC")
    return f"{shown:04}-{month:02}-{day_of_month:02}{suffix}"


def _timestamp_text(number: int, zone: str) -> str:
    day, of_day = divmod(number, _DAY)
    shown, era, _ = date_text(day).partition(" BC")
    return f"{shown} {_clock(of_day)}{zone}{era}"


def _time_text(number: int) -> str:
    """Return a time, in microseconds since midnight, as text.

    Raises:
        ValueError: the number exceeds a day. 24:00:00, which some systems support, is allowed.
    """
    if not 0 <= number <= _DAY:
        raise ValueError(f"{number} microseconds of a day")
    return _clock(number)


def _clock(of_day: int) -> str:
    seconds, fraction = divmod(of_day, 1_000_000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"
