"""How values in record batches fit DuckDB's columns, and the columns created for them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pt

from penstock.backends.api.facts import Fit
from penstock.backends.duckdb.dialect import MOST_DIGITS, ident
from penstock.backends.shared.values import losses
from penstock.backends.shared.values.arrow import arrow_type, is_bytes, is_list, is_text, kind_of
from penstock.backends.shared.values.fitting import carried, fit_types
from penstock.backends.sql.catalog.relations import TYPE
from penstock.backends.sql.dialect import Type
from penstock.errors import PlanningError
from penstock.model.tables import Column

# Types of DuckDB that travel as texts without being texts: they may write one value differently.
_WRITTEN = ("interval", "time with time zone", "bit", "geometry", "bignum")
# Types whose values are ambiguous as text: 5 may be a number or a text, and NULL either.
_UNTOLD = ("union", "variant")
TEXT = "VARCHAR"
# The types that a table gives to texts, in addition to decimals.
_GIVING = (
    pa.bool_(), pa.int16(), pa.int32(), pa.int64(), pa.float64(), pa.date32(), pa.time64("us"),
    pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.uuid(),
)  # fmt: skip
_UNITS = {"s": "TIMESTAMP_S", "ms": "TIMESTAMP_MS", "us": "TIMESTAMP", "ns": "TIMESTAMP_NS"}


def column_type(kind: pa.DataType, name: str) -> tuple[str, str]:
    """Return the type of a column created for an Arrow type, and a remark on it.

    Raises:
        PlanningError: DuckDB has no such type.
    """
    if isinstance(kind, pa.UuidType):
        return "UUID", ""
    if isinstance(kind, pa.JsonType):
        return "JSON", ""
    if isinstance(kind, pa.BaseExtensionType):
        return column_type(kind.storage_type, name)
    if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        return column_type(kind.value_type, name)
    if pt.is_boolean(kind):
        return "BOOLEAN", ""
    if pt.is_integer(kind):
        signed = "" if pt.is_signed_integer(kind) else "U"
        names = {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}
        return signed + names[kind.bit_width], ""
    if pt.is_floating(kind):
        return ("DOUBLE" if kind.bit_width == 64 else "FLOAT"), ""
    if pt.is_decimal(kind):
        if kind.precision > MOST_DIGITS or kind.scale < 0 or kind.scale > kind.precision:
            return TEXT, f"{kind} becomes text: DECIMAL has at most {MOST_DIGITS} digits"
        return f"DECIMAL({kind.precision},{kind.scale})", ""
    if is_text(kind) or pt.is_null(kind):
        return TEXT, ""
    if is_bytes(kind):
        return "BLOB", ""
    if pt.is_date(kind):
        return "DATE", ""
    if pt.is_time(kind):
        return "TIME", ("TIME has microseconds" if kind == pa.time64("ns") else "")
    if pt.is_timestamp(kind):
        if kind.tz is None:
            return _UNITS[kind.unit], ""
        finer = "TIMESTAMP WITH TIME ZONE has microseconds" if kind.unit == "ns" else ""
        return "TIMESTAMP WITH TIME ZONE", finer
    if pt.is_duration(kind) or pt.is_interval(kind):
        return "INTERVAL", ""
    if is_list(kind):
        inner, remark = column_type(kind.value_type, name)
        size = kind.list_size if pt.is_fixed_size_list(kind) else ""
        return f"{inner}[{size}]", remark
    if pt.is_struct(kind):
        parts = [(field.name, *column_type(field.type, name)) for field in kind]
        inner = ", ".join(f"{ident(part)} {type_}" for part, type_, _ in parts)
        return f"STRUCT({inner})", next((remark for *_, remark in parts if remark), "")
    if pt.is_map(kind):
        key, _ = column_type(kind.key_type, name)
        item, remark = column_type(kind.item_type, name)
        return f"MAP({key}, {item})", remark
    raise PlanningError(
        f"target: column {name}: DuckDB has no type for {kind}; cast it with --query, or leave it "
        "out with --columns"
    )


def fit_columns(source: Sequence[Column], target: Sequence[Column]) -> list[Fit]:
    """Return how columns fit, pairwise; see `TargetCatalog.fit`."""
    return [_fit(mine, theirs) for mine, theirs in zip(source, target, strict=True)]


def text_type(column: Column) -> pa.DataType | None:
    """Return the type whose texts a column takes as the same values; see `GivesTypes`."""
    kind = arrow_type(column)
    gives = column.type == TEXT if is_text(kind) else pt.is_decimal128(kind) or kind in _GIVING
    return kind if gives and not column.generated else None


def _fit(source: Column, target: Column) -> Fit:
    mine, theirs = arrow_type(source), arrow_type(target)
    if target.generated:
        return Fit(reason=losses.COMPUTED)
    type_id = target.traits[TYPE].id if TYPE in target.traits else ""
    if ambiguous := _ambiguous_type(target):
        return Fit(
            reason=f"values arrive as texts, which do not tell what a {ambiguous} holds; expected "
            "another type, such as VARCHAR (with --mode recreate: --types)"
        )
    if source.type == target.type and mine.equals(theirs):
        return carried(Fit(canonical=kind_of(theirs)))  # of a single system
    return carried((_fit_written if type_id in _WRITTEN else fit_types)(mine, theirs))


def _ambiguous_type(column: Column) -> str:
    """Return the first ambiguous type in a column's type, at any depth; empty without one."""

    def ambiguous_type(type_: Type) -> str:
        if type_.id in _UNTOLD:
            return str(type_.id).upper()
        if type_.id not in ("list", "array", "struct", "map"):
            return ""
        parts = [part for _, part in type_.children if not isinstance(part, int)]
        return next(filter(None, map(ambiguous_type, parts)), "")

    return ambiguous_type(column.traits[TYPE]) if TYPE in column.traits else ""


