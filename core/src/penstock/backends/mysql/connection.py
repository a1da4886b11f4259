"""Sessions: settings and cancellation."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import pymysql
from pymysql.constants import CLIENT, COMMAND

from penstock.backends.mysql.catalog.session_settings import (
    MARIADB,
    MYSQL,
    WITH_GENERATED_KEYS,
    session_settings,
)
from penstock.backends.mysql.errors import CANNOT_CONNECT, code_of, translated
from penstock.backends.mysql.location import TUNNEL, URLS, tls_options
from penstock.backends.shared.tokens import current_password
from penstock.backends.shared.tunnels import entrance, explained
from penstock.errors import Diagnosis, PenstockError, PermanentError
from penstock.model.awaited import awaiting
from penstock.model.values import statement_kind

NO_SUCH_THREAD = 1094
SERVER = "MySQL"
_STATE = "SELECT state, left(info, 1000) FROM information_schema.processlist WHERE id = %s"
OLDEST = {MYSQL: (8, 0), MARIADB: (10, 6)}
CONNECT_SECONDS = 10
# Tables are created as they are defined, stages without a key among them. Only some users may set
# these: with the first version that has them.
REQUIRES_KEYS = "sql_require_primary_key"
_CREATING = {
    REQUIRES_KEYS: (8, 0, 13),
    "sql_generate_invisible_primary_key": WITH_GENERATED_KEYS,
}
# The key of a table of our own, on a server that requires one. Only names select it.
_OWN_KEY = "`penstock_row` bigint unsigned{} PRIMARY KEY /*!80023 INVISIBLE */"
MAY_NOT_SET = 1227
# https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_set_option.html
_ON, _OFF = b"\0\0", b"\1\0"
# Statements sent at once.
MOST_TOGETHER = 100
_LOADING = CLIENT.LOCAL_FILES | CLIENT.MULTI_STATEMENTS
# Seconds to wait for a lock on a table's definition: a server's own limit is a day, or a year.
LOCK_SECONDS = 600
# Seconds. Detect a vanished peer within two minutes, not within the system's two hours.
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 6))


@cache
def _unverified() -> ssl.SSLContext:
    """Return a context for sessions whose server is not verified.

    Creating one takes 20 ms of CPU time, since it reads the system's certificates.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a statement."""

    count: int
    """The number of rows found or inserted."""
    rows: list[tuple[Any, ...]]


