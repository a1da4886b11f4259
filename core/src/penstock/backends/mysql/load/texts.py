"""Arrays as texts that the server reads as the very same values.

In LOAD DATA the server makes other values of many without a warning: it rounds numbers and times, adds a
century to years, takes digits for the place of a member of an enum, fills BINARY with zeros. What
would become another value is refused here.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from penstock.backends.mysql.load.columns import TargetColumn
from penstock.backends.mysql.types import MyType, arrow_type
from penstock.backends.shared.arrow import exactly, is_bytes, is_text, own

_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "bit", "year")
_MOMENTS = ("datetime", "timestamp")
_UNITS = ("s", "ms", "ms", "ms", "us", "us", "us")
"""The unit in which times of so many digits of a second are written."""
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31."""
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000}
_UUID = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))


def texts(array: pa.Array, column: TargetColumn) -> pa.Array:
    """
    Raises:
        ValueError: a value would not stay what it is. That includes `pyarrow.ArrowInvalid`.
    """
    type_ = column.type
    if pt.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pt.is_null(array.type):
        return pa.nulls(len(array), pa.string())
    if type_.binary:
        return _bytes(array, type_)
    if type_.name in _INTEGERS:
        return _integers(array, type_)
    if type_.name == "decimal":
        return _decimals(array, type_)
    if type_.name in ("float", "double"):
        return _floats(array, type_)
    if type_.name == "date":
        days = exactly(_naive(array), pa.date32())
        _check(_between(days.view(pa.int32()), _FIRST_DAY, _LAST_DAY))
        return days.cast(pa.string())
    if type_.name in _MOMENTS:
        return _moments(array, type_.scale)
    if type_.name == "time":
        unit = _UNITS[type_.scale]
        times = exactly(array, pa.time64(unit) if unit == "us" else pa.time32(unit))
        return _whole(times, type_.scale).cast(pa.string())
    return _texts(array, column)


def _check(holds: pa.BooleanArray) -> None:
    """
    Raises:
        ValueError: something does not hold; NULL does.
    """
    if pc.all(holds).as_py() is False:
        raise ValueError("it would become another value")


def _between(array: pa.Array, first: int, last: int) -> pa.BooleanArray:
    return pc.and_(pc.greater_equal(array, first), pc.less_equal(array, last))


def _integers(array: pa.Array, type_: MyType) -> pa.Array:
    numbers = exactly(array, arrow_type(type_))
    if type_.name != "year":
        return numbers.cast(pa.string())
    # Of one digit or two the server makes another year.
    _check(pc.or_(pc.equal(numbers, 0), _between(numbers, 1901, 2155)))
    return pc.utf8_lpad(numbers.cast(pa.string()), 4, "0")


def _decimals(array: pa.Array, type_: MyType) -> pa.Array:
    mine = array.type
    if pt.is_boolean(mine):
        array = array.cast(pa.int8())
    elif pt.is_decimal(mine):
        # A cast to one that takes all of its values would only take time.
        if mine.scale > type_.scale or mine.precision - mine.scale > type_.length - type_.scale:
            array = exactly(array, arrow_type(type_))
    elif not pt.is_integer(mine):
        array = exactly(array, arrow_type(type_))
    return array.cast(pa.string())


def _floats(array: pa.Array, type_: MyType) -> pa.Array:
    floats = exactly(array, arrow_type(type_))
    _check(pc.is_finite(floats))
    # The server reads a double even for a float: the shortest text of that is exact, too.
    return floats.cast(pa.float64()).cast(pa.string())


def _naive(array: pa.Array) -> pa.Array:
    """In UTC, which is the session's time zone, too."""
    if pt.is_timestamp(array.type) and array.type.tz is not None:
        return array.cast(pa.timestamp(array.type.unit))
    return array


def _moments(array: pa.Array, scale: int) -> pa.Array:
    unit = _UNITS[scale]
    found = _whole(exactly(_naive(array), pa.timestamp(unit)), scale)
    day = 86_400 * _PER_SECOND[unit]
    _check(_between(found.view(pa.int64()), _FIRST_DAY * day, (_LAST_DAY + 1) * day - 1))
    return found.cast(pa.string())


def _whole(times: pa.Array, scale: int) -> pa.Array:
    """Times that have no more digits of a second than the column, which would round them."""
    unit = times.type.unit
    per = _PER_SECOND[unit] // 10**scale
    if per > 1:
        numbers = times.view(pa.int32() if times.type.bit_width == 32 else pa.int64())
        _check(pc.equal(pc.multiply(pc.divide(numbers, per), per), numbers))
    return times


def _bytes(array: pa.Array, type_: MyType) -> pa.Array:
    storage = array.storage if isinstance(array, pa.ExtensionArray) else array
    held = exactly(storage, pa.large_binary())
    if type_.name == "binary":
        _check(pc.equal(pc.binary_length(held), type_.length))
    return _hexadecimal(held)


def _hexadecimal(array: pa.Array) -> pa.Array:
    """One conversion for all, of an array of `large_binary`."""
    if not len(array):
        return pa.array([], pa.large_string())
    validity, offsets, content = own(array).buffers()
    ends = pa.Array.from_buffers(pa.int64(), len(array) + 1, [None, offsets])
    digits = memoryview(content)[: ends[-1].as_py()].hex().encode() if content else b""
    doubled = pc.shift_left(ends, 1).buffers()[1]
    return pa.Array.from_buffers(
        pa.large_string(), len(array), [validity, doubled, pa.py_buffer(digits)]
    )


def _texts(array: pa.Array, column: TargetColumn) -> pa.Array:
    if isinstance(array.type, pa.UuidType) or (column.type.name == "uuid" and is_bytes(array.type)):
        storage = array.storage if isinstance(array, pa.ExtensionArray) else array
        digits = _hexadecimal(storage.cast(pa.large_binary()))
        parts = (pc.utf8_slice_codeunits(digits, start, stop) for start, stop in _UUID)
        found = pc.binary_join_element_wise(*parts, pa.scalar("-", pa.large_string()))
    else:
        plain = pt.is_string(array.type) or pt.is_large_string(array.type)
        found = array if plain else exactly(array, pa.large_string())
        if is_text(array.type):
            found.validate(full=True)  # nothing may have checked so far that it is UTF-8
    if column.type.name in ("enum", "set"):
        _check_members(found, column)
    elif column.charset == "tis620":
        # Of characters beyond 16 bits the server drops the others.
        _check(pc.invert(pc.match_substring_regex(found, r"[\x{10000}-\x{10FFFF}]")))
    return found


def _check_members(array: pa.Array, column: TargetColumn) -> None:
    """Digits would be taken for the place of a member, and case is ignored.

    Raises:
        ValueError: a value is not as the server would write it.
    """
    places = {member: place for place, member in enumerate(column.members)}
    for value in pc.unique(array).drop_null().to_pylist():
        if column.type.name == "set":
            found = [places.get(part, -1) for part in value.split(",")] if value else []
            fits = -1 not in found and found == sorted(set(found))
        else:
            fits = value in places
        if not fits:
            raise ValueError(f"no value of {column.definition}")