def _fit_written(mine: pa.DataType, theirs: pa.DataType) -> Fit:
    """Return the fit into a column whose values travel as texts without being texts."""
    if is_text(mine):
        return Fit(warning=losses.NO_VALUE)
    if pt.is_duration(mine) or pt.is_interval(mine) or pt.is_null(mine):
        return Fit()
    return Fit(reason=losses.NO_FIT)


def staged_type(source_type: pa.DataType, column_type: pa.DataType) -> pa.DataType:
    """Return the type in which values of one type are staged for a column of another.

    Arrow casts where it rejects values that do not fit; DuckDB casts the rest during the load.
    """
    if pt.is_decimal256(source_type) and not pt.is_decimal128(column_type):
        return pa.string()
    if pt.is_duration(source_type):
        return pa.duration("us")  # for an INTERVAL, which has no smaller unit
    if (pt.is_list(source_type) or pt.is_large_list(source_type)) and is_list(column_type):
        return pa.list_(staged_type(source_type.value_type, column_type.value_type))
    if (
        pt.is_struct(source_type)
        and pt.is_struct(column_type)
        and source_type.names == column_type.names
    ):
        return pa.struct(
            [
                (x.name, staged_type(x.type, y.type))
                for x, y in zip(source_type, column_type, strict=True)
            ]
        )
    if pt.is_map(source_type) and pt.is_map(column_type):
        return pa.map_(
            staged_type(source_type.key_type, column_type.key_type),
            staged_type(source_type.item_type, column_type.item_type),
        )
    a, b = kind_of(source_type), kind_of(column_type)
    by_arrow = (
        (a == b and a not in ("text", "uuid", "") and not a.startswith("list:"))
        or (a, b) in (("integer", "float"), ("decimal", "integer"), ("decimal", "float"))
        or (a, b) in (("timestamp", "date"), ("date", "timestamp"), ("float", "integer"))
        or (a == "text" and b in ("integer", "float", "date", "decimal"))
    )
    return column_type if by_arrow else source_type
