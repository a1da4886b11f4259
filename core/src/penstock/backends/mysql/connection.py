"""Sessions: their settings, and how they are cancelled."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pymysql
from pymysql.constants import CLIENT, COMMAND

from penstock.backends.mysql.errors import code_of, translated
from penstock.backends.mysql.location import URLS, tls_options
from penstock.errors import Diagnosis, PermanentError

NO_SUCH_THREAD = 1094
OLDEST = {"MySQL": (8, 0), "MariaDB": (10, 6)}
# MariaDB's first version that has a system variable by MySQL's name.
_RENAMED = (11, 1)
CONNECT_SECONDS = 10
# Values that do not fit are errors; a zero in an automatic column stays one.
SQL_MODE = "STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION"
_SETTINGS = (
    f"sql_mode = '{SQL_MODE}'",
    "time_zone = '+00:00'",
    # The other side may be slower than the server's patience with its clients.
    "net_write_timeout = 86400",
    "net_read_timeout = 86400",
    "wait_timeout = 86400",
)
# https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_set_option.html
_ON, _OFF = b"\0\0", b"\1\0"
# Statements that are sent at once.
MOST_TOGETHER = 100
_LOADING = CLIENT.LOCAL_FILES | CLIENT.MULTI_STATEMENTS
# A note, even, tells of lost digits.
_NOTED = ("sql_notes = 1",)
# Seconds for a lock on a table's definition: a server's own limit is a day, or a year.
LOCK_SECONDS = 600
# Seconds. Find a peer that is gone without a word in two minutes, not the system's two hours.
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 6))


@cache
def _unchecked() -> ssl.SSLContext:
    """For all sessions whose server is not verified: making one takes 20 ms of CPU, since it reads
    the system's certificates."""
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    found.check_hostname = False
    found.verify_mode = ssl.CERT_NONE
    return found


@dataclass(frozen=True, slots=True)
class Answer:
    """Of a statement."""

    count: int
    """How many rows it has found, or inserted."""
    rows: list[tuple[Any, ...]]


