"""Values that Arrow's CSV reader cannot parse, or rejects, converted from the server's text.

The texts follow our session settings: ISO dates, UTC.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.shared.values.hex_values import from_hex, uuids
from penstock.backends.shared.values.text_values import checked

_DATE = re.compile(r"(\d{4,})-(\d\d)-(\d\d)")
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_BC = " BC"
_DAY = 86_400_000_000
_MOST = (1 << 63) - 1


def parse(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Convert texts to an Arrow array of a type.

    Args:
        texts: of type binary; see `expression` for what they hold.
        type_: the type.

    Raises:
        Refused: the type cannot hold a value; names the first.
    """
    return checked(texts, lambda part: _parse(part.cast(pa.string()), type_))


def _parse(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Convert texts to a type, or fail for all of them.

    Raises:
        ValueError: the type cannot represent a value. This includes `pyarrow.ArrowInvalid`.
    """
    if pa.types.is_string(type_):
        return texts
    if pa.types.is_dictionary(type_):
        return texts.dictionary_encode()
    if pa.types.is_list(type_):
        return lists(texts, type_)
    if type_ == pa.uuid():
        return uuids(texts)
    if pa.types.is_binary(type_):
        return from_hex(texts)
    if pa.types.is_boolean(type_):
        return _convert_each(
            texts, {"t": True, "f": False, "true": True, "false": False}.__getitem__, type_
        )
    if pa.types.is_date32(type_):
        return _convert_each(texts, days, pa.int32()).view(type_)
    if pa.types.is_time64(type_):
        return _convert_each(texts, microseconds_of_day, pa.int64()).view(type_)
    if pa.types.is_timestamp(type_):
        return _convert_each(texts, microseconds, pa.int64()).view(type_)
    return texts.cast(type_)


def _convert_each(texts: pa.Array, read: Callable[[str], Any], type_: pa.DataType) -> pa.Array:
    values = (None if text is None else read(text) for text in texts.to_pylist())
    try:
        return pa.array(values, type_)
    except (KeyError, OverflowError) as error:
        raise ValueError(str(error)) from error


def days(text: str) -> int:
    """Return the days from 1970-01-01 to a date, for every year that the server supports.

    Raises:
        ValueError: the date is infinite.
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


def microseconds_of_day(text: str) -> int:
    """Return the microseconds since midnight of a time.

    Raises:
        ValueError: the text is not a time, or it is 24:00:00, which Arrow does not support.
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(text)
    hours, minutes, seconds, fraction = match.groups()
    of_day = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
    of_day = of_day * 1_000_000 + int((fraction or "").ljust(6, "0"))
    if of_day >= _DAY:
        raise ValueError(text)
    return of_day


def microseconds(text: str) -> int:
    """Return the microseconds from 1970-01-01 00:00 to a timestamp (UTC if it has a time zone).

    Raises:
        ValueError: the timestamp is infinite, or so late that the number does not fit into 64 bits.
    """
    era = _BC if text.endswith(_BC) else ""
    date, _, time = text.removesuffix(_BC).partition(" ")
    total = days(date + era) * _DAY + microseconds_of_day(time.removesuffix("+00"))
    if abs(total) > _MOST:
        raise ValueError(text)
    return total


def lists(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Convert JSON arrays of texts to lists.

    Raises:
        ValueError: an array has other dimensions than the type.
    """
    rows = json.loads(f"[{','.join('null' if t is None else t for t in texts.to_pylist())}]")
    return _nested(rows, type_)


def _nested(values: list[Any], type_: pa.DataType) -> pa.Array:
    if not pa.types.is_list(type_):
        if any(isinstance(value, list) for value in values):
            raise ValueError("more dimensions than declared")
        return _element(pa.array(values, pa.string()), type_)
    if not all(value is None or isinstance(value, list) for value in values):
        raise ValueError("fewer dimensions than declared")
    ends = [0]
    for value in values:
        ends.append(ends[-1] + len(value or ()))
    inner = _nested([item for value in values for item in value or ()], type_.value_type)
    missing = pa.array([value is None for value in values], pa.bool_())
    return pa.ListArray.from_arrays(
        pa.array(ends, pa.int32()), inner, type=type_, mask=missing if None in values else None
    )


def _element(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Convert elements from the text of a cast, as types with another travelling form need it."""
    if type_ == pa.uuid():
        return uuids(pc.replace_substring(texts, "-", ""))
    if pa.types.is_binary(type_):
        return from_hex(pc.utf8_slice_codeunits(texts, len(r"\x")))
    return _parse(texts, type_)
