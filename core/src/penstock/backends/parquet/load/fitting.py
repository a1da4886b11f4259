"""How a column of record batches fits one of a Parquet dataset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.backends.api.facts import Fit
from penstock.backends.api.worker import ARROW
from penstock.backends.parquet.files.column_types import shown
from penstock.backends.shared.values import losses
from penstock.backends.shared.values.arrow import arrow_type, is_bytes, is_list, is_text, kind_of
from penstock.backends.shared.values.fitting import is_number, refused_numbers, refused_times
from penstock.model.tables import Column


def fit_columns(source: Sequence[Column], target: Sequence[Column]) -> list[Fit]:
    """Return how columns fit, pairwise; see `TargetCatalog.fit`."""
    return [
        fit(arrow_type(mine), arrow_type(theirs))
        for mine, theirs in zip(source, target, strict=True)
    ]


def fit(source: pa.DataType, target: pa.DataType) -> Fit:
    """Return whether values can be cast from one type to the other, and with what effect."""
    if (is_text(_plain(source)) and isinstance(target, pa.UuidType)) or (
        isinstance(source, pa.UuidType) and is_text(target)
    ):
        return Fit(reason="a uuid and its text differ; cast one to the other with --query")
    if source != target:
        try:
            pa.nulls(0, source).cast(target)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
            return Fit(reason=f"{shown(source)} cannot be cast to {shown(target)}")
    losses = list(dict.fromkeys(_losses(source, target)))
    risks = list(dict.fromkeys(_risks(source, target)))
    return Fit(
        formats=(ARROW,),
        warning="; ".join([*losses, *risks]),
        lossy=bool(losses),
        canonical="" if losses else _shared_kind(source, target),
    )


def _leaves(source: pa.DataType, target: pa.DataType) -> Iterator[tuple[pa.DataType, pa.DataType]]:
    """Yield the components of two types pairwise."""
    source, target = _plain(source), _plain(target)
    if is_list(source) and is_list(target):
        yield from _leaves(source.value_type, target.value_type)
    elif pa.types.is_map(source) and pa.types.is_map(target):
        yield from _leaves(source.key_type, target.key_type)
        yield from _leaves(source.item_type, target.item_type)
    elif pa.types.is_struct(source) and pa.types.is_struct(target):
        theirs = {field.name: field.type for field in target}
        for field in source:
            if field.name in theirs:
                yield from _leaves(field.type, theirs[field.name])
    else:
        yield source, target


def _plain(kind: pa.DataType) -> pa.DataType:
    """Remove encodings and names from a type."""
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _plain(kind.value_type)
    return kind


def _losses(source: pa.DataType, target: pa.DataType) -> Iterator[str]:
    for mine, theirs in _leaves(source, target):
        if pa.types.is_floating(theirs):
            narrower = pa.types.is_floating(mine) and mine.bit_width > theirs.bit_width
            if narrower or pa.types.is_decimal(mine):
                yield losses.DIGITS
        if pa.types.is_timestamp(mine) and pa.types.is_date(theirs):
            yield losses.DAY
        both = pa.types.is_timestamp(mine) and pa.types.is_timestamp(theirs)
        if both and bool(mine.tz) != bool(theirs.tz):
            yield losses.UTC
        if pa.types.is_struct(mine) and pa.types.is_struct(theirs):
            yield "fields of the struct that the target lacks are dropped"


def _risks(source: pa.DataType, target: pa.DataType) -> Iterator[str]:
    for mine, theirs in _leaves(source, target):
        if mine == theirs:
            continue
        if is_number(mine) and is_number(theirs):
            if refused := refused_numbers(mine, theirs):
                yield refused
        elif is_text(mine) and not is_text(theirs) and not is_bytes(theirs):
            yield losses.NO_VALUE
        elif is_bytes(mine) and is_text(theirs):
            yield losses.NOT_UTF8
        elif _counted(mine) and _counted(theirs):
            if refused := refused_times(mine, theirs):
                yield refused
            elif theirs.unit == "ns" and mine.unit != "ns":
                yield "times before 1677 or after 2262 are rejected"


def _counted(kind: pa.DataType) -> bool:
    """Whether the type counts units of time."""
    return bool(pa.types.is_timestamp(kind) or pa.types.is_time(kind) or pa.types.is_duration(kind))


def _shared_kind(source: pa.DataType, target: pa.DataType) -> str:
    """Return the canonical form for values of both sides; empty without one."""
    leaves = [leaf for pair in _leaves(source, target) for leaf in pair]
    if any(pa.types.is_decimal(leaf) and leaf.precision > 38 for leaf in leaves):
        return ""  # no engine reads it
    mine, theirs = kind_of(source), kind_of(target)
    if mine == theirs:
        return mine
    # A whole number has the same text as a decimal.
    return "decimal" if {mine, theirs} == {"integer", "decimal"} else ""
