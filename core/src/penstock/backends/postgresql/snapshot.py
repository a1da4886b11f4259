"""Export a snapshot, hold it, import it.

https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-SNAPSHOT-SYNCHRONIZATION
"""

from __future__ import annotations

import contextlib
import select
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from penstock.backends.postgresql.attempt.older_sessions import Guard
from penstock.backends.postgresql.connection import LOOK_LOCK, Connection, connect
from penstock.backends.postgresql.errors import from_driver, planning, translated
from penstock.backends.postgresql.statements import literal, name, quoted, relation, statement
from penstock.backends.postgresql.waiting import (
    SNAPSHOT,
    Session,
    listed,
    rewriters,
    waiting_for,
)
from penstock.errors import Blocked, Diagnosis, PenstockError, PlanningError, SnapshotLost
from penstock.model.snapshots import Snapshot
from penstock.model.tables import Relation, TableRef
from penstock.spec.worker_spec import Patience

if TYPE_CHECKING:
    from penstock.backends.api.source import SourceCatalog, Waiting
    from penstock.backends.postgresql.asked_together import Question

# Seconds for a lock that somebody waits for who waits for the run's snapshot.
JOIN_SECONDS = 5.0
# Tables that are locked by one statement.
AT_ONCE = 100
# Seconds between two looks at who waits, for all runs of a batch together.
LOOK_SECONDS = 1.0
# "invalid snapshot identifier", "snapshot does not exist", and, where the exporter is gone in
# between, "object not in prerequisite state".
SNAPSHOT_GONE = {"22023", "42704", "55000"}
# What is no table; what may be read in part; and, before PostgreSQL 13, partitions that may be read
# as parts of their table alone.
UNLOCKABLE = (psycopg.errors.WrongObjectType, psycopg.errors.InsufficientPrivilege)
# A standby's position in the log. A primary's snapshots are told apart by their transactions.
REACHED = (
    "SELECT CASE WHEN pg_catalog.pg_is_in_recovery()"
    " THEN pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_last_wal_replay_lsn(), '0/0') ELSE 0 END"
)
ONE_MOMENT = "ISOLATION LEVEL REPEATABLE READ READ ONLY"
# What a standby has received may be replayed before it says so.
EXPORT = """
    SELECT pg_catalog.pg_export_snapshot(), clock_timestamp()::text,
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
        pg_catalog.pg_is_in_recovery()
    FROM pg_catalog.txid_current_snapshot() AS s
"""


def _export_query(reached: int) -> str:
    return EXPORT.replace("{reached}", str(reached))


class SnapshotSession:
    """A session that is to hold a snapshot, opened before it is known of what."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection = connect(url, "source", SNAPSHOT, set_up=False)

    def hold(self, relations: Sequence[Relation]) -> ExportedSnapshot:
        """Take the snapshot, once. The session is the snapshot's from now on."""
        return ExportedSnapshot(self._connection, self._url, relations)

    def close(self) -> None:
        self._connection.close()


