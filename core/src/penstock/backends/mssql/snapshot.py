"""One moment of a source: a database snapshot, read by every session that knows its name.

Its holder and its readers share a lock, named after it, in the source database. A session holds the
lock until it ends for any reason, so a snapshot without locks can be dropped.

https://learn.microsoft.com/en-us/sql/relational-databases/databases/database-snapshots-sql-server
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress

from penstock.backends.mssql.connection import LOCK_TIMEOUT, Connection, connect
from penstock.backends.mssql.dialect import MSSQL
from penstock.backends.mssql.errors import DriverError, planning, translated
from penstock.backends.mssql.load.locks import SESSION, SHARED, release, try_lock
from penstock.backends.sql.server.records import lock_name
from penstock.errors import Diagnosis, PenstockError, PlanningError, SnapshotLost
from penstock.model.snapshots import Snapshot
from penstock.model.tables import Relation

MARK = "penstock_snapshot_"
# Younger ones are left to a process that resumes the run of a killed holder.
AGE_SECONDS = 600
# To wait for a snapshot to be dropped, before leaving it to the next run.
DROP_SECONDS = 30
# https://learn.microsoft.com/en-us/sql/t-sql/functions/serverproperty-transact-sql
_EDITIONS = (2, 3, 4)
"""Editions of SQL Server itself. Azure's have no files that could be named."""
_ALTERNATIVE = "pass --snapshot none, and prevent writes to the source until the copy ends"
_RIGHTS = (
    "expected the privileges to create and drop a database snapshot: GRANT CREATE ANY DATABASE TO "
    "the login and add its user to the database role db_owner, or GRANT ALTER ANY DATABASE TO the "
    "login"
)
# A snapshot inherits the privileges of its source, including the one to drop it.
_IS_PERMITTED = (
    "SELECT CASE WHEN HAS_PERMS_BY_NAME(NULL, NULL, 'ALTER ANY DATABASE') = 1"
    " OR (HAS_PERMS_BY_NAME(NULL, NULL, 'CREATE ANY DATABASE') = 1"
    " OR HAS_PERMS_BY_NAME('master', 'DATABASE', 'CREATE DATABASE') = 1)"
    " AND HAS_PERMS_BY_NAME(DB_NAME(), 'DATABASE', 'CONTROL') = 1 THEN 1 ELSE 0 END"
)
# On a secondary of an availability group, the database's own view shows the primary's files.
_FILES = (
    "SELECT name, physical_name FROM sys.master_files"
    " WHERE database_id = DB_ID() AND type = 0 ORDER BY file_id"
)
_LEFTOVERS = (
    "SELECT name FROM sys.databases WHERE source_database_id = DB_ID()"
    f" AND LEFT(name, {len(MARK)}) = '{MARK}'"
    f" AND create_date < DATEADD(second, -{AGE_SECONDS}, GETDATE())"
)
_ONLINE = "SELECT count(*) FROM sys.databases WHERE name = ? AND state = 0"


def creation_statement(name: str, database: str, files: Sequence[tuple[str, str]]) -> str:
    """Return the statement that creates a snapshot.

    Args:
        name: the name of the snapshot.
        database: the database that it is a snapshot of.
        files: the logical name and the path of each data file.
    """
    listed = ", ".join(
        f"(NAME = {MSSQL.ident(logical)}, FILENAME = {MSSQL.literal(f'{path}.{name}')})"
        for logical, path in files
    )
    return f"CREATE DATABASE {MSSQL.ident(name)} ON {listed} AS SNAPSHOT OF {MSSQL.ident(database)}"


def lock_of(name: str) -> str:
    """Return the name of the lock that a snapshot's holder and readers share."""
    return lock_name(MARK, name)


class HeldDatabase:
    """See `HeldSnapshot`. The snapshot survives the loss of its session: another one takes over."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._closed = False
        self._connection = connect(url, "source")
        self._name = MARK + secrets.token_hex(8)
        try:
            self.snapshot = self._take()
        except BaseException:
            self.close()  # a signal may have come after it was created
            raise

    def _take(self) -> Snapshot:
        connection = self._connection
        _check_edition(connection)
        with planning("source", "snapshot"):
            ((may,),) = connection.rows(_IS_PERMITTED)
            files = [(str(logical), str(path)) for logical, path in connection.rows(_FILES)]
            if not may or not files:
                raise PlanningError(f"source: snapshot: {_RIGHTS}; or {_ALTERNATIVE}")
            sweep(connection)
            self._hold()
            ((now,),) = connection.rows("SELECT CONVERT(varchar(40), SYSUTCDATETIME(), 126)")
        try:
            with planning("source", "snapshot"):
                connection.change(creation_statement(self._name, connection.database, files))
        except PlanningError as error:
            raise PlanningError(f"{error.message}; or {_ALTERNATIVE}", error.diagnosis) from error
        # Without the seventh digit, which Python's times lack.
        return Snapshot(self._name, f"{now[:26]}+00:00")

    def _hold(self) -> None:
        try_lock(self._connection, lock_of(self._name), mode=SHARED, owner=SESSION)

    def is_alive(self) -> bool:
        if self._closed:
            return False
        try:
            return self._is_online()
        except DriverError:
            self._connection.close()
        try:
            self._connection = connect(self._url, "source")
            self._hold()
            return self._is_online()
        except (PenstockError, DriverError):
            return False

    def _is_online(self) -> bool:
        return self._connection.rows(_ONLINE, [self._name]) == [(1,)]

    def close(self) -> None:
        if self.is_alive():
            with suppress(DriverError):  # the next run drops it then
                drop(self._connection, self._name)
        self._closed = True
        self._connection.close()


def hold_snapshot(url: str, relations: Sequence[Relation]) -> HeldDatabase:
    """Hold a snapshot of the whole database, whichever relations are read."""
    return HeldDatabase(url)


def _check_edition(connection: Connection) -> None:
    """Check the server's edition.

    Raises:
        PlanningError: the edition does not support database snapshots.
    """
    if connection.edition not in _EDITIONS or connection.babelfish:
        raise PlanningError(
            f"source: snapshot: {connection.product} has no database snapshots; {_ALTERNATIVE}",
            Diagnosis(side="source"),
        )


def enter(connection: Connection, name: str) -> None:
    """Make a session read in a snapshot, and protect the snapshot from being swept.

    Raises:
        SnapshotLost: the snapshot is gone.
    """
    with translated("source", "snapshot"):
        if connection.snapshot:
            former = connection.snapshot
            connection.use("")
            release(connection, lock_of(former))
        reason = f"the database snapshot {name} is being dropped"
        if try_lock(connection, lock_of(name), mode=SHARED, owner=SESSION):
            try:
                connection.use(name)
                return
            except DriverError as error:
                # The error only says that the connection failed, so check whether the snapshot
                # exists.
                reason = error.words
                connection.rows("SELECT 1")
    raise SnapshotLost(f"source: snapshot: {reason}", Diagnosis(side="source"))


def drop(connection: Connection, name: str) -> None:
    """Drop a snapshot, ending the sessions that still use it."""
    connection.change(f"SET LOCK_TIMEOUT {DROP_SECONDS * 1000}")
    connection.change(f"DROP DATABASE {MSSQL.ident(name)}")


def sweep(connection: Connection) -> None:
    """Drop the snapshots of killed holders."""
    for (name,) in connection.rows(_LEFTOVERS):
        if try_lock(connection, lock_of(name), owner=SESSION):
            with suppress(DriverError):
                drop(connection, name)
            release(connection, lock_of(name))
    connection.change(LOCK_TIMEOUT)
