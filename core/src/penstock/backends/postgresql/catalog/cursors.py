"""Columns that a night reads by, and the proof that they miss no change.

A row that a snapshot does not see is written by a transaction that is open when the snapshot is
taken, or begins later. If the server itself sets the row's time to the start of that transaction,
the time is not before the start of the oldest transaction open a moment earlier.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from psycopg import sql

from penstock.backends.api.optional.cursors import CursorState
from penstock.backends.postgresql.compare.conditions import DIALECT
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.session.statements import name, relation, statement
from penstock.backends.sql.rows.cursors import CursorSql
from penstock.model.extents import Bound
from penstock.model.nights import Cursor
from penstock.model.tables import TableRef

MARGIN = 10
"""Seconds between the moment that fixes a transaction's time and the moment it becomes visible to
others.
"""
TRIGGERS = "triggers"
"""The key of a proof's counts of triggers; its other keys are object ids of tables."""
ASSUMED = (
    "no session sets session_replication_role to replica, which a trigger that is ENABLE ALWAYS "
    "does not need"
)
_NOW = r"(?:pg_catalog\.)?(?:now|transaction_timestamp)\s*\(\s*\)|current_timestamp"
_UNAMBIGUOUS = re.compile(r"pg_catalog\.|current_timestamp", re.IGNORECASE)
_SETS = re.compile(
    rf"\s*begin\s+new\s*\.\s*(?P<column>[a-z_][a-z0-9_$]*|\"(?:[^\"]|\"\")+\")\s*:?=\s*(?P<now>{_NOW})\s*;"
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


@dataclass(frozen=True, slots=True)
class Proof:
    """The facts on which the proof of a cursor rests. The fields are those of `Cursor`."""

    unproven: str
    proof: Mapping[str, str] = field(default_factory=dict)
    assumed: str = ""


def prove(
    connection: Connection, table: TableRef, columns: Sequence[str], before: OpenSince | None
) -> Proof:
    """Return whether a cursor is proven.

    Args:
        connection: a session on the source.
        table: the source's table.
        columns: the columns of the cursor.
        before: the transactions open before the snapshot; None if they were not noted.
    """
    if before is None:
        return Proof("open transactions were not read before the snapshot was taken")
    if before.standby:
        return Proof("a standby does not show the transactions of its primary")
    if len(columns) > 1:
        return Proof("a row's time comes from several columns")
    proof = _set_by_triggers(connection, table, columns[0])
    if proof.unproven:
        return proof
    unproven = ""
    if not before.shown:
        unproven = (
            "the user may not see when other users' transactions began, which takes "
            "pg_read_all_stats"
        )
    elif before.prepared:
        unproven = (
            f"the server does not show when prepared transactions ({before.prepared:,}) began"
        )
    return replace(proof, unproven=unproven)


def _set_by_triggers(connection: Connection, table: TableRef, column: str) -> Proof:
    """Return whether the server sets each row's time to that of its transaction."""
    parameters = {"table": name(table), "column": column, "all": not table.only}
    with planning("source", f"triggers of {table}"):
        rows = connection.execute(statement("last_triggers"), parameters).fetchall()
    reason = "" if rows else f"{table} has no child tables"
    facts: dict[str, str] = {}
    always = True
    for row in rows:
        found = _LastTrigger(*row)
        reason = reason or found.unproven_reason(column)
        leaf = str(found.oid)
        facts[leaf] = f"{facts.get(leaf, '')}{found.written_by} {found.unsettled}\n"
        facts[TRIGGERS] = found.counts
        always = always and found.always
    digests = {
        what: fact if what == TRIGGERS else hashlib.sha256(fact.encode()).hexdigest()[:16]
        for what, fact in facts.items()
    }
    return Proof(reason, digests, "" if reason or always else ASSUMED)


@dataclass(frozen=True, slots=True)
class _LastTrigger:
    """A row of `last_triggers.sql`."""

    leaf: str
    kind: str
    event: str
    plain: bool
    fires: bool
    always: bool
    text: str
    precise: bool
    oid: int
    written_by: str
    unsettled: str
    now_exists_twice: bool
    counted: bool
    counts: str

    def unproven_reason(self, column: str) -> str:
        """Return why the trigger may not set each row's time; empty if it does."""
        if self.kind != "r":
            return f"{self.leaf} is not a table of this server"
        if not self.precise:
            return f"{column} is not of type timestamptz with microseconds"
        sets = _SETS.fullmatch(self.text) if self.plain else None
        if sets is None or _unquoted(sets["column"]) != column:
            return (
                f"{self.leaf} has no row trigger that runs last BEFORE {self.event} and only sets "
                f"{column} to now()"
            )
        if self.now_exists_twice and not _UNAMBIGUOUS.match(sets["now"]):
            return (
                f"the trigger of {self.leaf} that sets {column} calls {sets['now']}, which is also "
                "the name of a function outside pg_catalog; expected pg_catalog.now() or "
                "current_timestamp"
            )
        if not self.fires:
            return (
                f"the trigger of {self.leaf} that sets {column} does not fire for the database's "
                "subscription: it needs ENABLE ALWAYS"
            )
        if not self.counted:
            return "the server does not count dropped triggers (track_counts is off)"
        return ""


def broken_reason(connection: Connection, since: Cursor, now: CursorState) -> str:
    """Return why the proof of an earlier night does not hold until now; empty if it does.

    A trigger that was away for a while leaves rows with old times behind.

    Args:
        connection: a session on the source.
        since: the cursor of the earlier night.
        now: the state of the columns in the source.
    """
    if since.unproven:
        return ""
    if since.proof.get(TRIGGERS) is None or now.proof.get(TRIGGERS) is None:
        return f"nothing shows whether the server has set {since.name} all the time"
    for leaf, fact in since.proof.items():
        if leaf != TRIGGERS and now.proof.get(leaf, fact) != fact:
            return (
                f"the trigger that sets {since.name}, its function or a column of the table has "
                "changed since the last night, or while transactions were open"
            )
    then_inserted, then_deleted, newest = since.proof[TRIGGERS].split()
    inserted, deleted, _ = now.proof[TRIGGERS].split()
    if int(inserted) < int(then_inserted) or int(deleted) < int(then_deleted):
        return "the server's statistics were reset, which show triggers that came and went"
    if inserted == then_inserted or deleted == then_deleted:
        return ""
    with planning("source", "triggers"):
        kept = connection.value(
            "SELECT count(*) FROM pg_catalog.pg_trigger WHERE oid > %s::oid", [newest]
        )
    if int(inserted) - int(then_inserted) <= int(kept):
        return ""
    return "triggers were created and dropped in the database since the last night"


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
