"""Columns of a target's table that follow those of the source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.backends.api.optional.drift import PermittedDifferences
from penstock.backends.duckdb.catalog.tables import (
    constraints,
    index_definitions,
    unique_keys,
)
from penstock.backends.shared.values.widths import (
    DECIMAL,
    FLOAT,
    UNBOUND,
    Sized,
    Width,
    whole,
    width_of,
)
from penstock.backends.sql.definitions.column_changes import needed_changes, with_statements
from penstock.backends.sql.session import Session
from penstock.model.drift import ADD, WIDEN, ColumnChange
from penstock.model.tables import Column, TableRef

_BITS = {"tinyint": 8, "smallint": 16, "integer": 32, "bigint": 64, "hugeint": 128}
_TYPES: Mapping[str, Sized] = {
    **{name: whole(bits) for name, bits in _BITS.items()},
    **{f"u{name}": whole(bits, signed=False) for name, bits in _BITS.items()},
    "decimal": Sized(DECIMAL, (15, 3)),
    "float": Sized(FLOAT, (24,)),
    "double": Sized(FLOAT, (53,)),
    "varchar": Sized("text", (UNBOUND,)),
    "timestamp_s": Sized("timestamp", (0,)),
    "timestamp_ms": Sized("timestamp", (3,)),
    "timestamp": Sized("timestamp", (6,)),
    "timestamp_ns": Sized("timestamp", (9,)),
}


def _width(text: str) -> Width | None:
    return width_of(text, _TYPES)


def _defined(column: Column, type_: str, *, nullable: bool) -> str:
    return "" if nullable and type_ == column.type else type_


def column_changes(
    session: Session, table: TableRef, differences: PermittedDifferences
) -> tuple[ColumnChange, ...]:
    """Return the necessary changes in order; see `AltersColumns.column_changes`.

    Args:
        session: a session with the target.
        table: the table to alter.
        differences: how its columns differ from the source's.
    """
    key = {name for each in unique_keys(session, table)[:1] for name in each.names}
    loosened = [each for each in differences.newly_nullable if each.name not in key]
    alterable = replace(differences, newly_nullable=loosened)
    changes = [
        replace(each, cost="rewrites the column") if each.cost else each
        for each in needed_changes(alterable, _width, _defined, lambda *_: True)
    ]
    indexes = [name for name, text in index_definitions(session, table) if text] if changes else []
    fixing = [each for each in constraints(session, table) if each.kind != "NOT NULL"]
    fixed = {name for each in fixing for name in each.names}
    former = {new: old for old, new in differences.renamed}

    def refused(change: ColumnChange) -> str:
        if change.kind != ADD and indexes:
            return f"DuckDB cannot alter columns of a table that has indexes ({', '.join(indexes)})"
        if (
            change.type
            and change.kind == WIDEN
            and former.get(change.column, change.column) in fixed
        ):
            return "DuckDB cannot change the type of a column that a key or check uses"
        return ""

    return with_statements(
        session.dialect, table, [replace(each, refused=refused(each)) for each in changes]
    )
