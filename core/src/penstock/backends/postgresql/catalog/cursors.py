"""Columns that a night reads by, and the proof that they miss no change.

A row that a snapshot does not see is written by a transaction that is open when the snapshot is
taken, or begins later. If the server itself sets the row's time to the start of that transaction,
the time is not before the start of the oldest transaction open a moment earlier.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from penstock.backends.postgresql.compare.conditions import DIALECT
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.session.statements import name, relation, statement
from penstock.backends.sql.rows.cursors import CursorSql
from penstock.model.extents import Bound
from penstock.model.tables import TableRef

MARGIN = 10
"""Seconds between the moment that fixes a transaction's time and the moment it becomes visible to
others.
"""
_NOW = r"(?:pg_catalog\.)?(?:now|transaction_timestamp)\s*\(\s*\)|current_timestamp"
_SETS = re.compile(
    rf"\s*begin\s+new\s*\.\s*(?P<column>[a-z_][a-z0-9_$]*|\"(?:[^\"]|\"\")+\")\s*:?=\s*(?:{_NOW})\s*;"
    r"\s*return\s+new\s*;\s*end\s*;?\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class OpenSince:
    """The transactions open before a snapshot is taken."""

    oldest: str
    """When the oldest transaction began; if there is no other, the asking one."""
    shown: bool
    """Whether all of them are visible to the user."""
    standby: bool
    prepared: int


def open_since(connection: Connection) -> OpenSince:
    """Return the open transactions.

    Call it outside a transaction, so that each statement sees the current state.
    """
    with planning("source", "open transactions"):
        oldest, shown, standby = connection.first(statement("open_since"))
        # A transaction prepared in the meantime was seen as open.
        prepared = connection.value("SELECT count(*) FROM pg_catalog.pg_prepared_xacts")
    return OpenSince(oldest or "", bool(oldest) and shown, standby, int(prepared))


def unproven_reason(
    connection: Connection, table: TableRef, columns: Sequence[str], before: OpenSince | None
) -> str:
    """Return why a cursor is unproven; see `Cursor.unproven`.

    Args:
        connection: a session on the source.
        table: the source's table.
        columns: the columns of the cursor.
        before: the transactions open before the snapshot; None if they were not noted.
    """
    if before is None:
        return "open transactions were not read before the snapshot was taken"
    if before.standby:
        return "a standby does not show the transactions of its primary"
    if len(columns) > 1:
        return "a row's time comes from several columns"
    reason = _untimed_reason(connection, table, columns[0])
    if reason:
        return reason
    if not before.shown:
        return (
            "the user may not see when other users' transactions began, which takes "
            "pg_read_all_stats"
        )
    if before.prepared:
        return f"the server does not show when prepared transactions ({before.prepared:,}) began"
    return ""


def _untimed_reason(connection: Connection, table: TableRef, column: str) -> str:
    """Return why the server may not set each row's time to that of its transaction."""
    parameters = {"table": name(table), "column": column, "all": not table.only}
    with planning("source", f"triggers of {table}"):
        rows = connection.execute(statement("last_triggers"), parameters).fetchall()
    for leaf, kind, event, plain, fires, text, precise in rows:
        if kind != "r":
            return f"{leaf} is not a table of this server"
        if not precise:
            return f"{column} is not of type timestamptz with microseconds"
        sets = _SETS.fullmatch(text) if plain else None
        if sets is None or _unquoted(sets["column"]) != column:
            return (
                f"{leaf} has no row trigger that runs last BEFORE {event} and only sets {column} "
                "to now()"
            )
        if not fires:
            return (
                f"the trigger of {leaf} that sets {column} does not fire for the database's "
                "subscription: it needs ENABLE ALWAYS"
            )
    return "" if rows else f"{table} has no child tables"


def _unquoted(text: str) -> str:
    if text.startswith('"'):
        return text[1:-1].replace('""', '"')
    return text.lower()


def cursor_sql(connection: Connection, table: TableRef) -> CursorSql:
    """Return the queries about a cursor's columns; see `CursorSql`."""

    def fetch(query: str, subject: str) -> list[tuple[Any, ...]]:
        with planning("source", subject), connection.users_path():
            return connection.execute(sql.SQL(query)).fetchall()

    return CursorSql(
        DIALECT,
        relation(table).as_string(connection),
        fetch,
        as_text=lambda tag, value: f"({value})::pg_catalog.text",
        clock="SELECT pg_catalog.clock_timestamp()::pg_catalog.text",
        first=lambda query: f"{query} LIMIT 1",
    )


def least_open(before: OpenSince) -> str:
    """Return a moment before which no transaction invisible to a later snapshot can have begun."""
    return DIALECT.earlier(
        DIALECT.bound(Bound("timestamptz", before.oldest)), "timestamptz", MARGIN
    )


def identity_of(connection: Connection, table: TableRef) -> Mapping[str, str]:
    """Return what identifies a relation whose rows have no versions."""
    with planning("source", f"table {table}"):
        system, database, identity = connection.first(
            statement("view_identity"), {"table": name(table)}
        )
    return {"server": system, "database": database, "view": identity}
