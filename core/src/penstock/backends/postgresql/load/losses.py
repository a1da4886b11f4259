"""The losses of conversions to another type, or to a narrower one of the same type."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.backends.postgresql.catalog.datatypes import DataType
from penstock.backends.shared.values.losses import DAY, DIGITS, JSON, UTC

_WHOLE = ("int2", "int4", "int8")
_FLOATS = ("float4", "float8")
_DECIMALS = "digits after the decimal point are rounded away"
_DATE = "the date is dropped"
_ZONE = "the time zone is dropped"
_SHAPE = "part of the shape is dropped"

# Keyed by source and target. Casts that fail for a value that does not fit lose nothing.
LOSSES: dict[tuple[str, str], str] = {
    **{(many, whole): _DECIMALS for many in (*_FLOATS, "numeric") for whole in _WHOLE},
    **{("numeric", float_): DIGITS for float_ in _FLOATS},
    **{(float_, "numeric"): DIGITS for float_ in _FLOATS},
    ("float8", "float4"): DIGITS,
    ("int4", "float4"): DIGITS,
    ("int8", "float4"): DIGITS,
    ("int8", "float8"): DIGITS,
    ("numeric", "money"): _DECIMALS,
    ("timestamp", "date"): DAY,
    ("timestamptz", "date"): f"{DAY}; {UTC}",
    ("timestamp", "time"): _DATE,
    ("timestamptz", "time"): f"{_DATE}; {UTC}",
    ("timestamptz", "timetz"): f"{_DATE}; {UTC}",
    ("timestamptz", "timestamp"): UTC,
    ("timestamp", "timestamptz"): UTC,
    ("date", "timestamptz"): UTC,
    ("time", "timetz"): UTC,
    ("timetz", "time"): _ZONE,
    ("interval", "time"): "days, months and years are dropped",
    ("json", "jsonb"): JSON,
    ("inet", "cidr"): "bits to the right of the netmask are set to zero",
    **{("bpchar", text): "trailing blanks are removed" for text in ("text", "varchar", "name")},
    **{(text, "bpchar"): "trailing blanks are not significant" for text in ("text", "varchar")},
    **{(text, "name"): "cut to 63 bytes" for text in ("text", "varchar", "bpchar")},
    **{(text, "char"): "cut to one byte" for text in ("text", "varchar", "bpchar")},
    ("oid", "int4"): "numbers from 2147483648 on become negative",
    **{(shape, "point"): _SHAPE for shape in ("lseg", "box", "polygon", "circle")},
    ("box", "lseg"): _SHAPE,
    ("box", "circle"): _SHAPE,
    ("polygon", "box"): _SHAPE,
    ("polygon", "circle"): _SHAPE,
    ("circle", "box"): _SHAPE,
    ("path", "polygon"): _SHAPE,
}
_TIMES = ("time", "timetz", "timestamp", "timestamptz", "interval")
FULL_PRECISION = 6
# INTERVAL_FULL_RANGE and INTERVAL_FULL_PRECISION in timestamp.h
_FULL_RANGE = 0x7FFF
_FULL = 0xFFFF
_HEADER = 4  # VARHDRSZ, which modifiers of variable-length types include


def cast_losses(source: DataType, target: DataType) -> Iterator[str]:
    """Yield what a cast between two types may lose."""
    if source.schema == target.schema == "pg_catalog":
        if loss := LOSSES.get((source.name, target.name)):
            yield loss
        if "money" in (source.name, target.name):
            yield "money has two digits after the decimal point, whatever lc_monetary says"


def modifier_losses(source: DataType, target: DataType) -> Iterator[str]:
    """Yield what the target's modifier silently removes.

    Text that is too long causes an error instead.
    """
    if target.schema != "pg_catalog" or target.typmod < 0:
        return
    if target.name == "numeric":
        _, scale = numeric_modifier(target.typmod)
        if source.name in _WHOLE:
            source_scale: int | None = 0
        elif source.name == "numeric" and source.typmod >= 0:
            source_scale = numeric_modifier(source.typmod)[1]
        else:
            source_scale = None
        if source_scale is None or source_scale > scale:
            yield f"rounded to {scale} digits after the decimal point"
    if target.name in _TIMES and source.name in _TIMES:
        digits = precision(target)
        if precision(source) > digits:
            yield f"rounded to {digits} digits after the second"
    if target.name == "interval":
        fields = target.typmod >> 16 & _FULL_RANGE
        if fields != _FULL_RANGE and (
            source.name != "interval" or source.typmod < 0 or source.typmod >> 16 != fields
        ):
            yield "fields that the target's interval lacks are dropped"


def numeric_modifier(typmod: int) -> tuple[int, int]:
    """Return the precision and scale of a numeric: `make_numeric_typmod` in numeric.c."""
    packed = typmod - _HEADER
    # Eleven bits with a sign, since scales may be negative from PostgreSQL 15 on.
    return packed >> 16, ((packed & 0x7FF) ^ 0x400) - 0x400


def precision(type_: DataType) -> int:
    """Return the fractional digits of a second that a type keeps."""
    if type_.typmod < 0:
        return FULL_PRECISION
    if type_.name == "interval":
        digits = type_.typmod & _FULL
        return FULL_PRECISION if digits == _FULL else digits
    return type_.typmod
