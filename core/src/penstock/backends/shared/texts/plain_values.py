"""Texts of dates and times of any year as numbers, as Arrow stores them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as is_

from penstock.backends.shared.texts.plain_texts import date_text

_DATE = re.compile(r"(\d{4,7})-(\d\d)-(\d\d)")
_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?")
_ZONE = re.compile(r"(?:Z|([+-])(\d\d)(?::?(\d\d))?)$")
_BC = " BC"
_DAY = 86_400_000_000
_MOST = (1 << 63) - 1


def plain_values(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the values that texts stand for, for types of dates, times and timestamps.

    Args:
        texts: as `plain_texts` writes them, and with a ``T`` or an offset in hours and minutes.
        kind: the type to convert to.

    Raises:
        ValueError: a text is not a value of the type. This includes `pyarrow.ArrowInvalid`.
    """
    read: Callable[[str], int]
    if is_.is_date(kind):
        numbers, read, between = pa.int32(), _existing_days, pa.date32()
    elif is_.is_time(kind):
        numbers, read, between = pa.int64(), _of_day_to_the_end, pa.time64("us")
    else:
        numbers, between = pa.int64(), pa.timestamp("us", kind.tz)

        def read(text: str) -> int:
            return _zoned(text, has_zone=kind.tz is not None)

    try:
        values = pa.array((None if t is None else read(t) for t in texts.to_pylist()), numbers)
    except OverflowError as error:
        raise ValueError(str(error)) from error
    return values.view(between).cast(kind)


def days(text: str) -> int:
    """Return the days from 1970-01-01 to a date of any year.

    Raises:
        ValueError: the text is not a date, for instance because it is infinite.
    """
    match = _DATE.fullmatch(text.removesuffix(_BC))
    if match is None:
        raise ValueError(text)
    year, month, day = map(int, match.groups())
    if text.endswith(_BC):
        year = 1 - year
    # Counting years from March puts leap days at the end of a year. 400 years have 146,097 days,
    # and 719,468 days lie between 0000-03-01 and 1970-01-01.
    year -= month < 3
    of_year = (153 * ((month - 3) % 12) + 2) // 5 + day - 1
    return 365 * year + year // 4 - year // 100 + year // 400 + of_year - 719_468


def _existing_days(text: str) -> int:
    """Return the days to a date.

    Raises:
        ValueError: there is no such day, such as February 30.
    """
    number = days(text)
    if date_text(number) != text:
        raise ValueError(text)
    return number


def microseconds_of_day(text: str) -> int:
    """Return the microseconds since midnight of a time; the seconds may be left out.

    Raises:
        ValueError: the text is not a time, or it is 24:00:00, which Arrow does not support.
    """
    of_day = _of_day_to_the_end(text)
    if of_day >= _DAY:
        raise ValueError(text)
    return of_day


def _of_day_to_the_end(text: str) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(text)
    hours, minutes, seconds, fraction = match.groups()
    if int(minutes) > 59 or int(seconds or 0) > 59:
        raise ValueError(text)
    of_day = (int(hours) * 60 + int(minutes)) * 60 + int(seconds or 0)
    of_day = of_day * 1_000_000 + int((fraction or "").ljust(6, "0"))
    if of_day > _DAY:
        raise ValueError(text)
    return of_day


def _zoned(text: str, *, has_zone: bool) -> int:
    era = _BC if text.endswith(_BC) else ""
    shown = text.removesuffix(_BC)
    offset = 0
    match = _ZONE.search(shown) if has_zone else None
    if has_zone:
        if match is None:
            raise ValueError(text)
        shown = shown[: match.start()]
        sign, hours, minutes = match.groups()
        if sign:
            offset = (int(hours) * 60 + int(minutes or 0)) * 60_000_000
            offset = -offset if sign == "-" else offset
    date, _, time = shown.replace("T", " ", 1).partition(" ")
    total = _existing_days(date + era) * _DAY + microseconds_of_day(time) - offset
    return _checked(total, text)


def microseconds(text: str) -> int:
    """Return the microseconds from 1970-01-01 00:00 to a timestamp (UTC if it has a time zone).

    Raises:
        ValueError: the timestamp is infinite, or so late that the number does not fit into 64 bits.
    """
    era = _BC if text.endswith(_BC) else ""
    date, _, time = text.removesuffix(_BC).partition(" ")
    total = days(date + era) * _DAY + microseconds_of_day(time.removesuffix("+00"))
    return _checked(total, text)


def _checked(total: int, text: str) -> int:
    if abs(total) > _MOST:
        raise ValueError(text)
    return total
