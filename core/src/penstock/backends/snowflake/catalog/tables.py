"""Tables and their keys, from the server's catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from penstock.backends.snowflake.catalog.names import swapped
from penstock.backends.snowflake.session import SnowflakeSession
from penstock.backends.sql.catalog.catalog_facts import TableQuery
from penstock.backends.sql.catalog.unique_keys import DeclaredKey
from penstock.model.tables import TableRef

T = TypeVar("T")
# Columns of SHOW's list of keys.
_SCHEMA, _TABLE, _COLUMN, _PLACE, _NAME = 2, 3, 4, 5, 6
_FACTS = TableQuery(
    "CAST(created AS VARCHAR), row_count, bytes",
    "information_schema.tables",
    "table_schema",
    "table_name",
    "table_catalog = {catalog}",
)


def listed(
    session: SnowflakeSession,
    kind: str,
    table: TableRef,
    read: Callable[[SnowflakeSession, str, str], Mapping[TableRef, tuple[T, ...]]],
) -> tuple[T, ...]:
    """Return SHOW's answer about a table.

    This also reads the answers for all tables of `catalog_facts`, by schema.

    Args:
        session: a session with the server.
        kind: the kind of fact, under which the answers are kept.
        table: the table.
        read: asks about a place, and takes its name for messages; returns the answers by table.
    """
    dialect = session.dialect
    if session.catalog_facts is None:
        return read(session, f"TABLE {dialect.table(table)}", f"table {table}").get(table, ())

    def ask(tables: Sequence[TableRef]) -> dict[TableRef, tuple[T, ...]]:
        answers: dict[TableRef, tuple[T, ...]] = {}
        for schema in {each.schema for each in tables}:
            answers |= read(session, f"SCHEMA {dialect.ident(schema)}", f"schema {schema}")
        return {each: answers.get(each, ()) for each in tables}

    return session.catalog_facts.about(kind, table, ask)


def unique_keys(session: SnowflakeSession, table: TableRef) -> tuple[DeclaredKey, ...]:
    """Return the declared keys, the primary key first."""
    return listed(session, "unique keys", table, _keys)


def _keys(
    session: SnowflakeSession, place: str, subject: str
) -> dict[TableRef, tuple[DeclaredKey, ...]]:
    by_table: dict[TableRef, tuple[DeclaredKey, ...]] = {}
    for kind in ("PRIMARY", "UNIQUE"):
        rows = session.fetch(f"SHOW {kind} KEYS IN {place}", subject)
        keys: dict[tuple[TableRef, str], list[str]] = {}
        for row in sorted(rows, key=lambda row: int(row[_PLACE])):
            table = TableRef(swapped(row[_SCHEMA]), swapped(row[_TABLE]))
            keys.setdefault((table, row[_NAME]), []).append(swapped(row[_COLUMN]))
        for (table, _), names in keys.items():
            key = DeclaredKey(tuple(names), kind == "PRIMARY")
            by_table[table] = (*by_table.get(table, ()), key)
    return by_table


def facts_of(session: SnowflakeSession, table: TableRef) -> tuple[str, int, int] | None:
    """Return when a table was created, its rows and its bytes; None if it does not exist."""
    rows = session.about(_FACTS, table)
    return (str(rows[0][0]), int(rows[0][1] or 0), int(rows[0][2] or 0)) if rows else None
