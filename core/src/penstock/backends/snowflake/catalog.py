"""What the server's catalog knows of tables."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.backends.shared.arrow import TRAIT
from penstock.backends.snowflake.names import swapped
from penstock.backends.snowflake.session import SnowflakeSession
from penstock.backends.snowflake.types import arrow_type
from penstock.backends.sql.relations import TYPE
from penstock.errors import PlanningError
from penstock.model.tables import Column, TableRef

# Columns of what SHOW lists of a key.
_COLUMN, _PLACE, _NAME = 4, 5, 6


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """A primary key or unique constraint, which Snowflake does not enforce. Its text is for
    people."""

    names: tuple[str, ...]
    primary: bool
    obstacle: str = ""

    def __str__(self) -> str:
        return f"{'primary key' if self.primary else 'unique key'} ({', '.join(self.names)})"


def unique_keys(session: SnowflakeSession, table: TableRef) -> tuple[UniqueKey, ...]:
    """Those that are declared, the primary key first."""
    found: list[UniqueKey] = []
    for kind in ("PRIMARY", "UNIQUE"):
        rows = session.fetch(
            f"SHOW {kind} KEYS IN TABLE {session.dialect.table(table)}", f"table {table}"
        )
        keys: dict[str, list[str]] = {}
        for row in sorted(rows, key=lambda row: int(row[_PLACE])):
            keys.setdefault(row[_NAME], []).append(swapped(row[_COLUMN]))
        found += [UniqueKey(tuple(names), kind == "PRIMARY") for names in keys.values()]
    return tuple(found)


def facts_of(session: SnowflakeSession, table: TableRef) -> tuple[str, int, int] | None:
    """When a table was made, how many rows it has, and how many bytes they take; None where there
    is none."""
    rows = session.facts(
        "SELECT CAST(created AS VARCHAR), row_count, bytes FROM information_schema.tables"
        " WHERE table_catalog = ? AND table_schema = ? AND table_name = ?",
        table,
    )
    return (str(rows[0][0]), int(rows[0][1] or 0), int(rows[0][2] or 0)) if rows else None


def in_arrow(column: Column) -> Column:
    """With the type of its values in record batches.

    Raises:
        PlanningError: there is none.
    """
    kind = arrow_type(column.traits[TYPE])
    if kind is None:
        raise PlanningError(
            f"column {column.name}: values of type {column.type} do not travel; leave the column "
            "out with --columns, or write it as text with --query"
        )
    return replace(column, traits={**column.traits, TRAIT: kind})
