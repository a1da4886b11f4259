"""How values leave DuckDB: as they travel in record batches, and as they are compared.

What Arrow has no type for travels as a text, and so does what few other systems read (intervals,
unions, times with a zone). Canonical texts are those of the types page, the same in every system.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from duckdb import DuckDBPyConnection

from penstock.backends.duckdb.quoting import ident

Type = Any
"""`duckdb.sqltypes.DuckDBPyType`: its text, its `id`, and its `children`."""

# A sum of whole numbers is a HUGEINT, which has 39 digits; a decimal of Arrow that others read, 38.
HUGE = "DECIMAL(38,0)"
_AS_TEXT = (
    "uhugeint", "bit", "bignum", "interval", "time with time zone", "union", "variant", "geometry",
)  # fmt: skip
_WHOLE = (
    "tinyint", "smallint", "integer", "bigint", "hugeint",
    "utinyint", "usmallint", "uinteger", "ubigint", "uhugeint",
)  # fmt: skip
_STAMPS = ("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamp with time zone")
_ZONED_NS = "timestamptz_ns"


def carried(type_: Type, *, nested: bool = False) -> str:
    """The type that values are cast to before they travel; empty where they travel as they are."""
    match type_.id:
        case "hugeint":
            return HUGE
        case "uuid":
            return "VARCHAR" if nested else "BLOB"
        case "varchar" if str(type_) != "VARCHAR":
            return "VARCHAR"  # JSON, for one
        case "NULL" | "null" | "sqlnull":
            return "INTEGER"
        case "list" | "array" | "struct" | "map":
            inner = _carried_inner(type_)
            return "" if inner == str(type_) else inner
        case kind if kind in _AS_TEXT or kind.startswith("geometry"):
            return "VARCHAR"
        case _:
            return ""


def _carried_inner(type_: Type) -> str:
    parts = type_.children

    def of(part: Type) -> str:
        return carried(part, nested=True) or str(part)

    match type_.id:
        case "list":
            return f"{of(parts[0][1])}[]"
        case "array":
            return f"{of(parts[0][1])}[{parts[1][1]}]"
        case "map":
            return f"MAP({of(parts[0][1])}, {of(parts[1][1])})"
        case _:
            inner = ", ".join(f"{ident(name)} {of(part)}" for name, part in parts)
            same = all(not carried(part, nested=True) for _, part in parts)
            return str(type_) if same else f"STRUCT({inner})"


def travelling(value: str, type_: Type) -> str:
    """SQL for a value as it travels."""
    cast = carried(type_)
    return f"CAST({value} AS {cast})" if cast else value


def arrow_types(
    connection: DuckDBPyConnection, rows: str, names: Sequence[str], types: Sequence[Type]
) -> list[pa.DataType]:
    """The types in which columns travel, as DuckDB hands them out; a UUID as Arrow's own."""
    if not names:
        return []
    listed = ", ".join(
        f"{travelling(ident(name), type_)} AS {ident(f'c{place}')}"
        for place, (name, type_) in enumerate(zip(names, types, strict=True))
    )
    with connection.sql(f"SELECT {listed} FROM {rows} LIMIT 0").to_arrow_reader(1) as reader:
        schema = reader.schema
    return [
        pa.uuid() if type_.id == "uuid" else field.type
        for field, type_ in zip(schema, types, strict=True)
    ]


def canonical(value: str, type_: Type, kind: str) -> str:
    """SQL for the canonical text of a value; NULL where it is NULL.

    Parameters:
        type_: of the value.
        kind: see `ColumnPair.canonical`.
    """
    text = f"CAST({value} AS VARCHAR)"
    own = type_.id
    match kind:
        case "integer":
            return text if own in _WHOLE else f"CAST(CAST({value} AS HUGEINT) AS VARCHAR)"
        case "decimal":
            if own in ("float", "double"):
                text = f"CASE WHEN isnan({value}) THEN 'NaN' ELSE {text} END"
            if own == "decimal" and _all_fraction(type_):
                text = f"replace({text}, '.', '0.')"  # DuckDB writes .5
            trimmed = f"rtrim(rtrim({text}, '0'), '.')"
            return f"CASE WHEN contains({text}, '.') THEN {trimmed} ELSE {text} END"
        case "float":
            wide = f"CAST({value} AS DOUBLE)"
            bits = f"CAST(CAST({wide} AS BIT) AS VARCHAR)"
            return f"CASE WHEN isnan({wide}) THEN 'NaN' ELSE {bits} END"
        case "boolean":
            return f"CAST(CAST({value} AS BOOLEAN) AS VARCHAR)"
        case "bytes":
            return f"lower(hex({value}))" if own == "blob" else f"lower(hex(CAST({value} AS BLOB)))"
        case "date":
            days = f"(CAST({value} AS DATE) - DATE '1970-01-01')"
            return (
                f"CASE WHEN isfinite(CAST({value} AS DATE)) THEN CAST({days} AS VARCHAR) ELSE "
                f"{text} END"
            )
        case "time":
            return f"CAST(epoch_us(CAST({value} AS TIME)) AS VARCHAR)"
        case "timestamp":
            # The session's zone is UTC.
            wanted = "TIMESTAMP_NS" if own == _ZONED_NS else "TIMESTAMP"
            stamp = value if own in _STAMPS else f"CAST({value} AS {wanted})"
            number = f"CAST(epoch_us({stamp}) AS VARCHAR)"
            return f"CASE WHEN isfinite({stamp}) THEN {number} ELSE {text} END"
        case "uuid":
            return f"lower(CAST(CAST({value} AS UUID) AS VARCHAR))"
        case _ if kind.startswith("list:") and own in ("list", "array"):
            element = canonical("e", type_.children[0][1], kind.removeprefix("list:"))
            return (
                f"'{{' || array_to_string(list_transform({value}, lambda e: "
                f"{measured(element)}), ',') || '}}'"
            )
        case _:
            return text


def _all_fraction(decimal: Type) -> bool:
    """Whether it has no digits before the point."""
    of = dict(decimal.children)
    return bool(of["precision"] == of["scale"])


def measured(text: str) -> str:
    """A canonical text as it stands in a row: its length in bytes first; `-` for NULL."""
    return f"coalesce(CAST(strlen({text}) AS VARCHAR) || ':' || {text}, '-')"


def row_text(texts: Sequence[str]) -> str:
    """Of one row, from the canonical texts of its columns."""
    return " || ';' || ".join(map(measured, texts)) or "''"
