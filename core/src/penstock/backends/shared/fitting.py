"""Which values of one Arrow type another one takes: for targets that cast record batches."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pt

from penstock.backends.api.facts import Fit
from penstock.backends.shared.arrow import is_list, kind_of

UNITS = ("s", "ms", "us", "ns")


def is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


def holds(mine: pa.DataType, theirs: pa.DataType) -> bool:
    """Whether a type of numbers has every value of another, or rounds it."""
    if pt.is_floating(theirs):
        bits = {16: 11, 32: 24, 64: 53}[theirs.bit_width]
        return not pt.is_integer(mine) or mine.bit_width <= bits
    low, high, scale = _range(mine)
    their_low, their_high, their_scale = _range(theirs)
    return their_low <= low and high <= their_high and scale <= their_scale


def _range(kind: pa.DataType) -> tuple[float, float, float]:
    """The least and the largest number, and the digits of a fraction."""
    if pt.is_decimal(kind):
        most = 10 ** (kind.precision - kind.scale) - 1
        return -most, most, kind.scale
    if pt.is_floating(kind):
        return float("-inf"), float("inf"), float("inf")
    if pt.is_unsigned_integer(kind):
        return 0, 2**kind.bit_width - 1, 0
    return -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1, 0


def fit_types(mine: pa.DataType, theirs: pa.DataType) -> Fit:
    """How values go into a column whose own values travel as another type, where the database
    casts what Arrow does not. Formats are left open."""
    a, b = kind_of(mine), kind_of(theirs)
    refused = f"values that are no {theirs} are refused"
    if mine.equals(theirs):
        return Fit(canonical=b)
    match a, b:
        case ("decimal", "float"):
            return Fit(warning="values may be rounded", lossy=True)
        case ("float", "float") if theirs.bit_width < mine.bit_width:
            return Fit(warning="values may be rounded", lossy=True)
        case ("float", "decimal" | "integer"):
            return Fit(warning="values may be rounded, or refused", lossy=True)
        case ("integer" | "decimal" | "float", "integer" | "decimal" | "float"):
            # A whole number is written alike as a decimal.
            canonical = "decimal" if a == "decimal" else b
            return Fit(warning="" if holds(mine, theirs) else refused, canonical=canonical)
        case ("boolean", "integer") | ("integer", "boolean"):
            return Fit(lossy=a == "integer")
        case ("date", "date") | ("time", "time") | ("text", "text") | ("bytes", "bytes"):
            return Fit(canonical=b)
        case ("timestamp", "timestamp"):
            remarks = [refused] if UNITS.index(mine.unit) > UNITS.index(theirs.unit) else []
            if (mine.tz is None) != (theirs.tz is None):
                remarks.append("a time without zone is taken for UTC")
            return Fit(warning=", ".join(remarks), canonical=b)
        case ("date", "timestamp"):
            return Fit(canonical=b)
        case ("timestamp", "date"):
            return Fit(warning="the time of day is cut off", lossy=True)
        case ("uuid", "text"):
            return Fit(canonical="uuid")
        case ("text", "bytes") | ("bytes", "text"):
            return Fit(reason="bytes are no text: expected one or the other on both sides")
        case ("text", _) if b and not b.startswith("list:"):
            return Fit(warning=f"texts that are no {theirs} are refused")
        case (_, "text") if a and not a.startswith("list:"):
            return Fit()
    return _fit_nested(mine, theirs)


def _fit_nested(mine: pa.DataType, theirs: pa.DataType) -> Fit:
    if is_list(mine) and is_list(theirs):
        inner = fit_types(mine.value_type, theirs.value_type)
        kind = f"list:{inner.canonical}" if inner.canonical else ""
        return Fit(inner.reason, warning=inner.warning, lossy=inner.lossy, canonical=kind)
    if pt.is_struct(mine) and pt.is_struct(theirs):
        if [f.name for f in mine] != [f.name for f in theirs]:
            return Fit(reason="the structures have other fields")
        return _together(
            [fit_types(x.type, y.type) for x, y in zip(mine, theirs, strict=True)],
        )
    if pt.is_map(mine) and pt.is_map(theirs):
        parts = (mine.key_type, theirs.key_type), (mine.item_type, theirs.item_type)
        return _together([fit_types(*part) for part in parts])
    if pt.is_null(mine):
        return Fit()
    return Fit(reason=f"{mine} does not go into {theirs}")


def _together(parts: Sequence[Fit]) -> Fit:
    return Fit(
        next((part.reason for part in parts if part.reason), ""),
        warning=next((part.warning for part in parts if part.warning), ""),
        lossy=any(part.lossy for part in parts),
    )
