"""A session that sees a snapshot and holds locks that others may wait for."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import psycopg

from penstock.backends.postgresql.attempt.older_sessions import Guard
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import from_driver
from penstock.backends.postgresql.session.waiting import waiting_for, watcher
from penstock.errors import PenstockError
from penstock.model.snapshots import Snapshot
from penstock.spec.worker_spec import Patience

if TYPE_CHECKING:
    from penstock.backends.api.source import SourceCatalog, WaitingSession

# Seconds between two checks for waiting sessions, for all runs of a batch together.
LOOK_SECONDS = 1.0


class HeldSession:
    """A session that keeps a snapshot, and locks, until it is closed; see `LockingSnapshot`.

    Args:
        connection: the session, which belongs to this object from now on.
        url: the URL of the source, for the session that watches this one.
    """

    snapshot: Snapshot

    def __init__(self, connection: Connection, url: str) -> None:
        self._connection = connection
        connection.side = "source"  # for every later statement, during any of which it may be lost
        self._looker = partial(watcher, url)
        self._waiting: Sequence[WaitingSession] = ()
        self._looking: threading.Thread | None = None
        self._looked_at = 0.0
        self._why_lost = ""

    def _guarded(self, what: str) -> Guard:
        """Return a guard for statements that may have to wait."""
        return Guard("", Patience(), self._looker, side="source", what=what)

    def is_alive(self) -> bool:
        """Whether the session still exists.

        A server that goes away closes the socket, which then reads as ready.
        """
        if self._connection.closed:
            return False
        if self._awaits_answer():
            return True  # any input is its answer
        try:
            if self._has_input():
                self._connection.pgconn.consume_input()
                if self._has_input():
                    self._connection.execute("SELECT 1")
        except (psycopg.Error, PenstockError) as error:
            self._why_lost = _reason(error)
            self._connection.close()
            return False
        return True

    def why_lost(self) -> str:
        return self._why_lost

    def _has_input(self) -> bool:
        ready, _, _ = select.select([self._connection.fileno()], [], [], 0)
        return bool(ready)

    def waiting_sessions(self) -> Sequence[WaitingSession]:
        """Return the sessions that were waiting at the server's last answer, seconds ago at most.

        The question is asked in a thread: a silent network gives no answer, and stalled streams
        must be noticed all the same.
        """
        now = time.monotonic()
        if not self._awaits_answer() and now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            self._looking = threading.Thread(target=self._ask, name="penstock-waiting", daemon=True)
            self._looking.start()
        return self._waiting

    def _ask(self) -> None:
        try:
            self._waiting = waiting_for(self._connection)
        except (psycopg.Error, PenstockError):
            self._waiting = ()  # the session is lost, which is reported elsewhere

    def _awaits_answer(self) -> bool:
        return self._looking is not None and self._looking.is_alive()

    def catalog(self, check_waiting: Callable[[Sequence[WaitingSession]], None]) -> SourceCatalog:
        from penstock.backends.postgresql.source import HolderSource  # noqa: PLC0415 - most do not verify

        guard = Guard(
            "",
            Patience(),
            self._looker,
            look=lambda looker: check_waiting(waiting_for(looker, self._connection.server_pid)),
            side="source",
            what="verification",
        )
        return HolderSource(self._connection, self.snapshot, guard)

    def close(self) -> None:
        self._connection.close()


def _reason(error: psycopg.Error | PenstockError) -> str:
    """Return the server's reason for the end of a session, with its detail and its hint."""
    ours = error if isinstance(error, PenstockError) else from_driver(error, "source")
    told = (ours.message.removeprefix("source: "), ours.diagnosis.detail, ours.diagnosis.hint)
    return "; ".join(" ".join(text.split()).rstrip(".") for text in told if text)
