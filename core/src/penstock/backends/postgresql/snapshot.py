"""Export a snapshot, hold it, import it.

https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-SNAPSHOT-SYNCHRONIZATION
"""

from __future__ import annotations

import contextlib
import select
from collections.abc import Sequence

import psycopg
from psycopg import sql

from penstock.backends.postgresql.connection import Connection, connect
from penstock.backends.postgresql.errors import from_driver, planning, translated
from penstock.backends.postgresql.statements import quoted, relation
from penstock.errors import Diagnosis, PlanningError, SnapshotLost, TransientError
from penstock.model.snapshots import Snapshot
from penstock.model.tables import Relation, TableRef

JOIN_LOCK_MS = 5000
# "invalid snapshot identifier", "snapshot does not exist", and, where the exporter is gone in
# between, "object not in prerequisite state".
SNAPSHOT_GONE = {"22023", "42704", "55000"}
# What is no table; what may be read in part; and, before PostgreSQL 13, partitions that may be read
# as parts of their table alone.
UNLOCKABLE = (psycopg.errors.WrongObjectType, psycopg.errors.InsufficientPrivilege)
ONE_MOMENT = "ISOLATION LEVEL REPEATABLE READ READ ONLY"


class ExportedSnapshot:
    """A session that keeps an exported snapshot alive.

    It also locks the table against rewrites (VACUUM FULL, CLUSTER, TRUNCATE): those move rows to
    other blocks, or away, behind a snapshot's back. Reads and writes are not held up.
    """

    def __init__(self, url: str, relations: Sequence[Relation]) -> None:
        self._connection = connect(url, "source", "penstock:snapshot")
        with planning("source", "snapshot"):
            self._connection.begin(ONE_MOMENT)
        for count, read in enumerate(relations):
            with planning("source", f"snapshot of {read}"):
                try:
                    _lock_against_rewrites(self._connection, read)
                except psycopg.errors.OutOfMemory as error:
                    self._connection.close()
                    raise _too_many_locks(count, len(relations), error) from error
        with planning("source", "snapshot"):
            exported = "SELECT pg_catalog.pg_export_snapshot(), clock_timestamp()::text"
            self.snapshot = Snapshot(*self._connection.first(exported))

    def alive(self) -> bool:
        """A server that goes away closes the socket, which then reads as ready."""
        if self._connection.closed:
            return False
        try:
            if self._has_input():
                self._connection.pgconn.consume_input()
                if self._has_input():
                    self._connection.execute("SELECT 1")
        except psycopg.Error:
            self._connection.close()
            return False
        return True

    def _has_input(self) -> bool:
        ready, _, _ = select.select([self._connection.fileno()], [], [], 0)
        return bool(ready)

    def close(self) -> None:
        self._connection.close()


def _too_many_locks(count: int, wanted: int, error: psycopg.Error) -> PlanningError:
    return PlanningError(
        f"source: the snapshot locks each table until all are copied: expected room for {wanted:,} "
        f"locks, found it for {count:,}; raise max_locks_per_transaction on the source (it has to "
        f"be restarted), or copy in several batches: {str(error).splitlines()[0]}",
        Diagnosis(side="source", code=error.sqlstate or ""),
    )


def _lock_against_rewrites(connection: Connection, read: Relation) -> None:
    if isinstance(read, TableRef):
        with contextlib.suppress(*UNLOCKABLE), connection.transaction():
            connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(quoted(read)))
            return
    # To read is to lock, until the transaction ends.
    connection.execute(sql.SQL("SELECT FROM {} LIMIT 0").format(relation(read)))


def join_locks(connection: Connection, tables: Sequence[Relation]) -> None:
    """Take the snapshot holder's locks in a worker's own transaction.

    Raises:
        TransientError: a session waits to rewrite a table. It waits for the snapshot's holder,
            which waits for the workers: waiting behind it would be a deadlock that no server
            sees.
    """
    if not tables:
        return
    connection.execute(f"SET LOCAL lock_timeout = {JOIN_LOCK_MS}")
    for table in tables:
        try:
            with translated("source"):
                _lock_against_rewrites(connection, table)
        except TransientError as error:
            raise TransientError(
                f"source: {table} is locked, or a session waits to lock it (VACUUM FULL, ALTER "
                "TABLE, TRUNCATE?), which waits for this run's snapshot in turn; do not "
                f"rewrite the table while it is being copied: {error.message}",
                error.diagnosis,
            ) from error
    connection.execute("SET LOCAL lock_timeout = 0")


def import_snapshot(connection: Connection, token: str) -> None:
    """Begin a transaction that sees what the snapshot sees.

    Raises:
        SnapshotLost: its holder is gone.
    """
    with translated("source"):
        connection.begin(ONE_MOMENT)
    try:
        connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(token)))
    except psycopg.Error as error:
        with contextlib.suppress(psycopg.Error):
            connection.execute("ROLLBACK")
        ours = from_driver(error, "source")
        if error.sqlstate not in SNAPSHOT_GONE:
            raise ours from error
        raise SnapshotLost(
            f"source: snapshot {token} can no longer be imported: its holder is gone",
            ours.diagnosis,
        ) from error
