"""Export and hold a snapshot.

https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-SNAPSHOT-SYNCHRONIZATION
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import psycopg

from penstock.backends.postgresql.connection import NOTE_PATH, Connection, connect
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.session.waiting import SNAPSHOT
from penstock.backends.postgresql.snapshot.held import HeldSession
from penstock.backends.postgresql.snapshot.importing import ONE_MOMENT, REACHED
from penstock.backends.postgresql.snapshot.locks import (
    AT_ONCE,
    has_room,
    lock_against_rewrites,
    locks_at_once,
    too_many_locks,
)
from penstock.model.snapshots import Snapshot
from penstock.model.tables import Relation, TableRef
from penstock.spec.worker_spec import Patience

if TYPE_CHECKING:
    from penstock.backends.postgresql.snapshot.windows import SnapshotWindow

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


class ExportedSnapshot(HeldSession):
    """A session that keeps an exported snapshot alive.

    It also locks the table against rewrites (VACUUM FULL, CLUSTER, TRUNCATE): those move or remove
    rows regardless of a snapshot. Reads and writes continue, unless a session waits to rewrite the
    table: later ones then queue behind it.

    If the server has no room for the locks of all tables, it locks none: see `window`.

    Args:
        connection: the session, which belongs to the snapshot from now on.
        url: the URL of the source, for the session that watches this one.
        relations: the relations to lock.
    """

    def __init__(self, connection: Connection, url: str, relations: Sequence[Relation]) -> None:
        super().__init__(connection, url)
        self._url = url
        self._locks = True
        try:
            self.snapshot = self._export_at_once(relations) or self._export(relations)
        except BaseException:
            self._connection.close()
            raise

    def window(self, relations: Sequence[Relation]) -> SnapshotWindow | None:
        """Lock some of the relations; return None if all of them are locked.

        Args:
            relations: the relations to be read next.

        Raises:
            SnapshotLost: the snapshot can no longer be imported.
        """
        if self._locks:
            return None
        from penstock.backends.postgresql.snapshot.windows import SnapshotWindow  # noqa: PLC0415 - seldom

        return SnapshotWindow(self._url, self.snapshot, relations)

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
        tables = [read for read in relations if isinstance(read, TableRef)]
        # Asked before the transaction, whose first query takes the snapshot.
        self._locks = len(tables) <= AT_ONCE or has_room(connection, tables)
        reached = self._begin()
        if self._locks and not self._lock(relations):
            connection.execute("ROLLBACK")
            self._locks = False
            reached = self._begin()
        with planning("source", "snapshot"):
            token, moment, horizon, *_ = connection.first(_export_query(reached))
            connection.has_users_path = False
            return Snapshot(token, moment, horizon)

    def _begin(self) -> int:
        """Begin the transaction; return a position that its snapshot, taken later, has seen."""
        with planning("source", "snapshot"):
            # Before the snapshot is taken, which then sees everything up to this position.
            reached = int(self._connection.value(REACHED) or 0)
            self._connection.begin(ONE_MOMENT)
        return reached

    def _lock(self, relations: Sequence[Relation]) -> bool:
        """Lock the relations; return False if the server runs out of room for locks."""
        connection = self._connection
        connection.guard = self._guarded("the snapshot")
        try:
            for first in range(0, len(relations), AT_ONCE):
                batch = relations[first : first + AT_ONCE]
                lock_against_rewrites(connection, batch, Patience().stall_timeout)
        except psycopg.errors.OutOfMemory as error:
            if len(relations) > AT_ONCE:
                return False
            raise too_many_locks(len(relations), error) from error
        finally:
            connection.guard = None
        return True
