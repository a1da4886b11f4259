"""Values as texts that the server parses to the same values.

The server silently changes many texts: it rounds numbers and times, adds a century to years, takes
digits for the position of an enum member, and pads BINARY with zeros. Values that it would change
are rejected here.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from penstock.backends.mysql.catalog.tables import CHARSET, SRID
from penstock.backends.mysql.stream.geometries import NO_SRID, stored_digits
from penstock.backends.mysql.types import TYPES, MyType
from penstock.backends.shared.values.arrow import exactly, is_bytes, is_text
from penstock.backends.shared.values.hex_values import to_hex, uuid_texts
from penstock.backends.sql.catalog.relations import TYPE
from penstock.model.tables import Column

_UNITS = ("s", "ms", "ms", "ms", "us", "us", "us")
"""The unit in which times are written, by their fractional digits."""
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000}
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31
_MEMBER = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.S)
_ESCAPED = re.compile(r"''|\\(.)", re.S)
_MEANING = {None: "'", "0": "\0", "n": "\n", "r": "\r"}
# The server changes these characters, in MySQL 9.7 as in MariaDB 10.11.
CONFUSED = {"tis620": r"[\x{10000}-\x{10FFFF}]", "cp932": r"\x{6661}"}


def texts(array: pa.Array, column: Column) -> pa.Array:
    """Return values as texts.

    Raises:
        ValueError: a value would be changed. This includes `pyarrow.ArrowInvalid`.
    """
    type_: MyType = column.traits[TYPE]
    arrow_type = TYPES.arrow_type(type_)
    if pt.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pt.is_null(array.type):
        return pa.nulls(len(array), pa.string())
    if pt.is_timestamp(array.type) and array.type.tz and not pt.is_string(arrow_type):
        array = array.cast(pa.timestamp(array.type.unit))  # in UTC, the session's time zone
    if type_.binary:
        return _digits(array, type_, column.traits.get(SRID, NO_SRID))
    if pt.is_integer(arrow_type):
        return _integers(array, type_)
    if pt.is_decimal(arrow_type):
        return _decimals(array, arrow_type)
    if pt.is_floating(arrow_type):
        numbers = exactly(array, arrow_type)
        _check(pc.is_finite(numbers))
        # The server parses a double for a float too, so its shortest text is exact.
        wide = numbers.cast(pa.float64())
        if type_.rounded:
            # As the server rounds: a number rounded like this is not changed again.
            integers, scale = pc.floor(wide), 10.0**type_.scale
            digits = pc.round(pc.multiply(pc.subtract(wide, integers), scale))
            rounded = pc.add(integers, pc.divide(digits, scale))
            _check(pc.equal(rounded.cast(arrow_type), numbers))
        return wide.cast(pa.string())
    if pt.is_date(arrow_type):
        days = exactly(array, arrow_type)
        _check(_between(days.view(pa.int32()), _FIRST_DAY, _LAST_DAY))
        return days.cast(pa.string())
    if pt.is_timestamp(arrow_type) or pt.is_time(arrow_type):
        return _times(array, type_)
    return _texts(array, column)


def _check(holds: pa.BooleanArray) -> None:
    """Check that a condition holds for all values; NULL passes.

    Raises:
        ValueError: it does not hold for a value.
    """
    if pc.all(holds).as_py() is False:
        raise ValueError("it would become another value")


def _between(array: pa.Array, first: int, last: int) -> pa.BooleanArray:
    return pc.and_(pc.greater_equal(array, first), pc.less_equal(array, last))


def _integers(array: pa.Array, type_: MyType) -> pa.Array:
    numbers = exactly(array, TYPES.arrow_type(type_))
    if type_.name != "year":
        return numbers.cast(pa.string())
    _check(pc.or_(pc.equal(numbers, 0), _between(numbers, 1901, 2155)))
    return pc.utf8_lpad(numbers.cast(pa.string()), 4, "0")


def _decimals(array: pa.Array, type_: pa.DataType) -> pa.Array:
    source = array.type
    if pt.is_boolean(source):
        array = array.cast(pa.int8())
    elif not pt.is_integer(source):  # the server checks the range, which Arrow would not
        digits = type_.precision - type_.scale
        if not pt.is_decimal(source) or not (
            0 <= source.scale <= type_.scale and source.precision - source.scale <= digits
        ):
            array = exactly(array, type_)
    return array.cast(pa.string())


def _times(array: pa.Array, type_: MyType) -> pa.Array:
    """Return times with no more digits than the column, which would round or drop them."""
    unit, per = _UNITS[type_.scale], _PER_SECOND[_UNITS[type_.scale]]
    if type_.name == "time" and is_text(array.type):  # Arrow does not parse them as times
        moments = pc.binary_join_element_wise("1970-01-01", array.cast(pa.string()), " ")
        array = moments.cast(pa.timestamp("us")).cast(pa.time64("us"))
    of_day = pa.time64(unit) if unit == "us" else pa.time32(unit)
    times = exactly(array, of_day if type_.name == "time" else pa.timestamp(unit))
    numbers = times.view(pa.int32() if times.type.bit_width == 32 else pa.int64())
    if type_.name != "time":
        last = (_LAST_DAY + 1) * 86_400 * per - 1
        _check(_between(numbers, _FIRST_DAY * 86_400 * per, last))
    if (step := per // 10**type_.scale) > 1:
        _check(pc.equal(pc.multiply(pc.divide(numbers, step), step), numbers))
    return times.cast(pa.string())


def _digits(array: pa.Array, type_: MyType, srid: int) -> pa.Array:
    """Return binary values as hexadecimal digits.

    Args:
        array: the values.
        type_: the type of the column.
        srid: the SRID of spatial values that name none.
    """
    values = exactly(_stored(array), pa.large_binary())
    if type_.name == "binary":
        _check(pc.equal(pc.binary_length(values), type_.length))
    digits = to_hex(values)
    return stored_digits(digits, srid) if type_.name == "geometry" else digits


def _stored(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _texts(array: pa.Array, column: Column) -> pa.Array:
    name = column.traits[TYPE].name
    if isinstance(array.type, pa.UuidType) or (name == "uuid" and is_bytes(array.type)):
        return uuid_texts(array)
    plain = pt.is_string(array.type) or pt.is_large_string(array.type)
    values = array if plain else exactly(array, pa.large_string())
    if is_text(array.type):
        values.validate(full=True)  # their UTF-8 may not have been checked yet
    if name in ("enum", "set"):
        _check_members(values, column)
    elif confused := CONFUSED.get(column.traits.get(CHARSET, "")):
        _check(pc.invert(pc.match_substring_regex(values, confused)))
    return values


def _check_members(array: pa.Array, column: Column) -> None:
    """Check members of an enum or set.

    Raises:
        ValueError: a value differs from the server's spelling.
    """
    members = [
        _ESCAPED.sub(lambda escape: _MEANING.get(escape[1], escape[1]), member)
        for member in _MEMBER.findall(column.type)
    ]
    places = {member: place for place, member in enumerate(members)}
    is_set = column.traits[TYPE].name == "set"
    for value in pc.unique(array).drop_null().to_pylist():
        # A set may be empty.
        parts = [value] if not is_set else value.split(",") if value else []
        positions = [places.get(part, -1) for part in parts]
        if -1 in positions or positions != sorted(set(positions)):
            raise ValueError(f"no value of {column.type}")
