"""Values of one Arrow type that fit another, for targets that cast record batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.types as pt

from penstock.backends.api.facts import Fit
from penstock.backends.api.worker import ARROW
from penstock.backends.shared.values import losses
from penstock.backends.shared.values.arrow import arrow_type, is_list, is_text, kind_of
from penstock.model.tables import Column

UNITS = ("s", "ms", "us", "ns")


def is_number(kind: pa.DataType) -> bool:
    """Whether a type is an integer, a float or a decimal."""
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


def refused_numbers(mine: pa.DataType, theirs: pa.DataType) -> str:
    """Return which numbers another type rejects; empty if it accepts or rounds all."""
    if pt.is_floating(theirs):
        bits = {16: 11, 32: 24, 64: 53}[theirs.bit_width]
        return losses.beyond(bits) if pt.is_integer(mine) and mine.bit_width > bits else ""
    low, high, scale = _range(mine)
    their_low, their_high, their_scale = _range(theirs)
    if scale > their_scale == 0:
        return losses.FRACTIONS
    if pt.is_decimal(mine) and scale > their_scale:
        return losses.longer(theirs.scale)
    return "" if their_low <= low and high <= their_high else losses.OUT_OF_RANGE


def refused_times(mine: pa.DataType, theirs: pa.DataType) -> str:
    """Return which times or durations another type rejects; empty if it accepts all."""
    return losses.finer(theirs.unit) if UNITS.index(mine.unit) > UNITS.index(theirs.unit) else ""


def _range(kind: pa.DataType) -> tuple[float, float, float]:
    """Return the lowest and the highest number, and the decimal places."""
    if pt.is_decimal(kind):
        most = 10 ** (kind.precision - kind.scale) - 1
        return -most, most, kind.scale
    if pt.is_floating(kind):
        return float("-inf"), float("inf"), float("inf")
    if pt.is_unsigned_integer(kind):
        return 0, 2**kind.bit_width - 1, 0
    return -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1, 0


def fit_column(source: Column, target: Column) -> Fit:
    """Return how a column fits another one, in record batches."""
    if target.generated:
        return Fit(reason=losses.COMPUTED)
    mine, theirs = arrow_type(source), arrow_type(target)
    if is_list(mine) and is_text(theirs):
        return carried(Fit(warning=losses.AS_JSON, lossy=True))
    return carried(fit_types(mine, theirs))


def carried(fit: Fit) -> Fit:
    """Return a fit that uses record batches, if there is any fit."""
    return fit if fit.reason else replace(fit, formats=(ARROW,))


def fit_types(mine: pa.DataType, theirs: pa.DataType) -> Fit:
    """Return how values fit a column whose own values travel as another type.

    The database casts what Arrow does not. Formats are left open.
    """
    a, b = kind_of(mine), kind_of(theirs)
    if mine.equals(theirs):
        return Fit(canonical=b)
    match a, b:
        case ("decimal", "float"):
            return Fit(warning=losses.DIGITS, lossy=True)
        case ("float", "float") if theirs.bit_width < mine.bit_width:
            return Fit(warning=losses.DIGITS, lossy=True)
        case ("float", "decimal" | "integer"):
            return Fit(warning=f"{losses.DIGITS}; {losses.OUT_OF_RANGE}", lossy=True)
        case ("integer" | "decimal" | "float", "integer" | "decimal" | "float"):
            # A whole number has the same text as a decimal.
            canonical = "decimal" if a == "decimal" else b
            return Fit(warning=refused_numbers(mine, theirs), canonical=canonical)
        case ("boolean", "integer") | ("integer", "boolean"):
            return Fit(lossy=a == "integer")
        case ("date", "date") | ("time", "time") | ("text", "text") | ("bytes", "bytes"):
            return Fit(canonical=b)
        case ("timestamp", "timestamp"):
            zone = losses.UTC if (mine.tz is None) != (theirs.tz is None) else ""
            remarks = filter(None, (refused_times(mine, theirs), zone))
            return Fit(warning="; ".join(remarks), canonical=b)
        case ("date", "timestamp"):
            return Fit(canonical=b)
        case ("timestamp", "date"):
            return Fit(warning=losses.DAY, lossy=True)
        case ("uuid", "text"):
            return Fit(canonical="uuid")
        case ("text", "bytes") | ("bytes", "text"):
            return Fit(reason="bytes are not text: expected one or the other on both sides")
        case ("text", _) if b and not b.startswith("list:"):
            return Fit(warning=losses.NO_VALUE)
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
            return Fit(reason="the structs have different fields")
        return _together(
            [fit_types(x.type, y.type) for x, y in zip(mine, theirs, strict=True)],
        )
    if pt.is_map(mine) and pt.is_map(theirs):
        parts = (mine.key_type, theirs.key_type), (mine.item_type, theirs.item_type)
        return _together([fit_types(*part) for part in parts])
    if pt.is_null(mine):
        return Fit()
    return Fit(reason=losses.NO_FIT)


def _together(parts: Sequence[Fit]) -> Fit:
    return Fit(
        next((part.reason for part in parts if part.reason), ""),
        warning=next((part.warning for part in parts if part.warning), ""),
        lossy=any(part.lossy for part in parts),
    )