class ExportedSnapshot:
    """A session that keeps an exported snapshot alive.

    It also locks the table against rewrites (VACUUM FULL, CLUSTER, TRUNCATE): those move rows to
    other blocks, or away, behind a snapshot's back. Reads and writes are not held up, unless
    somebody waits to rewrite the table: who comes then, waits behind.
    """

    def __init__(self, connection: Connection, url: str, relations: Sequence[Relation]) -> None:
        self._connection = connection
        connection.side = "source"  # for all that is asked in it: it may be lost at any time
        self._looker = partial(watcher, url)
        self._waiting: Sequence[Waiting] = ()
        self._look: threading.Thread | None = None
        self._looked = 0.0
        try:
            self.snapshot = self._export_at_once(relations) or self._export(relations)
        except BaseException:
            self._connection.close()
            raise

    def _export_at_once(self, relations: Sequence[Relation]) -> Snapshot | None:
        """In one round trip, where nobody is in the way of the locks; else None."""
        locks = _locks_at_once(relations)
        if not locks:
            return None
        try:
            # A lock comes before the snapshot that sees what is locked: to lock takes none.
            cursor = self._connection.begin(ONE_MOMENT, f"{locks}; {_export_query(0)}")
            while cursor.nextset():
                pass
            token, moment, horizon, standby = cursor.fetchall()[0]
            if not standby:
                return Snapshot(token, moment, horizon)
            # Its position is asked before the snapshot is taken.
            self._connection.execute("ROLLBACK")
            return None
        except psycopg.Error:
            if not self._connection.closed:
                self._connection.execute("ROLLBACK")
            return None

    def _export(self, relations: Sequence[Relation]) -> Snapshot:
        connection = self._connection
        with planning("source", "snapshot"):
            # Before the snapshot is taken: it sees all of that.
            reached = int(connection.value(REACHED) or 0)
            connection.begin(ONE_MOMENT)
        connection.guard = Guard("", Patience(), self._looker, side="source", what="the snapshot")
        tables = [read for read in relations if isinstance(read, TableRef)]
        if len(tables) > AT_ONCE:
            _check_room(connection, tables)
        for first in range(0, len(relations), AT_ONCE):
            some = relations[first : first + AT_ONCE]
            try:
                lock_against_rewrites(connection, some, Patience().stall_timeout)
            except psycopg.errors.OutOfMemory as error:
                found = f"it for fewer than {first + AT_ONCE:,}: {str(error).splitlines()[0]}"
                raise _too_many_locks(len(relations), found, error.sqlstate or "") from error
        connection.guard = None
        with planning("source", "snapshot"):
            token, moment, horizon, _ = connection.first(_export_query(reached))
            return Snapshot(token, moment, horizon)

    def alive(self) -> bool:
        """A server that goes away closes the socket, which then reads as ready."""
        if self._connection.closed:
            return False
        if self._is_asked():
            return True  # what can be read is its answer
        try:
            if self._has_input():
                self._connection.pgconn.consume_input()
                if self._has_input():
                    self._connection.execute("SELECT 1")
        except (psycopg.Error, PenstockError):
            self._connection.close()
            return False
        return True

    def _has_input(self) -> bool:
        ready, _, _ = select.select([self._connection.fileno()], [], [], 0)
        return bool(ready)

    def waiting(self) -> Sequence[Waiting]:
        """Those that waited when the server last answered, seconds ago at most.

        It is asked on a thread: over a network that has gone silent there is no answer, and streams
        that stall have to be noticed all the same.
        """
        now = time.monotonic()
        if not self._is_asked() and now - self._looked >= LOOK_SECONDS:
            self._looked = now
            self._look = threading.Thread(target=self._ask, name="penstock-waiting", daemon=True)
            self._look.start()
        return self._waiting

    def _ask(self) -> None:
        try:
            self._waiting = waiting_for(self._connection)
        except (psycopg.Error, PenstockError):
            self._waiting = ()  # its session is lost: that shows elsewhere

    def _is_asked(self) -> bool:
        return self._look is not None and self._look.is_alive()

    def catalog(self, look: Callable[[Sequence[Waiting]], None]) -> SourceCatalog:
        from penstock.backends.postgresql.source import HolderSource  # noqa: PLC0415 - most do not verify

        guard = Guard(
            "",
            Patience(),
            self._looker,
            look=lambda looker: look(waiting_for(looker, self._connection.server_pid)),
            side="source",
            what="verification",
        )
        return HolderSource(self._connection, self.snapshot, guard)

    def close(self) -> None:
        self._connection.close()


def watcher(url: str) -> Connection:
    """A session that looks at what others wait for."""
    return connect(url, "source", "penstock:watch", lock_seconds=LOOK_LOCK)


def _check_room(connection: Connection, tables: Sequence[TableRef]) -> None:
    """
    Raises:
        PlanningError: the locks would leave none for others, before the first of them is taken.
    """
    asked = {"schemas": [ref.schema for ref in tables], "names": [ref.name for ref in tables]}
    with planning("source", "snapshot"):
        count, each, sessions, prepared = connection.first(statement("lock_room"), asked)
    room = each * (sessions + prepared)
    if count > room:
        found = (
            f"{room:,} for all sessions together: max_locks_per_transaction {each:,} x "
            f"(max_connections {sessions:,} + max_prepared_transactions {prepared:,})"
        )
        raise _too_many_locks(count, found)


def _too_many_locks(wanted: int, found: str, code: str = "") -> PlanningError:
    return PlanningError(
        f"source: the snapshot locks each table until all are copied: expected room for {wanted:,} "
        f"locks, found {found}; raise max_locks_per_transaction on the source (it has to be "
        "restarted), or copy in several batches",
        Diagnosis(side="source", code=code),
    )


def lock_against_rewrites(
    connection: Connection, relations: Sequence[Relation], seconds: float
) -> None:
    """Lock what is read as a reader does, until the transaction ends.

    Parameters:
        seconds: for each statement; 0: for ever.

    Raises:
        Blocked: a session waits to rewrite a table, which would wait for the snapshot's holder, or
            holds it locked for too long.
    """
    with planning("source", "snapshot"):
        connection.execute(f"SET LOCAL lock_timeout = {round(seconds * 1000)}")
    tables = [read for read in relations if isinstance(read, TableRef)]
    queries = [read for read in relations if not isinstance(read, TableRef)]
    _lock_tables(connection, tables, seconds)
    for read in queries:
        # To read is to lock.
        query = sql.SQL("SELECT FROM {} LIMIT 0").format(relation(read))
        _lock(connection, query, [read], seconds)


def _lock_tables(connection: Connection, tables: Sequence[TableRef], seconds: float) -> None:
    """All but those that cannot be locked."""
    if not _try_lock(connection, tables, seconds) and len(tables) > 1:
        half = len(tables) // 2
        _lock_tables(connection, tables[:half], seconds)
        _lock_tables(connection, tables[half:], seconds)


def _try_lock(connection: Connection, tables: Sequence[TableRef], seconds: float) -> bool:
    """False where one of them cannot be locked, so that none is."""
    if not tables:
        return True
    names = sql.SQL(", ").join(map(quoted, tables))
    try:
        query = sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(names)
        _lock(connection, query, tables, seconds)
    except UNLOCKABLE:
        return False
    return True


