"""Types of Parquet columns: their names, and the types that source columns become."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa

from penstock.backends.shared.values.arrow import is_list

_WITH_NUMBERS: dict[str, Callable[..., pa.DataType]] = {
    "decimal": lambda p, s="0": _decimal(int(p), int(s)),
    "decimal128": lambda p, s="0": pa.decimal128(int(p), int(s)),
    "decimal256": lambda p, s="0": pa.decimal256(int(p), int(s)),
    "fixed_size_binary": lambda width: pa.binary(int(width)),
}
_DECIMAL = re.compile(r"(\w+)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_ZONED = re.compile(r"timestamp\s*\[\s*(s|ms|us|ns)\s*,\s*([^\]]+?)\s*\]")
_LIST = re.compile(r"list\s*<(.+)>", re.DOTALL)
NOTATION = (
    "int8 ... int64, uint8 ... uint64, float, double, bool, string, binary, fixed_size_binary(16), "
    "uuid, decimal(12,2), date32, time64[us], timestamp[us], timestamp[us, UTC], list<...>"
)


def _decimal(precision: int, scale: int) -> pa.DataType:
    kind = pa.decimal128 if precision <= 38 else pa.decimal256
    return kind(precision, scale)


def parse_type(text: str) -> pa.DataType:
    """Parse the name of an Arrow type.

    Raises:
        ValueError: no type has that name.
    """
    text = text.strip()
    if match := _LIST.fullmatch(text):
        return pa.list_(pa.field("element", parse_type(match[1])))
    if match := _ZONED.fullmatch(text):
        return pa.timestamp(match[1], match[2])
    if (match := _DECIMAL.fullmatch(text)) and match[1] in _WITH_NUMBERS:
        return _WITH_NUMBERS[match[1]](*filter(None, match.groups()[1:]))
    if text == "uuid":
        return pa.uuid()
    return pa.type_for_alias(text)


def stored_as(kind: pa.DataType) -> pa.DataType:
    """Return the type that readers get from a column created for a type.

    Raises:
        ValueError: Parquet has no such type; the message gives the reason.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return kind
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return stored_as(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) or pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_date64(kind):
        return pa.date32()
    # Parquet's shortest unit is the millisecond.
    if pa.types.is_time32(kind):
        return pa.time32("ms")
    if pa.types.is_timestamp(kind) and kind.unit == "s":
        return pa.timestamp("ms", kind.tz)
    if pa.types.is_map(kind):
        return pa.map_(stored_as(kind.key_type), _field(kind.item_field, "value"))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_field(kind.value_field, "element"), kind.list_size)
    if is_list(kind):
        return pa.list_(_field(kind.value_field, "element"))
    if pa.types.is_struct(kind):
        return pa.struct([_field(field, field.name) for field in kind])
    if pa.types.is_interval(kind) or pa.types.is_union(kind):
        raise ValueError(f"Parquet cannot store {kind}; cast it with --query")
    return kind


def _field(field: pa.Field, name: str) -> pa.Field:
    return pa.field(name, stored_as(field.type), field.nullable)


def shown(kind: pa.DataType) -> str:
    """Return a type in the form that `parse_type` parses, as far as it does."""
    if isinstance(kind, pa.UuidType):
        return "uuid"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"list<{shown(kind.value_type)}>"
    if pa.types.is_timestamp(kind) and kind.tz:
        return f"timestamp[{kind.unit}, {kind.tz}]"
    return str(kind)
