"""How values leave DuckDB in record batches.

Types that Arrow lacks travel as texts, as do types that few other systems read (intervals, unions,
times with a zone).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from duckdb import DuckDBPyConnection

from penstock.backends.duckdb.dialect import ident
from penstock.backends.duckdb.errors import planning
from penstock.backends.duckdb.session import DuckSession
from penstock.backends.shared.values.arrow import TRAIT
from penstock.backends.sql.catalog.relations import TYPE
from penstock.backends.sql.dialect import Type
from penstock.model.tables import Column

# A sum of whole numbers is a HUGEINT with 39 digits; Arrow decimals that others can read have 38.
HUGE = "DECIMAL(38,0)"
_AS_TEXT = (
    "uhugeint", "bit", "bignum", "interval", "time with time zone", "union", "variant", "geometry",
)  # fmt: skip


def carried(type_: Type, *, nested: bool = False) -> str:
    """Return the type to which values are cast before they travel; empty if unchanged."""
    match type_.id:
        case "hugeint":
            return HUGE
        case "uuid":
            return "VARCHAR" if nested else "BLOB"
        case "varchar" if str(type_) != "VARCHAR":
            return "VARCHAR"  # JSON, for example
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
            parts_are_carried = all(not carried(part, nested=True) for _, part in parts)
            return str(type_) if parts_are_carried else f"STRUCT({inner})"


def travelling(value: str, type_: Type) -> str:
    """Return SQL for a value as it travels."""
    cast = carried(type_)
    return f"CAST({value} AS {cast})" if cast else value


_travels: dict[str, pa.DataType] = {}
"""The types in which values travel, by DuckDB type, as far as they were asked for."""


def arrow_types(
    connection: DuckDBPyConnection, rows: str, names: Sequence[str], types: Sequence[Type]
) -> list[pa.DataType]:
    """Return the Arrow types that DuckDB produces for columns, with Arrow's own type for UUIDs.

    Args:
        connection: a session that can read the rows.
        rows: an item of FROM.
        names: the names of the columns.
        types: their types, in the same order.
    """
    by_text = {str(type_): (name, type_) for name, type_ in zip(names, types, strict=True)}
    new = {text: entry for text, entry in by_text.items() if text not in _travels}
    if new:
        new_names, of = zip(*new.values(), strict=True)
        _travels.update(zip(new, _measured_types(connection, rows, new_names, of), strict=True))
    return [_travels[str(type_)] for type_ in types]


def _measured_types(
    connection: DuckDBPyConnection, rows: str, names: Sequence[str], types: Sequence[Type]
) -> list[pa.DataType]:
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


def with_arrow(session: DuckSession, rows: str, columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns of an item of FROM, each with the type in which its values travel.

    Args:
        session: a session that can read the rows.
        rows: an item of FROM.
        columns: the columns, with the trait `TYPE` if it is known.
    """
    names = [column.name for column in columns]
    types = {column.name: column.traits[TYPE] for column in columns if TYPE in column.traits}
    if len(types) < len(names):
        types = dict(session.describe(f"SELECT * FROM {rows}", "columns"))
    with planning(session.side, "columns"):
        arrow = arrow_types(session.connection, rows, names, [types[name] for name in names])
    return tuple(
        replace(column, traits={**column.traits, TRAIT: type_})
        for column, type_ in zip(columns, arrow, strict=True)
    )