class Connection(pymysql.Connection):  # type: ignore[misc] # PyMySQL has no types
    """A session that raises the driver's errors."""

    side = ""
    waits: int | None = None
    """As in `wait_for_locks`."""
    tunnel = ""
    """The mark of the tunnel that leads to the server; empty without one."""
    snapshot = ""
    """The snapshot that lent the session; empty if none has."""
    creates_freely = True
    """Whether the session has set how tables are created, as far as the server has settings."""

    @property
    def is_mariadb(self) -> bool:
        return "mariadb" in self.server_version.lower()

    @property
    def system(self) -> str:
        return MARIADB if self.is_mariadb else MYSQL

    @cached_property
    def requires_keys(self) -> bool:
        """Whether each table that the session creates needs a primary key."""
        if self.creates_freely:
            return False
        found = self.rows(f"SHOW VARIABLES WHERE Variable_name = '{REQUIRES_KEYS}'")
        return any(value == "ON" for _, value in found)

    def own_key(self, *, counted: bool = True) -> str:
        """Return the column that is the key of a table of our own; empty if it needs none.

        Args:
            counted: whether rows get numbers, rather than there being none.
        """
        return _OWN_KEY.format(" AUTO_INCREMENT" if counted else "") if self.requires_keys else ""

    @property
    def number(self) -> int:
        """The session's number in the server's process list."""
        return int(self.server_thread_id[0])

    def connect(self, sock: socket.socket | None = None) -> None:
        with awaiting(f"{self.side}: connecting" if self.side else SERVER):
            super().connect(self._tunneled() if sock is None and self.tunnel else sock)

    def _tunneled(self) -> socket.socket:
        """Return a socket that is connected to the tunnel."""
        place = entrance(self.tunnel, self.side)
        try:
            opened = socket.create_connection(place, self.connect_timeout)
        except OSError as error:
            raise pymysql.OperationalError(
                CANNOT_CONNECT, f"the tunnel is gone: {error}"
            ) from error
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.settimeout(None)
        return opened

    def _read_query_result(self, unbuffered: bool = False) -> Any:
        with awaiting(self.side or SERVER, self._reason):
            return super()._read_query_result(unbuffered)

    def _reason(self) -> str:
        """Ask the server, in another session, what this one waits for."""
        if self.snapshot:
            return ""  # it was handed over without a password
        encrypted = isinstance(self._sock, ssl.SSLSocket)
        looker = pymysql.Connection(
            host=self.host,
            port=self.port,
            unix_socket=self.unix_socket,
            user=self.user,
            password=self.password,
            ssl=self.ctx if encrypted else None,
            ssl_disabled=not encrypted,
            connect_timeout=2,
            read_timeout=2,
            defer_connect=True,
        )
        looker.connect(self._tunneled() if self.tunnel else None)
        with contextlib.closing(looker), looker.cursor() as cursor:
            cursor.execute(_STATE, [self.number])
            for state, query in cursor.fetchall():
                return f"{statement_kind(query or '')}: {state or 'running'}"
        return ""

    def _create_ssl_ctx(self, options: Mapping[str, Any]) -> ssl.SSLContext:
        if not options:
            return _unverified()
        context: ssl.SSLContext = super()._create_ssl_ctx(options)
        # PyMySQL checks the server's name only if a CA is given.
        context.check_hostname = bool(options.get("check_hostname"))
        return context

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self.cursor() as cursor:
            cursor.execute(query, tuple(values) or None)
            return list(cursor.fetchall() or ())

    def change(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Execute a statement; return how many rows it matched, not changed."""
        with self.cursor() as cursor:
            return int(cursor.execute(statement, tuple(values) or None))

    @property
    def accepts_scripts(self) -> bool:
        """Whether the session accepts several statements at once."""
        return bool(self.client_flag & self.server_capabilities & CLIENT.MULTI_STATEMENTS)

    def together(
        self, statements: Sequence[tuple[str, Sequence[Any]]], answers: list[Answer]
    ) -> None:
        """Run statements, in one round trip if possible; after an error, the rest is skipped.

        Args:
            statements: each with the values of its placeholders.
            answers: receives the answer of each statement, as far as they come.
        """
        with self.cursor() as cursor:
            texts = [cursor.mogrify(text, tuple(values) or None) for text, values in statements]
            for text in [";\n".join(texts)] if self.accepts_scripts else texts:
                cursor.execute(text)
                answers.append(Answer(cursor.rowcount, list(cursor.fetchall())))
                while cursor.nextset():
                    answers.append(Answer(cursor.rowcount, list(cursor.fetchall())))

    def rows_of_each(self, queries: Sequence[str]) -> list[list[tuple[Any, ...]] | None]:
        """Return the rows of several queries, sent together; None for one that is rejected."""
        answers: list[list[tuple[Any, ...]] | None] = []
        with self.accepting_scripts():
            most = MOST_TOGETHER if self.accepts_scripts else 1
            while len(answers) < len(queries):
                self._read_each(queries[len(answers) : len(answers) + most], answers)
        return answers

    def _read_each(
        self, queries: Sequence[str], answers: list[list[tuple[Any, ...]] | None]
    ) -> None:
        """Read answers until the server rejects a query."""
        try:
            with self.cursor() as cursor:
                cursor.execute(";\n".join(queries))
                answers.append(list(cursor.fetchall()))
                while cursor.nextset():
                    answers.append(list(cursor.fetchall()))
        except pymysql.Error:
            if not self.is_alive():
                raise
            answers.append(None)

    def is_alive(self) -> bool:
        """Whether the session still exists."""
        with contextlib.suppress(pymysql.Error):
            self.change("DO 1")
            return True
        return False

    @contextlib.contextmanager
    def accepting_scripts(self) -> Iterator[None]:
        """Accept several statements at once in the block, which must contain no user's text."""
        self.accept_scripts(True)
        try:
            yield
        finally:
            with contextlib.suppress(pymysql.Error):  # the session may have ended
                self.accept_scripts(False)

    def accept_scripts(self, accept: bool) -> None:
        if accept != self.accepts_scripts and self.server_capabilities & CLIENT.MULTI_STATEMENTS:
            self._execute_command(COMMAND.COM_SET_OPTION, _ON if accept else _OFF)
            self._read_packet()
            self.client_flag ^= CLIENT.MULTI_STATEMENTS

    def end_session(self, number: int, what: str = "CONNECTION") -> None:
        """End another session, or its query (QUERY); it is no error if it has already ended."""
        try:
            self.change(f"KILL {what} {number}")
        except pymysql.Error as error:
            if code_of(error) != NO_SUCH_THREAD:
                raise

    def abandon(self) -> None:
        """Leave at once; code that knows the URL cancels what is running."""
        with contextlib.suppress(Exception):
            self._force_close()


def connect(
    url: str,
    side: str,
    *,
    loads: bool = False,
    lock_seconds: int = LOCK_SECONDS,
    isolation: str = "READ-COMMITTED",
) -> Connection:
    """Open a session.

    Args:
        url: the URL, with the password.
        side: `source` or `target`, for error messages.
        loads: whether the session uses LOAD DATA LOCAL, and accepts several statements at once.
            Otherwise a server cannot request any data.
        lock_seconds: how long to wait for a lock on a table's definition.
        isolation: the isolation level. By default each statement sees what others have committed.

    Raises:
        TransientError, PermanentError: the connection failed.
    """
    location = URLS.parse(url)
    flags = CLIENT.FOUND_ROWS | (_LOADING if loads else 0)
    with translated(side), _readable(side):
        connection = Connection(
            host=location.host,
            port=location.port,
            unix_socket=location.options.get("unix_socket"),
            user=location.user,
            password=current_password(location.password, side).encode(),
            database=location.database or None,
            charset="utf8mb4",
            autocommit=True,
            client_flag=flags,
            connect_timeout=int(location.options.get("connect_timeout", CONNECT_SECONDS)),
            program_name="penstock",
            defer_connect=True,
            **tls_options(location),
        )
    where = location.options.get("unix_socket", f"{location.host}:{location.port}")
    connection.tunnel = location.options.get(TUNNEL, "")
    with _explained(connection.tunnel, side), translated(side, where), _installed(side, where):
        connection.side = side
        try:
            connection.connect()
            _keep_alive(connection)
            _set_up(connection, lock_seconds, isolation)
        except BaseException:
            connection.abandon()
            raise
    _check_version(connection)
    return connection


@contextlib.contextmanager
def _readable(side: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # includes TLS errors
        raise PermanentError(
            f"{side}: cannot read ssl_ca, ssl_cert or ssl_key: expected files in PEM format, "
            f"found: {error}",
            Diagnosis(side=side),
        ) from error


@contextlib.contextmanager
def _explained(tunnel: str, side: str) -> Iterator[None]:
    try:
        yield
    except PenstockError as error:
        if (more := explained(error, tunnel, side)) is error:
            raise
        raise more from error


@contextlib.contextmanager
def _installed(side: str, where: str) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # PyMySQL reports a missing package like this
        raise PermanentError(
            f"{side}: {where}: {error}; install it to log in as this user",
            Diagnosis(side=side),
        ) from error


def _keep_alive(connection: Connection) -> None:
    if connection._sock.family in (socket.AF_INET, socket.AF_INET6):
        for option, seconds in _KEEPALIVE:
            connection._sock.setsockopt(socket.IPPROTO_TCP, option, seconds)


def _set_up(connection: Connection, lock_seconds: int, isolation: str) -> None:
    """Apply all settings in one statement."""
    version = _version(connection)
    settings = session_settings(connection.system, version, isolation, lock_seconds)
    creating = {}
    if not connection.is_mariadb and connection.side == "target":
        creating = {name: "OFF" for name, since in _CREATING.items() if version >= since}
    for extra in (creating, {}) if creating else ({},):
        listed = (f"SESSION {name} = {value}" for name, value in {**settings, **extra}.items())
        try:
            connection.change(f"SET {', '.join(listed)}")
        except pymysql.Error as error:
            # A statement that fails sets nothing.
            if code_of(error) != MAY_NOT_SET or not extra:
                raise
            connection.creates_freely = False
        else:
            return


def _version(connection: Connection) -> tuple[int, ...]:
    digits = connection.server_version.removeprefix("5.5.5-").split("-")[0].split(".")
    return tuple(int(part) for part in digits[:3])


def _check_version(connection: Connection) -> None:
    """Check the server's version.

    Raises:
        PermanentError: the server is older than the versions this was tested with.
    """
    system = connection.system
    if _version(connection) < OLDEST[system]:
        text = connection.server_version.removeprefix("5.5.5-")
        connection.abandon()
        first, second = OLDEST[system]
        raise PermanentError(
            f"{connection.side}: expected {system} {first}.{second} or later, found {text}"
        )


def wait_for_locks(connection: Connection, seconds: int) -> None:
    """Set how long to wait for locks on rows and on tables in use."""
    if connection.waits == seconds:
        return
    connection.change(
        f"SET SESSION innodb_lock_wait_timeout = {seconds}, SESSION lock_wait_timeout = {seconds}"
    )
    connection.waits = seconds


def kill(url: str, side: str, number: int, *, query: bool = False) -> None:
    """End a session, or its query; it is no error if it has already ended.

    Args:
        url: the URL of the server, for a session of its own.
        side: `source` or `target`, for error messages.
        number: the session's number in the server's process list.
        query: whether to end only the running query.

    Raises:
        PermanentError: the user lacks the privilege.
    """
    looker = connect(url, side)
    try:
        with translated(side):
            looker.end_session(number, "QUERY" if query else "CONNECTION")
    finally:
        looker.abandon()
