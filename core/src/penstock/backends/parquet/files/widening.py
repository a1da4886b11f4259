"""A type for columns that files store as different types, if it holds all values of each."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as is_

from penstock.backends.shared.values.arrow import is_list
from penstock.backends.shared.values.fitting import UNITS

_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_MOST_DIGITS, _MOST_WIDE_DIGITS = 38, 76


def widened(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """Return a type that holds the values of both types, or None.

    A whole number of 64 bits beside a double becomes a double, and a time in another unit the finer
    one: the few values that do not fit are rejected when they are read.
    """
    if a.equals(b) or is_.is_null(b):
        return a
    if is_.is_null(a):
        return b
    if _is_number(a) and _is_number(b):
        return _number(a, b)
    if is_.is_timestamp(a) and is_.is_timestamp(b) and a.tz == b.tz:
        return pa.timestamp(_finer(a, b), a.tz)
    if is_.is_time(a) and is_.is_time(b):
        return pa.time64(_finer(a, b))
    if is_.is_duration(a) and is_.is_duration(b):
        return pa.duration(_finer(a, b))
    if is_list(a) and is_list(b):
        inner = widened(a.value_type, b.value_type)
        return None if inner is None else pa.list_(inner)
    if is_.is_map(a) and is_.is_map(b):
        key, item = widened(a.key_type, b.key_type), widened(a.item_type, b.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if is_.is_struct(a) and is_.is_struct(b) and a.names == b.names:
        parts = [widened(x.type, y.type) for x, y in zip(a, b, strict=True)]
        return None if None in parts else pa.struct(list(zip(a.names, parts, strict=True)))
    return None


def _is_number(kind: pa.DataType) -> bool:
    return bool(is_.is_integer(kind) or is_.is_floating(kind) or is_.is_decimal(kind))


def _finer(a: pa.DataType, b: pa.DataType) -> str:
    return str(max(a.unit, b.unit, key=UNITS.index))


def _number(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if is_.is_floating(a) or is_.is_floating(b):
        if is_.is_decimal(a) or is_.is_decimal(b):
            return None
        small = all(is_.is_float32(kind) or kind.bit_width <= 16 for kind in (a, b))
        return pa.float32() if small else pa.float64()
    if is_.is_decimal(a) or is_.is_decimal(b):
        return _decimal(a, b)
    if is_.is_signed_integer(a) == is_.is_signed_integer(b):
        return a if a.bit_width > b.bit_width else b
    signed, unsigned = (a, b) if is_.is_signed_integer(a) else (b, a)
    bits = max(signed.bit_width, 2 * unsigned.bit_width)
    if bits > 64:
        return pa.decimal128(_DIGITS[64] + 1, 0)
    return {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[bits]


def _decimal(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    scale = max(_scale(a), _scale(b))
    digits = max(_whole_digits(a), _whole_digits(b)) + scale
    if digits > _MOST_WIDE_DIGITS:
        return None
    return (pa.decimal128 if digits <= _MOST_DIGITS else pa.decimal256)(digits, scale)


def _scale(kind: pa.DataType) -> int:
    return int(kind.scale) if is_.is_decimal(kind) else 0


def _whole_digits(kind: pa.DataType) -> int:
    if is_.is_decimal(kind):
        return int(kind.precision - kind.scale)
    return _DIGITS[kind.bit_width] + int(is_.is_unsigned_integer(kind))
