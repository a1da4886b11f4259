"""Sessions that wait for locks, or are waited for, named for people: never by values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from penstock.backends.api.source import Waiting
from penstock.backends.postgresql.connection import LOOK_LOCK, Connection, connect
from penstock.backends.postgresql.session.statements import for_server, statement
from penstock.backends.shared.statement_kind import statement_kind

SNAPSHOT = "penstock:snapshot"
"""The `application_name` of a session that holds a snapshot."""


@dataclass(frozen=True, slots=True)
class OtherSession:
    """A session that is in the way, or waits."""

    pid: int
    user: str | None
    name: str | None
    query: str | None
    since: datetime | None
    seconds: float | None
    waits: bool
    """For a lock."""
    signs: str
    """They change while it makes progress."""

    def __str__(self) -> str:
        how = "waiting" if self.waits else "under way"
        if self.signs.startswith("idle"):
            how = "done, in a transaction that is open"
        what = f"{statement_kind(self.query or '', 'VACUUM FULL')}, {how}"
        if self.since is not None:
            moment = self.since.astimezone(UTC)
            what += f" since {moment:%Y-%m-%d %H:%M:%SZ} ({self.seconds or 0:.0f} s)"
        return f"session {self.pid} of user {self.user or '?'} ({self.name or 'no name'}): {what}"


def listed(sessions: Sequence[OtherSession]) -> str:
    """Sessions for a message."""
    return "; ".join(map(str, sessions)) or "a session that has ended since"


def in_the_way(looker: Connection, pid: int) -> list[OtherSession]:
    """Sessions that another one waits for, with those that they wait for in turn."""
    found = looker.execute(for_server(looker, "blockers"), {"pid": pid}).fetchall()
    return [OtherSession(*row) for row in found]


def rewriters(connection: Connection, table: str | None) -> list[OtherSession]:
    """Sessions that lock readers of a table out, or wait to.

    Parameters:
        table: its quoted name; None: any of the database.
    """
    found: list[Any] = connection.execute(statement("rewriters"), {"table": table}).fetchall()
    return [OtherSession(*row) for row in found]


def waiting_for(connection: Connection, pid: int | None = None) -> list[Waiting]:
    """Sessions that wait for a lock that one holds.

    Parameters:
        pid: that session's; None: this one.
    """
    with connection.together():
        # Within a transaction a server shows the activity of others as it was at the first look.
        connection.execute("SELECT pg_catalog.pg_stat_clear_snapshot()")
        found = connection.execute(for_server(connection, "waiting"), {"pid": pid})
    sessions = [OtherSession(*row) for row in found.fetchall()]
    return [Waiting(str(each.pid), str(each), each.seconds or 0.0) for each in sessions]


def watcher(url: str) -> Connection:
    """A session that looks at what others wait for."""
    return connect(url, "source", "penstock:watch", lock_seconds=LOOK_LOCK)
