"""Export and hold a snapshot.

https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-SNAPSHOT-SYNCHRONIZATION
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import psycopg

from penstock.backends.postgresql.attempt.older_sessions import Guard
from penstock.backends.postgresql.connection import NOTE_PATH, Connection, connect
from penstock.backends.postgresql.errors import from_driver, planning
from penstock.backends.postgresql.session.waiting import (
    SNAPSHOT,
    waiting_for,
    watcher,
)
from penstock.backends.postgresql.snapshot.importing import ONE_MOMENT, REACHED
from penstock.backends.postgresql.snapshot.locks import (
    AT_ONCE,
    check_room,
    lock_against_rewrites,
    locks_at_once,
    too_many_locks,
)
from penstock.errors import PenstockError
from penstock.model.snapshots import Snapshot
from penstock.model.tables import Relation, TableRef
from penstock.spec.worker_spec import Patience

if TYPE_CHECKING:
    from penstock.backends.api.source import SourceCatalog, WaitingSession

# Seconds between two checks for waiting sessions, for all runs of a batch together.
LOOK_SECONDS = 1.0
# A standby may replay what it has received before it reports it.
EXPORT = """
    SELECT pg_catalog.pg_export_snapshot(), pg_catalog.clock_timestamp()::pg_catalog.text,
        pg_catalog.concat_ws(
            ':', pg_catalog.txid_snapshot_xmin(s), pg_catalog.txid_snapshot_xmax(s), {reached},
            coalesce(pg_catalog.pg_wal_lsn_diff(
                CASE WHEN pg_catalog.pg_is_in_recovery()
                    THEN greatest(
                        pg_catalog.pg_last_wal_receive_lsn(), pg_catalog.pg_last_wal_replay_lsn()
                    )
                    ELSE pg_catalog.pg_current_wal_insert_lsn()
                END,
                '0/0'
            ), 0)
        ),
        pg_catalog.pg_is_in_recovery(), {note_path}
    FROM pg_catalog.txid_current_snapshot() AS s
"""


def _export_query(reached: int) -> str:
    return EXPORT.replace("{reached}", str(reached)).replace("{note_path}", NOTE_PATH)


class SnapshotSession:
    """A session that will hold a snapshot, opened before the relations are known."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection = connect(url, "source", SNAPSHOT, set_up=False, users_path=True)

    def hold(self, relations: Sequence[Relation]) -> ExportedSnapshot:
        """Take the snapshot, once. From then on it owns the session."""
        return ExportedSnapshot(self._connection, self._url, relations)

    def close(self) -> None:
        self._connection.close()


class ExportedSnapshot:
    """A session that keeps an exported snapshot alive.

    It also locks the table against rewrites (VACUUM FULL, CLUSTER, TRUNCATE): those move or remove
    rows regardless of a snapshot. Reads and writes continue, unless a session waits to rewrite the
    table: later ones then queue behind it.

    Args:
        connection: the session, which belongs to the snapshot from now on.
        url: the URL of the source, for the session that watches this one.
        relations: the relations to lock.
    """

    def __init__(self, connection: Connection, url: str, relations: Sequence[Relation]) -> None:
        self._connection = connection
        connection.side = "source"  # for every later statement, during any of which it may be lost
        self._looker = partial(watcher, url)
        self._waiting: Sequence[WaitingSession] = ()
        self._looking: threading.Thread | None = None
        self._looked_at = 0.0
        self._why_lost = ""
        try:
            self.snapshot = self._export_at_once(relations) or self._export(relations)
        except BaseException:
            self._connection.close()
            raise

    def _export_at_once(self, relations: Sequence[Relation]) -> Snapshot | None:
        """Export in one round trip if the locks are free; else return None."""
        locks = locks_at_once(relations)
        if not locks:
            return None
        try:
            # LOCK takes no snapshot, so the locks precede the snapshot that sees the tables.
            cursor = self._connection.begin(ONE_MOMENT, f"{locks}; {_export_query(0)}")
            while cursor.nextset():
                pass
            token, moment, horizon, standby, *_ = cursor.fetchall()[0]
            if not standby:
                self._connection.has_users_path = False
                return Snapshot(token, moment, horizon)
            # A standby's position must be read before the snapshot is taken.
            self._connection.execute("ROLLBACK")
            return None
        except psycopg.Error:
            if not self._connection.closed:
                self._connection.execute("ROLLBACK")
            return None

    def _export(self, relations: Sequence[Relation]) -> Snapshot:
        connection = self._connection
        with planning("source", "snapshot"):
            # Before the snapshot is taken, which then sees everything up to this position.
            reached = int(connection.value(REACHED) or 0)
            connection.begin(ONE_MOMENT)
        connection.guard = Guard("", Patience(), self._looker, side="source", what="the snapshot")
        tables = [read for read in relations if isinstance(read, TableRef)]
        if len(tables) > AT_ONCE:
            check_room(connection, tables)
        for first in range(0, len(relations), AT_ONCE):
            batch = relations[first : first + AT_ONCE]
            try:
                lock_against_rewrites(connection, batch, Patience().stall_timeout)
            except psycopg.errors.OutOfMemory as error:
                room = f"room for fewer than {first + AT_ONCE:,}: {str(error).splitlines()[0]}"
                raise too_many_locks(len(relations), room, error.sqlstate or "") from error
        connection.guard = None
        with planning("source", "snapshot"):
            token, moment, horizon, *_ = connection.first(_export_query(reached))
            connection.has_users_path = False
            return Snapshot(token, moment, horizon)

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
