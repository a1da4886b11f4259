"""Families of Arrow types and of server types, and which of them fit."""

from __future__ import annotations

import pyarrow as pa

from penstock.backends.postgresql.catalog.datatypes import DataType
from penstock.backends.shared.values.arrow import is_list, is_text

_OF_SERVER = {
    "bool": "boolean",
    "int2": "integer",
    "int4": "integer",
    "int8": "integer",
    "numeric": "decimal",
    "float4": "float",
    "float8": "float",
    "bytea": "bytes",
    "date": "date",
    "time": "time",
    "timestamp": "timestamp",
    "timestamptz": "timestamp",
    "interval": "interval",
    "uuid": "uuid",
    "json": "json",
    "jsonb": "json",
    "char": "text",
    "oid": "number",
    "xid": "number",
    "xid8": "number",
    "cid": "number",
    "money": "money",
}
NESTED = frozenset({"list", "struct", "map", "union"})
_SCALARS = frozenset(
    {
        "boolean", "integer", "decimal", "float", "text", "bytes", "date", "time", "timestamp",
        "duration", "interval", "uuid", "json",
    }
)  # fmt: skip

ACCEPTED_FAMILIES: dict[str, frozenset[str]] = {
    "boolean": frozenset({"boolean", "integer"}),
    "integer": frozenset({"integer", "decimal", "float"}),
    "decimal": frozenset({"integer", "decimal", "float"}),
    "float": frozenset({"integer", "decimal", "float"}),
    "text": _SCALARS | NESTED,
    "bytes": frozenset({"bytes"}),
    "date": frozenset({"date", "timestamp"}),
    "time": frozenset({"time"}),
    "timestamp": frozenset({"timestamp", "date"}),
    "interval": frozenset({"interval", "duration"}),
    "uuid": frozenset({"uuid", "bytes"}),
    "json": frozenset({"json"}) | NESTED,
    "number": frozenset({"integer"}),
    "money": frozenset({"integer", "decimal"}),
    "enum": frozenset(),
    "array": frozenset({"list"}),
    "composite": frozenset({"struct"}),
    "other": frozenset(),
}
"""By family of server types, the families of Arrow types that fit. A text fits any of them if the
server can parse it, as does a type whose only value is NULL.
"""


def unwrap(type_: pa.DataType) -> pa.DataType:
    """Unwrap dictionaries, run-end encoding and extension types, except UUID and JSON."""
    if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        return unwrap(type_.value_type)
    if isinstance(type_, pa.BaseExtensionType) and not isinstance(type_, pa.UuidType | pa.JsonType):
        return unwrap(type_.storage_type)
    return type_


def family(type_: pa.DataType) -> str:
    """Return the family of an Arrow type."""
    type_ = unwrap(type_)
    if isinstance(type_, pa.UuidType):
        return "uuid"
    if isinstance(type_, pa.JsonType):
        return "json"
    return next(name for name, holds in _OF_ARROW if holds(type_))


_OF_ARROW = (
    ("null", pa.types.is_null),
    ("boolean", pa.types.is_boolean),
    ("integer", pa.types.is_integer),
    ("decimal", pa.types.is_decimal),
    ("float", pa.types.is_floating),
    ("text", is_text),
    ("date", pa.types.is_date),
    ("time", pa.types.is_time),
    ("timestamp", pa.types.is_timestamp),
    ("duration", pa.types.is_duration),
    ("interval", pa.types.is_interval),
    ("list", is_list),
    ("struct", pa.types.is_struct),
    ("map", pa.types.is_map),
    ("union", pa.types.is_union),
    ("bytes", lambda _: True),
)


def family_of(type_: DataType) -> str:
    """Return the family of a server type."""
    bare = type_.bare
    if bare.kind in ("array", "enum", "composite"):
        return bare.kind
    if bare.schema == "pg_catalog" and bare.kind == "base" and bare.name in _OF_SERVER:
        return _OF_SERVER[bare.name]
    return "text" if bare.category == "S" else "other"


def element_of(type_: pa.DataType) -> tuple[pa.DataType, int]:
    """Return the innermost element type of nested lists, and their depth."""
    type_, depth = unwrap(type_), 0
    while is_list(type_):
        type_, depth = unwrap(type_.value_type), depth + 1
    return type_, depth


def is_accepted(type_: pa.DataType, target: DataType) -> bool:
    """Whether a server type accepts the values of an Arrow type."""
    mine, theirs = family(type_), family_of(target)
    if mine in ("null", "text"):
        return True
    if mine not in ACCEPTED_FAMILIES[theirs]:
        return False
    bare = target.bare
    if theirs == "array":
        return is_accepted(element_of(type_)[0], bare.components[0])
    if theirs == "composite":
        struct = unwrap(type_)
        names = tuple(struct.field(place).name for place in range(struct.num_fields))
        return names == bare.labels and all(
            is_accepted(struct.field(place).type, part)
            for place, part in enumerate(bare.components)
        )
    return True


_COMPARABLE = frozenset(
    {"boolean", "integer", "decimal", "float", "text", "bytes", "date", "time", "timestamp", "uuid"}
)


def canonical_kind(type_: pa.DataType, target: DataType) -> str:
    """Return the canonical form in which values of a pair are compared; empty without one.

    See `ColumnPair.canonical`.
    """
    mine, theirs = family(type_), family_of(target)
    bare = target.bare
    if mine == "list" and theirs == "array":
        element, depth = element_of(type_)
        kind = canonical_kind(element, bare.components[0])
        return "list:" * depth + kind if kind else ""
    if mine == "text" and (theirs == "enum" or bare.identity == "pg_catalog.json"):
        return "text"
    if mine == "integer" and theirs in ("decimal", "number"):
        return "integer"
    if mine == "integer" and theirs == "boolean":
        return "boolean"  # it accepts only 0 and 1
    if mine == "decimal" and theirs == "integer":
        return "decimal"  # both sides write whole numbers with the same digits
    return mine if mine == theirs and mine in _COMPARABLE else ""
