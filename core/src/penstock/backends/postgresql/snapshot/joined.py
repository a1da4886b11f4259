"""A session that holds another one's snapshot, and exports it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.snapshot.windows import SnapshotWindow
from penstock.model.snapshots import Snapshot
from penstock.model.tables import Relation


class JoinedSnapshot(SnapshotWindow):
    """A snapshot that stays even if the session that took it ends.

    A transaction that has imported a snapshot may export it, and what it exports can be imported as
    long as it lasts (`ImportSnapshot` and `ExportSnapshot` in PostgreSQL's
    `src/backend/utils/time/snapmgr.c`).

    It locks what it can: a table that was altered since is found by those who read it.

    Args:
        url: the URL of the source.
        snapshot: the snapshot, which another session holds.
        relations: the relations that are read with it.

    Raises:
        SnapshotLost: the other session has ended.
    """

    def __init__(self, url: str, snapshot: Snapshot, relations: Sequence[Relation]) -> None:
        super().__init__(url, snapshot, relations)
        try:
            with planning("source", "snapshot"):
                token = self._connection.value("SELECT pg_catalog.pg_export_snapshot()")
        except BaseException:
            self.close()
            raise
        self.snapshot = replace(snapshot, token=token)
