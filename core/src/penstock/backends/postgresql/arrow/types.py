"""The mapping of server types to Arrow types, and back: the tables of the types page."""

from __future__ import annotations

import pyarrow as pa

from penstock.backends.postgresql.arrow.families import NESTED, element_of, family, unwrap
from penstock.backends.postgresql.catalog.columns import data_type
from penstock.backends.postgresql.catalog.datatypes import DataType
from penstock.backends.postgresql.load.losses import numeric_modifier
from penstock.model.tables import Column

DECIMAL128, DECIMAL256 = 38, 76
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


def arrow_type_of(column: Column) -> pa.DataType:
    """Return the Arrow type in which a server column's values travel.

    Args:
        column: with the traits from `describe_columns`.
    """
    bare = data_type(column).bare
    if bare.kind == "enum":
        return pa.dictionary(pa.int32(), pa.string())
    if bare.kind != "array":
        return _plain(bare)
    type_ = _plain(bare.components[0].bare)
    # The server enforces an array's element type, but not its declared dimensions.
    for _ in range(max(1, column.traits["dimensions"])):
        type_ = pa.list_(type_)
    return type_


def _plain(type_: DataType) -> pa.DataType:
    """Map a scalar type; types without a counterpart travel as text."""
    if type_.schema != "pg_catalog" or type_.kind != "base":
        return pa.string()
    if type_.name == "numeric":
        return _decimal(type_.typmod)
    return _PLAIN.get(type_.name, pa.string())


def _decimal(typmod: int) -> pa.DataType:
    if typmod < 0:
        return pa.string()
    precision, scale = numeric_modifier(typmod)
    # From PostgreSQL 15 on a scale may be negative or exceed the precision; files support neither.
    digits = precision - scale if scale < 0 else max(precision, scale)
    if digits <= DECIMAL128:
        return pa.decimal128(digits, max(scale, 0))
    return pa.decimal256(digits, max(scale, 0)) if digits <= DECIMAL256 else pa.string()


def column_type_for(type_: pa.DataType) -> str:
    """Return the column type to create for an Arrow type."""
    type_ = unwrap(type_)
    kind = family(type_)
    if kind == "integer":
        return _INTEGERS[str(type_)]
    if kind == "float":
        return "double precision" if pa.types.is_float64(type_) else "real"
    if kind == "decimal":
        precision, scale = type_.precision, type_.scale
        if scale < 0:
            precision, scale = precision - scale, 0
        return f"numeric({max(precision, scale)},{scale})"
    if kind == "timestamp":
        return "timestamp with time zone" if type_.tz else "timestamp without time zone"
    if kind == "list":
        element, depth = element_of(type_)
        # Nested lists may differ in length, unlike the dimensions of an array.
        return (
            "jsonb" if depth > 1 or family(element) in NESTED else f"{column_type_for(element)}[]"
        )
    return "jsonb" if kind in NESTED else _COLUMN_TYPES[kind]


_INTEGERS = {
    "int8": "smallint",
    "uint8": "smallint",
    "int16": "smallint",
    "uint16": "integer",
    "int32": "integer",
    "uint32": "bigint",
    "int64": "bigint",
    "uint64": "numeric(20,0)",
}
_COLUMN_TYPES = {
    "null": "text",
    "boolean": "boolean",
    "text": "text",
    "bytes": "bytea",
    "date": "date",
    "time": "time without time zone",
    "duration": "interval",
    "interval": "interval",
    "uuid": "uuid",
    "json": "json",
}
