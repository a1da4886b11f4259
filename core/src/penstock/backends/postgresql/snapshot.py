"""Export a snapshot, hold it, import it.

https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-SNAPSHOT-SYNCHRONIZATION
"""

from __future__ import annotations

import contextlib
import select

import psycopg
from psycopg import sql

from penstock.backends.postgresql.connection import Connection, connect
from penstock.backends.postgresql.errors import importing_snapshot, planning, translated
from penstock.backends.postgresql.statements import quoted
from penstock.errors import TransientError
from penstock.model import Snapshot, TableRef

JOIN_LOCK_MS = 5000
BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class ExportedSnapshot:
    """A session that keeps an exported snapshot alive.

    It also locks the table against rewrites (VACUUM FULL, CLUSTER, TRUNCATE): those move rows to
    other blocks, or away, behind a snapshot's back. Reads and writes are not held up.
    """

    def __init__(self, url: str, table: TableRef) -> None:
        self._connection = connect(url, "source", "penstock:snapshot")
        with planning("source", f"snapshot of {table}"):
            self._connection.execute(BEGIN)
            # Not every relation can be locked (views need no lock), hence by what it is.
            with (
                contextlib.suppress(psycopg.errors.WrongObjectType),
                self._connection.transaction(),
            ):
                self._connection.execute(
                    sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(quoted(table))
                )
            found = self._connection.execute(
                "SELECT pg_catalog.pg_export_snapshot(), clock_timestamp()::text"
            ).fetchone()
        assert found is not None
        self.snapshot = Snapshot(*found)

    def alive(self) -> bool:
        """A server that goes away closes the socket, which then reads as ready."""
        if self._connection.closed:
            return False
        ready, _, _ = select.select([self._connection.fileno()], [], [], 0)
        if not ready:
            return True
        try:
            self._connection.pgconn.consume_input()
        except psycopg.Error:
            self._connection.close()
            return False
        ready, _, _ = select.select([self._connection.fileno()], [], [], 0)
        return not ready or self._says_alive()

    def _says_alive(self) -> bool:
        try:
            self._connection.execute("SELECT 1")
        except psycopg.Error:
            self._connection.close()
            return False
        return True

    def close(self) -> None:
        self._connection.close()


def _lock_against_rewrites(connection: Connection, table: TableRef) -> None:
    # What is no table cannot be rewritten, nor locked.
    with contextlib.suppress(psycopg.errors.WrongObjectType), connection.transaction():
        connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(quoted(table)))


def join_lock(connection: Connection, table: TableRef) -> None:
    """Take the snapshot holder's lock in a worker's own transaction.

    Raises:
        TransientError: somebody waits to rewrite the table. He waits for the snapshot's holder,
            which waits for the workers; to wait behind him would be a deadlock that no server
            sees.
    """
    connection.execute(f"SET LOCAL lock_timeout = {JOIN_LOCK_MS}")
    try:
        with translated("source"):
            _lock_against_rewrites(connection, table)
    except TransientError as error:
        raise TransientError(
            f"source: {table} is locked, or a session waits to lock it (VACUUM FULL, ALTER TABLE, "
            "TRUNCATE?), which waits for this run's snapshot in turn; expected nobody to rewrite "
            f"the table while it is copied: {error.message}",
            error.diagnosis,
        ) from error
    connection.execute("SET LOCAL lock_timeout = 0")


def import_snapshot(connection: Connection, token: str) -> None:
    """Begin a transaction that sees what the snapshot sees.

    Raises:
        SnapshotLost: nobody holds it any more.
    """
    with importing_snapshot(token):
        connection.execute(BEGIN)
        try:
            connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(token)))
        except psycopg.Error:
            with contextlib.suppress(psycopg.Error):
                connection.execute("ROLLBACK")
            raise
