"""Descriptions of sessions that wait for locks or hold them, without values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from penstock.backends.api.source import WaitingSession
from penstock.backends.postgresql.connection import LOOK_LOCK, Connection, connect
from penstock.backends.postgresql.session.statements import for_server, statement
from penstock.model.values import statement_kind

SNAPSHOT = "penstock:snapshot"
"""The `application_name` of a session that holds a snapshot."""


@dataclass(frozen=True, slots=True)
class OtherSession:
    """A session that waits for another one, or blocks it."""

    pid: int
    user: str | None
    name: str | None
    query: str | None
    since: datetime | None
    seconds: float | None
    waits: bool
    """Whether it waits for a lock."""
    signs: str
    """They change while it makes progress."""

    def __str__(self) -> str:
        how = "waiting" if self.waits else "running"
        if self.signs.startswith("idle"):
            how = "finished, in an open transaction"
        what = f"{statement_kind(self.query or '', 'VACUUM FULL')}, {how}"
        if self.since is not None:
            moment = self.since.astimezone(UTC)
            what += f" since {moment:%Y-%m-%d %H:%M:%SZ} ({self.seconds or 0:.0f} s)"
        return f"session {self.pid} of user {self.user or '?'} ({self.name or 'no name'}): {what}"


def session_list(sessions: Sequence[OtherSession]) -> str:
    """Return sessions as a list for a message."""
    return "; ".join(map(str, sessions)) or "a session that has ended since"


def blocking_sessions(looker: Connection, pid: int) -> list[OtherSession]:
    """Return the sessions that block a session, directly or indirectly."""
    rows = looker.execute(for_server(looker, "blockers"), {"pid": pid}).fetchall()
    return [OtherSession(*row) for row in rows]


def rewriters(connection: Connection, table: str | None) -> list[OtherSession]:
    """Return sessions that lock out readers of a table, or wait to do so.

    Args:
        connection: a session of the server.
        table: its quoted name; if None, any table of the database.
    """
    with connection.own_path():
        rows: list[Any] = connection.execute(statement("rewriters"), {"table": table}).fetchall()
    return [OtherSession(*row) for row in rows]


def waiting_for(connection: Connection, pid: int | None = None) -> list[WaitingSession]:
    """Return sessions that wait for a lock held by a given one.

    Args:
        connection: a session of the server.
        pid: the session's process id; if None, this session's.
    """
    with connection.together():
        # Within a transaction, a server keeps showing the activity that the first query saw.
        connection.execute("SELECT pg_catalog.pg_stat_clear_snapshot()")
        rows = connection.execute(for_server(connection, "waiting"), {"pid": pid})
    sessions = [OtherSession(*row) for row in rows.fetchall()]
    return [WaitingSession(str(each.pid), str(each), each.seconds or 0.0) for each in sessions]


def watcher(url: str) -> Connection:
    """Open a session that looks up what others wait for."""
    return connect(url, "source", "penstock:watch", lock_seconds=LOOK_LOCK)
