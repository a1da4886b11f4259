"""The types of a server in Arrow, and the other way round: the tables of the types page."""

from __future__ import annotations

import pyarrow as pa

from penstock.backends.postgresql.columns import data_type
from penstock.backends.postgresql.datatypes import DataType
from penstock.model import Column

DECIMAL128, DECIMAL256 = 38, 76
# The length of the header that modifiers of variable length carry: VARHDRSZ.
_HEADER = 4
UTC = "UTC"

_PLAIN: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "oid": pa.uint32(),
    "xid": pa.uint32(),
    "cid": pa.uint32(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", UTC),
    "uuid": pa.uuid(),
}


def travels_as(column: Column) -> pa.DataType:
    """In what type the values of a server's column travel.

    Parameters:
        column: with the traits that `described` gives.
    """
    bare = data_type(column).bare
    if bare.kind == "enum":
        return pa.dictionary(pa.int32(), pa.string())
    if bare.kind != "array":
        return _plain(bare)
    found = _plain(bare.below[0].bare)
    # The server holds an array to its element type, and to its dimensions only by name.
    for _ in range(max(1, column.traits["dimensions"])):
        found = pa.list_(found)
    return found


def _plain(type_: DataType) -> pa.DataType:
    """Text is what every other type has."""
    if type_.schema != "pg_catalog" or type_.kind != "base":
        return pa.string()
    if type_.name == "numeric":
        return _decimal(type_.typmod)
    return _PLAIN.get(type_.name, pa.string())


def _decimal(typmod: int) -> pa.DataType:
    if typmod < 0:
        return pa.string()
    precision, scale = numeric_modifier(typmod)
    # A scale may be negative, or more than the precision (PostgreSQL 15); files know neither.
    digits = precision - scale if scale < 0 else max(precision, scale)
    if digits <= DECIMAL128:
        return pa.decimal128(digits, max(scale, 0))
    return pa.decimal256(digits, max(scale, 0)) if digits <= DECIMAL256 else pa.string()


def numeric_modifier(typmod: int) -> tuple[int, int]:
    """Precision and scale: `make_numeric_typmod` in numeric.c. The scale has eleven bits and a
    sign."""
    packed = typmod - _HEADER
    return packed >> 16, ((packed & 0x7FF) ^ 0x400) - 0x400
