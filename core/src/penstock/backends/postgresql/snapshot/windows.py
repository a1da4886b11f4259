"""The locks of a snapshot on some of its tables, if the server has no room for those of all."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from typing import Any

import psycopg

from penstock.backends.postgresql.connection import LEAVE_USERS_PATH, Connection, connect
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.session.statements import statement
from penstock.backends.postgresql.session.waiting import SNAPSHOT
from penstock.backends.postgresql.snapshot.held import HeldSession
from penstock.backends.postgresql.snapshot.importing import import_snapshot
from penstock.backends.postgresql.snapshot.locks import (
    JOIN_SECONDS,
    lock_each,
    lock_query,
    too_many_locks,
)
from penstock.errors import Diagnosis, PenstockError, TransientError
from penstock.model.snapshots import Snapshot
from penstock.model.tables import Query, Relation, TableRef

_Shapes = Mapping[int, Mapping[int, str]]
"""By the index of a relation: digests of the tables and views that it reads, by object id."""


class SnapshotWindow(HeldSession):
    """A session that sees another one's snapshot, and locks some of its tables.

    The snapshot is older than the locks. What was rewritten, emptied or altered in between holds
    other rows than the snapshot has seen, or under other names: it is found by comparing the
    catalog as the snapshot sees it with the catalog of now.

    Args:
        url: the URL of the source.
        snapshot: the snapshot, which another session holds.
        relations: the relations to lock.

    Raises:
        SnapshotLost: the snapshot can no longer be imported.
        PlanningError: the server has no room for the locks of these tables alone.
    """

    def __init__(self, url: str, snapshot: Snapshot, relations: Sequence[Relation]) -> None:
        super().__init__(connect(url, "source", SNAPSHOT, set_up=False, users_path=True), url)
        self.snapshot = snapshot
        self.refused: dict[Relation, PenstockError] = {}
        """Relations that cannot be read with the snapshot, and why."""
        try:
            import_snapshot(self._connection, snapshot.token)
            read_by = self._lock(relations)
            self._connection.execute(LEAVE_USERS_PATH)
            self._connection.has_users_path = False
            self._compare(relations, read_by)
        except BaseException:
            self._connection.close()
            raise

    def _lock(self, relations: Sequence[Relation]) -> Mapping[Relation, Sequence[int]]:
        """Lock the relations; return the object ids of what each query reads."""
        connection = self._connection
        queries = [read for read in relations if isinstance(read, Query)]
        tables = [read for read in relations if isinstance(read, TableRef)]
        connection.guard = self._guarded("the snapshot")
        try:
            # Before the tables, whose locks would hide theirs.
            read_by: dict[Relation, Sequence[int]] = {
                read: oids for read in queries if (oids := self._read_by(read)) is not None
            }
            for read, error in lock_each(connection, tables, JOIN_SECONDS).items():
                self.refused[read] = error
            for query in read_by:
                self._lock_query(query)
        except psycopg.errors.OutOfMemory as full:
            raise too_many_locks(len(relations), full) from full
        finally:
            connection.guard = None
        return read_by

    def _lock_query(self, read: Relation) -> bool:
        assert isinstance(read, Query)
        try:
            lock_query(self._connection, read, JOIN_SECONDS)
        except PenstockError as error:
            if self._connection.closed:
                raise
            self.refused[read] = error
            return False
        return True

    def _read_by(self, read: Query) -> Sequence[int] | None:
        """Return the object ids of the tables that a query locks; None if it cannot be read."""
        with planning("source", "snapshot"):
            self._connection.execute("SAVEPOINT alone")
            is_locked = self._lock_query(read)
            rows: list[Any] = []
            if is_locked:
                with self._connection.own_path():
                    rows = self._connection.execute(statement("locked")).fetchall()
            self._connection.execute("ROLLBACK TO alone; RELEASE alone")
        return [oid for (oid,) in rows] if is_locked else None

    def _compare(
        self, relations: Sequence[Relation], read_by: Mapping[Relation, Sequence[int]]
    ) -> None:
        """Refuse what is no longer as the snapshot has seen it.

        Args:
            relations: the relations, which are locked unless they are refused.
            read_by: the object ids of what each query reads.
        """
        locked = [read for read in relations if read not in self.refused]
        if not locked:
            return
        with planning("source", "snapshot"), closing(self._looker()) as looker:
            seen = _shapes(self._connection, locked, read_by)
            now = _shapes(looker, locked, read_by)
            younger = self._younger({oid for shape in now.values() for oid in shape})
        for index, read in enumerate(locked):
            shape = {oid: text for oid, text in now.get(index, {}).items() if oid not in younger}
            if not shape or shape != seen.get(index):
                self.refused[read] = _altered(read)

    def _younger(self, oids: Collection[int]) -> set[int]:
        """Return the tables that the snapshot has not seen: it sees none of their rows either."""
        query = (
            "SELECT o FROM pg_catalog.unnest(%s::pg_catalog.int8[]) AS o WHERE NOT EXISTS"
            " (SELECT FROM pg_catalog.pg_class AS c WHERE c.oid = o::pg_catalog.oid)"
        )
        return {oid for (oid,) in self._connection.execute(query, [list(oids)])}


def _shapes(
    connection: Connection, relations: Sequence[Relation], read_by: Mapping[Relation, Sequence[int]]
) -> _Shapes:
    tables = [(i, read) for i, read in enumerate(relations) if isinstance(read, TableRef)]
    queries = [(i, oid) for i, read in enumerate(relations) for oid in read_by.get(read, ())]
    parameters = {
        "relations": [i for i, _ in tables],
        "schemas": [ref.schema for _, ref in tables],
        "names": [ref.name for _, ref in tables],
        "queries": [i for i, _ in queries],
        "read": [oid for _, oid in queries],
    }
    shapes: dict[int, dict[int, str]] = {i: {} for i in range(len(relations))}
    for i, oid, digest in connection.execute(statement("shapes"), parameters):
        shapes[i][oid] = digest
    return shapes


def _altered(read: Relation) -> TransientError:
    return TransientError(
        f"source: {read} or a part of it was altered, rewritten, emptied, dropped or recreated "
        "after the snapshot was taken, and before it was locked: the server has no room to lock "
        "all tables at once. Repeat the batch with the same --run-id, which reads this table with "
        "a new snapshot; with a higher max_locks_per_transaction, the source locks all tables from "
        "the beginning",
        Diagnosis(side="source"),
    )
