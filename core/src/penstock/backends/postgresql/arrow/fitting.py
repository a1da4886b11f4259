"""The fit of a record batch's column into a column of the server, and its losses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.backends.api.facts import Fit
from penstock.backends.api.worker import ARROW, CSV
from penstock.backends.postgresql.arrow.families import (
    canonical_kind,
    element_of,
    family,
    family_of,
    is_accepted,
    unwrap,
)
from penstock.backends.postgresql.arrow.types import arrow_type_of
from penstock.backends.postgresql.catalog.columns import data_type, unloadable_reason
from penstock.backends.postgresql.catalog.datatypes import DataType
from penstock.backends.postgresql.load.losses import numeric_modifier, precision
from penstock.backends.shared.values import losses
from penstock.backends.shared.values.arrow import arrow_type
from penstock.model.tables import Column

BLANKS = "trailing blanks are not significant"
_INTEGER_BITS = {"int2": 16, "int4": 32, "int8": 64, "oid": 33, "xid": 33, "cid": 33, "xid8": 65}
_EXACT_BITS = {"float4": 24, "float8": 53}
_SAME_TEXTS = {
    "boolean": ("bool",),
    "integer": ("int2", "int4", "int8", "numeric"),
    "decimal": ("numeric",),
    "float": ("float8",),
    "date": ("date",),
    "time": ("time",),
    "uuid": ("uuid",),
    "bytes": ("bytea",),
}
# The types that a table gives to texts; values of others may be written as those of more types.
_GIVING = frozenset(
    {
        "bool", "int2", "int4", "int8", "numeric", "float8", "date", "time", "timestamp",
        "timestamptz", "uuid", "text", "varchar", "bpchar",
    }
)  # fmt: skip
_UNIT_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 6}


def fit_arrow(source: Sequence[Column], target: Sequence[Column]) -> list[Fit]:
    """Judge how each source column fits its target column.

    Args:
        source: columns with the trait `arrow`.
        target: columns with this server's traits.
    """
    return [_fit(*pair) for pair in zip(source, target, strict=True)]


def _fit(mine: Column, theirs: Column) -> Fit:
    if reason := unloadable_reason(theirs):
        return Fit(reason=reason)
    type_, target = arrow_type(mine), data_type(theirs)
    if not is_accepted(type_, target):
        return Fit(reason=f"Arrow's {type_} has no form that {theirs.type} accepts")
    changes = list(dict.fromkeys(_losses(type_, target)))
    warning = "; ".join([*changes, *dict.fromkeys(_risks(type_, target))])
    comparable = not changes or changes == [BLANKS]
    passes = mine.traits.get(CSV) == "" and is_same_text(type_, target)
    return Fit(
        formats=(CSV, ARROW) if passes else (ARROW,),
        warning=warning,
        lossy=bool(changes),
        canonical=canonical_kind(type_, target) if comparable else "",
    )


def text_type(column: Column) -> pa.DataType | None:
    """Return the type whose texts a column takes as the same values; see `GivesTypes`."""
    type_ = data_type(column)
    if column.generated or type_.schema != "pg_catalog" or type_.name not in _GIVING:
        return None
    if type_.typmod >= 0 and type_.name in ("time", "timestamp", "timestamptz"):
        return None
    mine = arrow_type_of(column)
    # A numeric that travels as text has digits without a limit.
    return None if type_.name == "numeric" and not pa.types.is_decimal128(mine) else mine


def is_same_text(type_: pa.DataType, target: DataType) -> bool:
    """Whether the server reads a value's text in CSV as the value that it has as a type in Arrow.

    Args:
        type_: the type that was inferred from all texts.
        target: a type that accepts it.
    """
    kind = family(type_)
    if kind == "text":
        return True
    if target.bare.schema != "pg_catalog":
        return False
    if kind == "timestamp":
        return target.bare.name == ("timestamptz" if type_.tz else "timestamp")
    return target.bare.name in _SAME_TEXTS.get(kind, ())


def _leaves(type_: pa.DataType, target: DataType) -> Iterator[tuple[pa.DataType, DataType]]:
    """Yield the components of both types, pairwise."""
    type_, target = unwrap(type_), target.bare
    if target.kind == "array" and family(type_) == "list":
        yield from _leaves(element_of(type_)[0], target.components[0])
    elif target.kind == "composite" and family(type_) == "struct":
        for place, part in enumerate(target.components):
            yield from _leaves(type_.field(place).type, part)
    else:
        yield type_, target


def _losses(type_: pa.DataType, target: DataType) -> Iterator[str]:
    """Yield the ways in which values may change."""
    for mine, theirs in _leaves(type_, target):
        if theirs.schema == "pg_catalog":
            yield from _value_losses(mine, theirs)


def _value_losses(type_: pa.DataType, target: DataType) -> Iterator[str]:
    kind, name = family(type_), target.name
    if kind == "text":
        if name == "bpchar":
            yield BLANKS
        elif name == "name":
            yield "cut to 63 bytes"
        elif name == "char":
            yield "cut to one byte"
        elif name == "jsonb":
            yield losses.JSON
        elif name == "cidr":
            yield "bits to the right of the netmask are set to zero"
    if kind == "json" and name == "jsonb":
        yield losses.JSON
    if (
        (kind == "decimal" and name in _EXACT_BITS)
        or (kind == "float" and name == "numeric")
        or (pa.types.is_float64(type_) and name == "float4")
    ):
        yield losses.DIGITS
    if kind == "timestamp" and name == "date":
        yield losses.DAY
    zoned = kind == "timestamp" and bool(type_.tz)
    if (name == "timestamptz" and kind in ("timestamp", "date") and not zoned) or (
        name in ("timestamp", "date") and zoned
    ):
        yield losses.UTC
    if target.typmod >= 0:
        yield from _modifier_losses(type_, target)


def _modifier_losses(type_: pa.DataType, target: DataType) -> Iterator[str]:
    kind, name = family(type_), target.name
    if name == "numeric":
        _, scale = numeric_modifier(target.typmod)
        mine = {"integer": 0, "decimal": getattr(type_, "scale", 0)}.get(kind)
        if mine is None or mine > scale:
            yield f"rounded to {scale} digits after the decimal point"
    elif name in ("time", "timestamp", "timestamptz"):
        digits = precision(target)
        if kind != "date" and _UNIT_DIGITS[getattr(type_, "unit", "us")] > digits:
            yield f"rounded to {digits} digits after the second"
    elif name == "interval":
        yield "fields that the target's interval lacks are dropped"


def _risks(type_: pa.DataType, target: DataType) -> Iterator[str]:
    """Yield the reasons for which values may be rejected."""
    bare = target.bare
    if bare.kind == "array" and family(type_) == "list" and element_of(type_)[1] > 1:
        yield "lists of lists of unequal lengths are rejected"
    for mine, theirs in _leaves(type_, target):
        yield from _value_risks(mine, theirs)


def _value_risks(type_: pa.DataType, target: DataType) -> Iterator[str]:
    kind, theirs, name = family(type_), family_of(target), target.name
    if kind == "text" and theirs != "text":
        yield losses.NO_VALUE
    elif kind == "bytes" and theirs == "text":
        yield losses.NOT_UTF8
    elif kind == "bytes" and theirs == "uuid" and type_ != pa.binary(16):
        yield "values that are not 16 bytes long are rejected"
    elif theirs == "boolean" and kind == "integer":
        yield losses.NO_TRUTH
    elif theirs in ("integer", "number"):
        if kind == "integer":
            signed = pa.types.is_signed_integer(type_)
            fits = type_.bit_width + (not signed) <= _INTEGER_BITS[name]
            if not fits or (signed and theirs == "number"):
                yield losses.OUT_OF_RANGE
        else:
            yield losses.FRACTIONS
    elif kind == "integer" and name in _EXACT_BITS and type_.bit_width > _EXACT_BITS[name]:
        yield losses.beyond(_EXACT_BITS[name])
    elif pa.types.is_float64(type_) and name == "float4":
        yield losses.OUT_OF_RANGE
    elif name == "numeric" and target.typmod >= 0:
        most, scale = numeric_modifier(target.typmod)
        digits = _whole_digits(type_)
        if digits is None or digits > most - scale:
            before = most - scale
            yield f"numbers of more than {before} digits before the decimal point are rejected"
    if getattr(type_, "unit", "") == "ns" and theirs in ("time", "timestamp", "interval", "text"):
        yield losses.finer("us")


def _whole_digits(type_: pa.DataType) -> int | None:
    """Return the maximum number of digits before the decimal point; None if unknown."""
    if family(type_) == "decimal":
        return int(type_.precision - type_.scale)
    if family(type_) == "integer":
        return len(str(1 << (type_.bit_width - pa.types.is_signed_integer(type_))))
    return None