class Connection(pymysql.Connection):  # type: ignore[misc] # PyMySQL has no types
    """A session. What it is asked raises the driver's errors."""

    side = ""
    waits: int | None = None
    """See `wait_for_locks`."""

    @property
    def is_mariadb(self) -> bool:
        return "mariadb" in self.server_version.lower()

    @property
    def number(self) -> int:
        """The session's, by which the server's list has it."""
        return int(self.server_thread_id[0])

    def _create_ssl_ctx(self, given: Mapping[str, Any]) -> ssl.SSLContext:
        if not given:
            return _unchecked()
        found: ssl.SSLContext = super()._create_ssl_ctx(given)
        # PyMySQL looks at the server's name only where a CA is given.
        found.check_hostname = bool(given.get("check_hostname"))
        return found

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self.cursor() as cursor:
            cursor.execute(query, tuple(values) or None)
            return list(cursor.fetchall() or ())

    def change(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Returns: how many rows the statement has found (not: changed)."""
        with self.cursor() as cursor:
            return int(cursor.execute(statement, tuple(values) or None))

    @property
    def takes_many(self) -> bool:
        """Whether it takes several statements at once."""
        return bool(self.client_flag & self.server_capabilities & CLIENT.MULTI_STATEMENTS)

    def together(
        self, statements: Sequence[tuple[str, Sequence[Any]]], answers: list[Answer]
    ) -> None:
        """Run statements, in one round trip where that may be; after an error none that follows.

        Parameters:
            answers: is filled with the answer of each, as far as they come.
        """
        with self.cursor() as cursor:
            texts = [cursor.mogrify(text, tuple(values) or None) for text, values in statements]
            for text in [";\n".join(texts)] if self.takes_many else texts:
                cursor.execute(text)
                answers.append(Answer(cursor.rowcount, list(cursor.fetchall())))
                while cursor.nextset():
                    answers.append(Answer(cursor.rowcount, list(cursor.fetchall())))

    def rows_of_each(self, queries: Sequence[str]) -> list[list[tuple[Any, ...]] | None]:
        """The rows of each of several queries, sent together; None where the server refuses it."""
        found: list[list[tuple[Any, ...]] | None] = []
        with self.taking_many():
            most = MOST_TOGETHER if self.takes_many else 1
            while len(found) < len(queries):
                self._read_each(queries[len(found) : len(found) + most], found)
        return found

    def _read_each(self, queries: Sequence[str], found: list[list[tuple[Any, ...]] | None]) -> None:
        """As far as the server comes: the first one that it refuses is the last."""
        try:
            with self.cursor() as cursor:
                cursor.execute(";\n".join(queries))
                found.append(list(cursor.fetchall()))
                while cursor.nextset():
                    found.append(list(cursor.fetchall()))
        except pymysql.Error:
            if not self.answers():
                raise
            found.append(None)

    def answers(self) -> bool:
        """Whether the session has not ended."""
        with contextlib.suppress(pymysql.Error):
            self.change("DO 1")
            return True
        return False

    @contextlib.contextmanager
    def taking_many(self) -> Iterator[None]:
        """The server takes several statements at once: never a text that somebody wrote."""
        self.let_many(True)
        try:
            yield
        finally:
            with contextlib.suppress(pymysql.Error):  # of a session that has ended
                self.let_many(False)

    def let_many(self, wanted: bool) -> None:
        if wanted != self.takes_many and self.server_capabilities & CLIENT.MULTI_STATEMENTS:
            self._execute_command(COMMAND.COM_SET_OPTION, _ON if wanted else _OFF)
            self._read_packet()
            self.client_flag ^= CLIENT.MULTI_STATEMENTS

    def end_session(self, number: int, what: str = "CONNECTION") -> None:
        """End another session, or what it runs (QUERY); one that is gone already is no error."""
        try:
            self.change(f"KILL {what} {number}")
        except pymysql.Error as error:
            if code_of(error) != NO_SUCH_THREAD:
                raise

    def abandon(self) -> None:
        """Leave at once; what runs is cancelled by whoever knows the URL."""
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
    """
    Parameters:
        side: `source` or `target`, for errors.
        loads: by LOAD DATA LOCAL, and takes several statements at once. Else a server cannot ask
            for any data.
        lock_seconds: how long to wait for a lock on a table's definition.
        isolation: of its transactions. By default each statement sees what others have committed.

    Raises:
        TransientError, PermanentError: no connection.
    """
    found = URLS.parse(url)
    flags = CLIENT.FOUND_ROWS | (_LOADING if loads else 0)
    with translated(side), _readable(side):
        connection = Connection(
            host=found.host,
            port=found.port,
            unix_socket=found.options.get("unix_socket"),
            user=found.user,
            password=found.password.encode(),
            database=found.database or None,
            charset="utf8mb4",
            autocommit=True,
            client_flag=flags,
            connect_timeout=int(found.options.get("connect_timeout", CONNECT_SECONDS)),
            program_name="penstock",
            defer_connect=True,
            **tls_options(found),
        )
    where = found.options.get("unix_socket", f"{found.host}:{found.port}")
    with translated(side, where), _installed(side, where):
        connection.side = side
        try:
            connection.connect()
            _keep_alive(connection)
            _set_up(connection, lock_seconds, isolation, _NOTED if loads else ())
        except BaseException:
            connection.abandon()
            raise
    _check_version(connection)
    return connection


@contextlib.contextmanager
def _readable(side: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # TLS's own errors, too
        raise PermanentError(
            f"{side}: ssl_ca, ssl_cert or ssl_key cannot be read: expected files in PEM format, "
            f"found: {error}",
            Diagnosis(side=side),
        ) from error


@contextlib.contextmanager
def _installed(side: str, where: str) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # as PyMySQL says that a package is missing
        raise PermanentError(
            f"{side}: {where}: {error}; to log in as this user, install it",
            Diagnosis(side=side),
        ) from error


def _keep_alive(connection: Connection) -> None:
    if connection._sock.family in (socket.AF_INET, socket.AF_INET6):
        for option, seconds in _KEEPALIVE:
            connection._sock.setsockopt(socket.IPPROTO_TCP, option, seconds)


def _set_up(connection: Connection, lock_seconds: int, isolation: str, more: Sequence[str]) -> None:
    """In one statement."""
    if connection.is_mariadb:
        renamed = _version(connection) >= _RENAMED
        own: tuple[str, ...] = ("max_statement_time = 0",)
    else:
        renamed = True
        own = ("max_execution_time = 0", "information_schema_stats_expiry = 0")
    named = "transaction_isolation" if renamed else "tx_isolation"
    besides = (f"lock_wait_timeout = {lock_seconds}", f"{named} = '{isolation}'")
    settings = (*_SETTINGS, *besides, *own, *more)
    connection.change(f"SET {', '.join(f'SESSION {setting}' for setting in settings)}")


def _version(connection: Connection) -> tuple[int, ...]:
    digits = connection.server_version.removeprefix("5.5.5-").split("-")[0].split(".")
    return tuple(int(part) for part in digits[:2])


def _check_version(connection: Connection) -> None:
    """
    Raises:
        PermanentError: the server is older than what this was tested with.
    """
    system = "MariaDB" if connection.is_mariadb else "MySQL"
    if _version(connection) < OLDEST[system]:
        text = connection.server_version.removeprefix("5.5.5-")
        connection.abandon()
        first, second = OLDEST[system]
        raise PermanentError(
            f"{connection.side}: expected {system} {first}.{second} or later; found {text}"
        )


def wait_for_locks(connection: Connection, seconds: int) -> None:
    """Of rows, and of tables that somebody reads while their definition is to change."""
    if connection.waits == seconds:
        return
    connection.change(
        f"SET SESSION innodb_lock_wait_timeout = {seconds}, SESSION lock_wait_timeout = {seconds}"
    )
    connection.waits = seconds


def kill(url: str, side: str, number: int, *, query: bool = False) -> None:
    """End a session, or what it runs; one that is gone already is no error.

    Raises:
        PermanentError: this user may not.
    """
    looker = connect(url, side)
    try:
        with translated(side):
            looker.end_session(number, "QUERY" if query else "CONNECTION")
    finally:
        looker.abandon()