def _lock(
    connection: Connection, query: sql.Composable, relations: Sequence[Relation], seconds: float
) -> None:
    subject = f"snapshot of {', '.join(map(str, relations[:3]))}"
    subject += ", ..." if len(relations) > 3 else ""
    try:
        with connection.transaction():
            connection.execute(query)
    except (*UNLOCKABLE, psycopg.errors.OutOfMemory):
        raise
    except psycopg.errors.LockNotAvailable as error:
        raise _blocked(connection, relations, seconds) from error
    except psycopg.Error as error:
        with planning("source", subject):
            raise error


def _blocked(connection: Connection, relations: Sequence[Relation], seconds: float) -> Blocked:
    found: list[Session] = []
    what = ""
    for read in relations:
        known = isinstance(read, TableRef)
        sessions = rewriters(connection, name(read) if isinstance(read, TableRef) else None)
        found += [each for each in sessions if each not in found]
        what = what or (str(read) if sessions or not known or len(relations) == 1 else "")
    return Blocked(
        f"source: {what or 'a table'}: expected a lock within {seconds:g} s, as every reader takes "
        f"it; found it held, or waited for in line by {listed(found)}. Who waits to change a table "
        "(ALTER TABLE, DROP, TRUNCATE, VACUUM FULL) waits for this run's snapshot, too; let it end "
        "first, or cancel it, and try again",
        Diagnosis(side="source", code="55P03"),
    )


def _locks_at_once(relations: Sequence[Relation]) -> str:
    """Statements that lock tables which nobody keeps locked, and fail otherwise; empty where that
    cannot be done."""
    refs = [quoted(read).as_string(None) for read in relations if isinstance(read, TableRef)]
    if not refs or len(refs) < len(relations) or len(refs) > AT_ONCE:
        return ""
    return f"LOCK TABLE {', '.join(refs)} IN ACCESS SHARE MODE NOWAIT"


def join_locks(
    connection: Connection,
    tables: Sequence[Relation],
    seconds: float,
    before: Sequence[Question] = (),
) -> None:
    """Take the snapshot holder's locks in another transaction.

    Parameters:
        seconds: for each lock that is needed later; 0: for ever.
        before: other statements of that transaction, in the same round trip where that is possible.

    Raises:
        Blocked: a session waits to rewrite a table. It waits for the snapshot's holder, which waits
            for the workers: waiting behind it would be a deadlock that no server sees.
    """
    if not tables:
        return
    patience = _patience(seconds)
    with translated("source"):
        if not _lock_at_once(connection, tables, patience, before):
            for statement in before:
                connection.execute(*statement)
            lock_against_rewrites(connection, tables, JOIN_SECONDS)
            connection.execute(patience)


def _patience(seconds: float) -> str:
    return f"SET LOCAL lock_timeout = {round(seconds * 1000)}"


def _lock_at_once(
    connection: Connection, tables: Sequence[Relation], then: str, before: Sequence[Question]
) -> bool:
    """Lock tables that nobody keeps locked, in one round trip.

    Parameters:
        then: a statement that follows.

    Returns: False where that is not possible; then nothing is locked, and nothing done.
    """
    locks = _locks_at_once(tables)
    if not locks:
        return False
    try:
        with connection.together():
            connection.execute("SAVEPOINT unlocked")
            for statement in before:
                connection.execute(*statement)
            connection.execute(locks.encode())
            connection.execute("RELEASE unlocked")
            connection.execute(then.encode())
    except psycopg.Error:
        if connection.closed:
            raise
        connection.execute("ROLLBACK TO unlocked; RELEASE unlocked")
        return False
    return True


def import_locked(
    connection: Connection, token: str, tables: Sequence[Relation], seconds: float
) -> Mapping[TableRef, int] | None:
    """`import_snapshot` and `join_locks` in one round trip.

    Returns: the tables' object ids. None where it is not possible: no transaction is begun then.
    """
    locks = _locks_at_once(tables)
    if not locks:
        return None
    refs = [read for read in tables if isinstance(read, TableRef)]
    oids = ", ".join(f"{literal(name(ref))}::regclass::oid::bigint" for ref in refs)
    try:
        cursor = connection.begin(
            ONE_MOMENT,
            f"{_importing(token)}; {locks}; {_patience(seconds)}; SELECT ARRAY[{oids}]",
        )
        while cursor.nextset():
            pass
        ((found,),) = cursor.fetchall()
    except psycopg.Error:
        if connection.closed:
            raise
        connection.execute("ROLLBACK")
        return None
    connection.note_pid()
    return dict(zip(refs, found, strict=True))


def _importing(token: str) -> str:
    return f"SET TRANSACTION SNAPSHOT {literal(token)}"


def import_snapshot(connection: Connection, token: str) -> None:
    """Begin a transaction that sees what the snapshot sees.

    Raises:
        SnapshotLost: its holder is gone.
    """
    try:
        connection.begin(ONE_MOMENT, _importing(token))
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
    with translated("source"):
        connection.note_pid()
