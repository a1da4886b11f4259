"""One moment of a source for many sessions, all opened while no session can commit.

MySQL has no snapshots that a session could join later. So the holder opens enough sessions in
advance, and hands them out: to its own catalog and to workers, over a socket in a folder of its
own, as file descriptors (`sendmsg`, SCM_RIGHTS). A session comes back the same way as soon as it is
not needed, so that a batch of any length needs no more than its streams. What TLS keeps of a
session cannot be handed out, so the holder passes on what such a session says.

https://dev.mysql.com/doc/refman/8.4/en/commit.html (WITH CONSISTENT SNAPSHOT)
https://dev.mysql.com/doc/refman/8.4/en/flush.html#flush-tables-with-read-lock
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import select
import shutil
import socket
import ssl
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextvars import copy_context
from typing import Any

import pymysql
from pymysql.constants import COMMAND, SERVER_STATUS

from penstock.backends.mysql.catalog.tables import TRANSACTIONAL, engine_of, is_table
from penstock.backends.mysql.connection import Connection, connect
from penstock.backends.mysql.dialect import MYSQL
from penstock.backends.mysql.errors import code_of, from_driver, planning, translated
from penstock.backends.mysql.location import URLS
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.shared.resources import cpus
from penstock.backends.sql.session import keeping
from penstock.errors import (
    Blocked,
    Diagnosis,
    PenstockError,
    PlanningError,
    SnapshotLost,
    TooManyConnections,
    TransientError,
)
from penstock.model.snapshots import Snapshot
from penstock.model.tables import Relation, TableRef
from penstock.model.values import statement_kind

# The number of streams is not known yet; most runs have at most as many as there are CPUs.
SESSIONS = max(16, 2 * cpus())
# Seconds that others may have to wait until a lock is taken or given up; there are two locks.
LOCK_SECONDS = 5
# Seconds until a holder answers, unless it was stopped.
ANSWER_SECONDS = 10
OPENED_AT_ONCE = 8
# Seconds to wait for a session that another process is about to give back.
FREE_SECONDS = 2.0
_LOOK_SECONDS = 0.05
# Seconds that the server may take to show that a session can be given back.
_SOUND_SECONDS = 2
# Relations per statement: a server joins at most 61 tables, and a view may have several.
TABLES_JOINED, VIEWS_JOINED = 60, 12
_WAITING = (
    "SELECT id, user, time, left(info, 1000) FROM information_schema.processlist"
    " WHERE state = 'Waiting for table metadata lock' ORDER BY time DESC, id"
)
_REQUEST, _GIVEN_BACK = b"?", b"!"
_LONGEST_MESSAGE = 1 << 16
_LONGEST_HOME = 60
_PREFIX = "penstock-snapshot-"
BEGIN = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
# No privilege to lock: all tables, one table, a database.
_DENIED = {1044, 1142, 1227}
_LOCK_TIMEOUT = 1205
_PIECE = 1 << 18
_CONNECTION_FACTS = ("server_version", "server_thread_id", "server_status", "server_capabilities")


class HeldSessions:
    """See `HeldSnapshot`."""

    def __init__(self, url: str, relations: Sequence[Relation]) -> None:
        self._free: list[Connection] = []
        self._closing = threading.Lock()
        self._closed = False
        self._folder = ""
        self._first: Connection | None = None
        """Its locks protect the tables' definitions: sessions that change one wait for it."""
        try:
            with translated("source", "snapshot"):
                self._open(url)
                self._begin(url, relations)
            first = self._first = self._free.pop(0)
            session = MySqlSession(first, MYSQL)
            with keeping(session, relations):
                check_engines(session, [each for each in relations if isinstance(each, TableRef)])
                groups = _joined(session, relations)
            self._lock_groups(first, url, groups)
            with self._unless_blocked(url, *relations), translated("source", "snapshot"):
                self._lock_definitions(groups)
            self._serve()
        except BaseException:
            self.close()
            raise

    def _open(self, url: str) -> None:
        count = int(URLS.parse(url).options.get("snapshot_sessions", SESSIONS)) + 1

        def open_one() -> Connection | PenstockError:
            try:
                return connect(
                    url, "source", lock_seconds=LOCK_SECONDS, isolation="REPEATABLE-READ"
                )
            except PenstockError as error:
                return error

        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - holders alone

        refused: list[PenstockError] = []
        threads = ThreadPoolExecutor(OPENED_AT_ONCE)
        try:
            for opening in [threads.submit(copy_context().run, open_one) for _ in range(count)]:
                opened = opening.result()
                if isinstance(opened, Connection):
                    self._free.append(opened)
                else:
                    refused.append(opened)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
        for error in refused:
            if not isinstance(error, TooManyConnections) or len(self._free) < 3:
                raise error
        if refused:
            # One session takes the lock, and others must stay available, since they are limited.
            self._free.pop().abandon()

    def _begin(self, url: str, relations: Sequence[Relation]) -> None:
        locker = connect(url, "source", lock_seconds=LOCK_SECONDS)
        try:
            _lock(locker, relations)
            ((now,),) = locker.rows("SELECT date_format(utc_timestamp(6), '%Y-%m-%dT%T.%f')")
            # Sent to all at once, so that others wait for one round trip instead of one for each.
            for session in self._free:
                session._execute_command(COMMAND.COM_QUERY, BEGIN)
            for session in self._free:
                session._read_query_result()
        finally:
            locker.abandon()  # which releases its lock
        self._taken_at = f"{now}+00:00"

    def _lock_groups(
        self, first: Connection, url: str, groups: Sequence[Mapping[str, Relation]]
    ) -> None:
        for group in groups:
            try:
                first.rows(f"SELECT 1 FROM {', '.join(group)} LIMIT 0")
            except pymysql.Error:
                # Find out which of them it is.
                for rows, relation in group.items():
                    with (
                        self._unless_blocked(url, relation),
                        planning("source", f"snapshot of {relation}"),
                    ):
                        first.rows(f"SELECT 1 FROM {rows} LIMIT 0")

    def _lock_definitions(self, groups: Sequence[Mapping[str, Relation]]) -> None:
        """Have each session lock what it may read.

        Later it would queue behind a session that waits to change a table, and that waits for the
        other sessions.
        """
        for group in groups:
            for each in self._free:
                query = f"SELECT 1 FROM {', '.join(group)} LIMIT 0"
                each._execute_command(COMMAND.COM_QUERY, query)
            for each in self._free:
                each._read_query_result()

    @contextlib.contextmanager
    def _unless_blocked(self, url: str, *relations: Relation) -> Iterator[None]:
        """Check for sessions that wait to change a table.

        Raises:
            Blocked: such a session waits for the sessions of the snapshot.
        """
        try:
            yield
        except TransientError as error:
            if error.diagnosis.code != str(_LOCK_TIMEOUT):
                raise
            with contextlib.closing(connect(url, "source")) as looker:
                sessions = [
                    f"session {number} of user {user}: {statement_kind(query or '')}, waiting for "
                    f"{seconds} s"
                    for number, user, seconds, query in looker.rows(_WAITING)
                ]
            blockers = "; ".join(sessions) or "a session that holds a lock, or has ended since"
            raise Blocked(
                f"source: {', '.join(map(str, relations[:3]))}: expected a reader's lock within "
                f"{LOCK_SECONDS} s, found it blocked by {blockers}. A session that waits to change "
                "a table would also wait for this run's snapshot: let it finish, or cancel it, and "
                "try again",
                error.diagnosis,
            ) from error

    def _serve(self) -> None:
        _sweep()
        self._folder = tempfile.mkdtemp(prefix=_PREFIX, dir=_home())
        path = os.path.join(self._folder, "sessions")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"{path}.new")
        self._listener.listen(64)
        os.rename(f"{path}.new", path)
        self.snapshot = Snapshot(path, self._taken_at)
        threading.Thread(target=self._hand_out, args=(self._listener,), daemon=True).start()

    def _hand_out(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return  # closed
            with client, contextlib.suppress(OSError):
                client.settimeout(ANSWER_SECONDS)
                message, descriptors, _, _ = socket.recv_fds(client, _LONGEST_MESSAGE, 1)
                if message == _REQUEST:
                    self._hand(client)
                elif descriptors:
                    self._keep(_session(json.loads(message[1:]), descriptors[0]))

    def _hand(self, client: socket.socket) -> None:
        with self._closing:
            session = self._free.pop() if self._free else None
        if session is None:
            client.sendall(b"{}\n")
            return
        _send(client, b"", session)

    def _keep(self, session: Connection) -> None:
        """Keep a session that was given back."""
        with self._closing:
            if not self._closed:
                self._free.append(session)
                return
        session.abandon()

    def is_alive(self) -> bool:
        """Whether the session still exists.

        A server that goes away closes the socket, which then reads as ready.
        """
        sock = getattr(self._first, "_sock", None)
        if sock is None:
            return False
        ready, _, _ = select.select([sock], [], [], 0)
        return not ready

    def close(self) -> None:
        if self._folder:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            shutil.rmtree(self._folder, ignore_errors=True)
        with self._closing:
            self._closed = True
            sessions, self._free = self._free, []
        for session in [*sessions, self._first]:
            if session is not None:
                session.abandon()


def _joined(session: MySqlSession, relations: Sequence[Relation]) -> list[dict[str, Relation]]:
    """Return the relations per statement, by their items of FROM."""
    tables: dict[str, Relation] = {}
    views: dict[str, Relation] = {}
    queries: list[dict[str, Relation]] = []
    for relation in relations:
        rows = session.rows_of(relation)
        if not isinstance(relation, TableRef):
            queries.append({rows: relation})
        elif is_table(session, relation):
            tables[rows] = relation
        else:
            views[rows] = relation
    return [
        *_pieces(tables, TABLES_JOINED),
        *_pieces(views, VIEWS_JOINED),
        *queries,
    ]


def _pieces(relations: Mapping[str, Relation], most: int) -> Iterator[dict[str, Relation]]:
    items = list(relations.items())
    for start in range(0, len(items), most):
        yield dict(items[start : start + most])


def _lock(locker: Connection, relations: Sequence[Relation]) -> None:
    """Keep all sessions from committing, or, if that is not allowed, from writing to the tables.

    Raises:
        PlanningError: the user may do neither.
        TransientError: a session writes for longer than others can be made to wait.
    """
    try:
        try:
            locker.change("FLUSH TABLES WITH READ LOCK")
        except pymysql.Error as error:
            tables = [MYSQL.table(r) for r in relations if isinstance(r, TableRef)]
            if code_of(error) not in {*_DENIED, _LOCK_TIMEOUT} or len(tables) < len(relations):
                raise
            try:
                locker.change(f"LOCK TABLES {', '.join(f'{table} READ' for table in tables)}")
            except pymysql.Error as second:
                # A writing session may end; a missing privilege stays missing.
                raise error if code_of(second) in _DENIED else second from second
    except pymysql.Error as error:
        ours = from_driver(error, "source", "snapshot")
        if code_of(error) == _LOCK_TIMEOUT:
            raise TransientError(
                f"{ours.message}; another session has been writing, or reading, for more than "
                f"{LOCK_SECONDS} s, while new writes waited behind this lock; try again later, or "
                "pass --snapshot none",
                ours.diagnosis,
            ) from error
        if code_of(error) not in _DENIED:
            raise ours from error
        user = locker.user.decode() if isinstance(locker.user, bytes) else locker.user
        raise PlanningError(
            f"{ours.message}; to read all partitions in one snapshot, user {user!r} needs a "
            "privilege: GRANT RELOAD ON *.* (or, for tables alone, GRANT SELECT, LOCK TABLES ON "
            "the database); or pass --snapshot none",
            ours.diagnosis,
        ) from error


def _pass_on(inner: ssl.SSLSocket, outer: socket.socket) -> None:
    """Relay between a session with TLS and its user, until one of them ends."""
    with inner, outer, contextlib.suppress(OSError):
        inner.setblocking(True)
        while True:
            ready = [inner] if inner.pending() else select.select([inner, outer], [], [])[0]
            for sender, receiver in ((inner, outer), (outer, inner)):
                if sender in ready:
                    piece = sender.recv(_PIECE)
                    if not piece:
                        return
                    receiver.sendall(piece)


def take(token: str) -> Connection:
    """Take a free session of the snapshot; waits for a moment if none is free.

    Raises:
        SnapshotLost: the holder is gone, or has none left.
    """
    deadline = time.monotonic() + FREE_SECONDS
    while True:
        try:
            with _holder(token) as holder:
                holder.sendall(_REQUEST)
                answer, descriptors, _, _ = socket.recv_fds(holder, _LONGEST_MESSAGE, 1)
        except OSError as error:
            raise SnapshotLost(
                "source: the process that holds the snapshot has ended, is stopped, or runs on "
                f"another machine ({error}); tasks on several machines cannot share a snapshot of "
                "this system: pass --snapshot none",
                Diagnosis(side="source"),
            ) from error
        if descriptors:
            session = _session(json.loads(answer), descriptors[0])
            session.snapshot = token
            return session
        if time.monotonic() >= deadline:
            raise SnapshotLost(
                "source: the snapshot has no free session: each stream, and each attempt that was "
                "cut off, takes one; raise snapshot_sessions in the URL "
                f"(?snapshot_sessions={2 * SESSIONS})",
                Diagnosis(side="source"),
            )
        time.sleep(_LOOK_SECONDS)


def leave(session: Connection) -> None:
    """Leave a session that runs nothing: give it back to its snapshot, if it has one."""
    if session.snapshot and session._sock is not None:
        with contextlib.suppress(OSError, pymysql.Error):
            if _is_sound(session):
                with _holder(session.snapshot) as holder:
                    _send(holder, _GIVEN_BACK, session)
                return
    session.abandon()


def _is_sound(session: Connection) -> bool:
    """Whether a session still reads in its snapshot, and no answer is left to read."""
    session._read_timeout = _SOUND_SECONDS
    mark = uuid.uuid4().hex
    answer = session.rows("SELECT %s", [mark])
    return answer == [(mark,)] and bool(
        session.server_status & SERVER_STATUS.SERVER_STATUS_IN_TRANS
    )


@contextlib.contextmanager
def _holder(token: str) -> Iterator[socket.socket]:
    """Connect to the process that holds a snapshot."""
    with socket.socket(socket.AF_UNIX) as holder:
        holder.settimeout(ANSWER_SECONDS)
        holder.connect(token)
        yield holder


def _send(to: socket.socket, beginning: bytes, session: Connection) -> None:
    """Hand over a session, which from here on belongs to another process."""
    facts = {name: getattr(session, name) for name in _CONNECTION_FACTS}
    channel = session._sock
    session._rfile.close()
    session._sock = session._rfile = None
    if isinstance(channel, ssl.SSLSocket):
        inner = channel
        ours, channel = socket.socketpair()
        threading.Thread(target=_pass_on, args=(inner, ours), daemon=True).start()
    with channel:
        socket.send_fds(to, [beginning + json.dumps(facts).encode() + b"\n"], [channel.fileno()])


def _session(facts: Mapping[str, Any], descriptor: int) -> Connection:
    """Return a session that another process has handed over."""
    session = Connection(charset="utf8mb4", defer_connect=True, ssl_disabled=True)
    session.side = "source"
    for name in _CONNECTION_FACTS:
        setattr(session, name, facts[name])
    session._sock = socket.socket(fileno=descriptor)
    session._sock.settimeout(None)
    session._current_timeout = None
    session._rfile = session._sock.makefile("rb")
    session._next_seq_id = 0
    return session


def _home() -> str:
    """Return the folder for temporary folders; a socket's path has at most 103 characters."""
    home = tempfile.gettempdir()
    return home if len(home) < _LONGEST_HOME else "/tmp"


def _sweep() -> None:
    """Remove what killed holders have left behind."""
    for path in glob.glob(os.path.join(_home(), f"{_PREFIX}*", "sessions")):
        with socket.socket(socket.AF_UNIX) as holder, contextlib.suppress(OSError):
            holder.settimeout(0)
            try:
                holder.connect(path)
            except ConnectionRefusedError:
                shutil.rmtree(os.path.dirname(path), ignore_errors=True)


def check_engines(session: MySqlSession, tables: Sequence[TableRef]) -> None:
    """Check that tables have snapshots.

    Raises:
        PlanningError: a table's engine has none.
    """
    for table in tables:
        engine = engine_of(session, table)
        if engine and engine.lower() not in TRANSACTIONAL:
            raise PlanningError(
                f"source: expected {table} to use InnoDB, found engine {engine}, which has no "
                "snapshots; pass --snapshot none, and keep other sessions from writing to the table"
            )


hold_snapshot = HeldSessions
