"""Connecting: URLs, session settings, cancelling."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import psycopg
from psycopg import conninfo, pq, sql
from psycopg.pq import TransactionStatus

from penstock.backends.postgresql.errors import from_connecting, from_driver
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.backends.postgresql.attempt.older_sessions import Guard

_FORM = "postgresql://user:password@host:port/database"
_ESCAPES = "write %2F, %40, %3A, %23, %3F, %25, %26, %5B or %5D for / @ : # ? % & [ ] in a password"
MAX_PORT = 65535
_PARAMETER = re.compile(r"[a-z_]+")
_SECRET_NAME = re.compile(r"pass|secret|token|key", re.I)
_HIDDEN = ("password", "sslpassword", "oauth_client_secret")
CONNECT_TIMEOUT = 30
CANCEL_TIMEOUT = 1.5

# The text of a value must mean the same on both servers, in the plan and years later; a condition
# must select the same rows on both. Timeouts of the role are for its other work, as in pg_dump.
# With row_security off a policy that would hide rows is an error, not a silent gap.
SETTINGS = {
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "extra_float_digits": "3",
    "timezone": "UTC",
    "client_encoding": "UTF8",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "array_nulls": "on",
    "xmloption": "content",
    "row_security": "off",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    # When our machine is gone without a word, the server lets go of locks, of the snapshot and of
    # the sign that a run is executed, in two minutes instead of two hours.
    "tcp_keepalives_idle": "60",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "6",
}
SETTINGS_14 = {
    "idle_session_timeout": "0",
    # So that a server notices a killed worker while it computes, not only when it sends.
    "client_connection_check_interval": "2s",
}
SETTINGS_17 = {"transaction_timeout": "0"}
# A query that somebody wrote, and what it calls, shall only read.
SETTINGS_SOURCE = {"default_transaction_read_only": "on"}
# Where a transaction sets its own.
SET_IN_TRANSACTION = {"default_transaction_read_only": "transaction_read_only"}
# These say what a session without a transaction does: there the pooler's own rules hold.
SET_OUTSIDE = ("idle_session_timeout",)
# Find a peer that is gone without a word in two minutes, not the system's two hours.
KEEPALIVES = {
    "keepalives_idle": 60,
    "keepalives_interval": 10,
    "keepalives_count": 6,
    "tcp_user_timeout": 120_000,
}


def parts_of(url: str, flag: str) -> dict[str, Any]:
    """What libpq makes of a URL.

    Raises:
        UsageError: it cannot read the URL, or could not connect with it anywhere. Nothing of the
            URL is shown, nor what libpq says of it: any part may be one of a password.
    """
    if re.search(r"^[^/]*//[^/?]*/[^?]*@", url) or url.count("@") > 1:
        raise UsageError(
            f"{flag}: malformed URL: expected {_FORM}, found an unescaped '/' or '@' before the "
            f"host; {_ESCAPES}"
        )
    try:
        parts = conninfo.conninfo_to_dict(url)
        conninfo.make_conninfo("", **parts)
    except (psycopg.Error, ValueError):
        unknown = _unknown_parameters(url)
        found = (
            f"{', '.join(map(repr, unknown))}, which libpq does not know as a parameter"
            if unknown
            else f"one that libpq cannot read: a %, [ or & that stands for itself, for instance; "
            f"{_ESCAPES}"
        )
        raise UsageError(f"{flag}: malformed URL: expected {_FORM}, found {found}") from None
    for port in str(parts.get("port", "") or "").split(","):
        if port and not (re.fullmatch(r"[0-9]+", port) and 0 < int(port[:6]) <= MAX_PORT):
            raise UsageError(
                f"{flag}: malformed URL: expected a number from 1 to {MAX_PORT} as port"
            )
    return parts


def _unknown_parameters(url: str) -> list[str]:
    """Names that libpq does not know, but none that may be the rest of a password with a &."""
    head, _, query = url.partition("?")
    _, at, _ = head.partition("//")[2].partition("/")[0].rpartition("@")
    if "@" in query or (":" in head.partition("//")[2] and not at):
        return []  # a password may end where this query begins
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()} | {"ssl"}
    names: list[str] = []
    for name, _ in parse_qsl(query, keep_blank_values=True):
        if not _PARAMETER.fullmatch(name) or _SECRET_NAME.search(name):
            break
        names.append(name)
    return [name for name in names if name not in known]


def resolve(url: str, environ: Mapping[str, str], flag: str) -> str:
    """Check a URL and fold PGPASSWORD into it, so that no child needs it in its environment.

    Raises:
        UsageError: see `parts_of`.
    """
    parts = parts_of(url, flag)
    if "password" not in parts and environ.get("PGPASSWORD"):
        parts["password"] = environ["PGPASSWORD"]
    return conninfo.make_conninfo("", **parts)


def secrets(url: str) -> tuple[str, ...]:
    """The parts of a connection string that libpq itself hides from display."""
    given = conninfo.conninfo_to_dict(url)
    return tuple(str(given[name]) for name in _HIDDEN if given.get(name))


def connect(url: str, side: str, application_name: str) -> Connection:
    """Open a session with settings under which both servers write and compare values alike.

    Autocommit: transactions are begun by hand, where they are meant.

    Raises:
        TransientError: not reachable now. TooManyConnections: no connection left.
        PermanentError: refused.
    """
    given = conninfo.conninfo_to_dict(url)
    added: dict[str, Any] = {"application_name": application_name}
    added |= {name: value for name, value in KEEPALIVES.items() if name not in given}
    if "connect_timeout" not in given:
        added["connect_timeout"] = CONNECT_TIMEOUT
    try:
        connection = Connection.connect(url, autocommit=True, prepare_threshold=None, **added)
        try:
            connection.set_up(_settings(connection.info.server_version, side))
        except BaseException:
            connection.close()
            raise
    except psycopg.Error as error:
        raise from_connecting(error, side) from error
    return connection


def _settings(version: int, side: str) -> dict[str, str]:
    settings = dict(SETTINGS)
    if version >= 140000:
        settings |= SETTINGS_14
    if version >= 170000:
        settings |= SETTINGS_17
    if side == "source":
        settings |= SETTINGS_SOURCE
    return settings


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that keeps its settings behind a pooler too.

    A pooler may give each transaction another of its server's sessions, so there every
    transaction sets them anew, for itself alone.
    """

    side = ""
    """Where it is said, a lost connection is a `TransientError` whatever is asked of it."""
    guard: Guard | None = None
    """Watches the statements that are executed from now on."""
    _set: Mapping[str, str]
    _each_time = ""
    _pid = 0

    @property
    def server_pid(self) -> int:
        """Of the server's session: a pooler's is that of the transaction."""
        return self._pid or self.info.backend_pid

    def rename(self, application_name: str) -> None:
        """Show the server's monitoring another name."""
        self.set_up({**self._set, "application_name": application_name})

    def set_up(self, settings: Mapping[str, str]) -> None:
        """Set them for the session, where it is one: a pooler shows process ids of its own."""
        self._set = settings
        own = self.execute(
            "SELECT pg_catalog.set_config(name, value, false)"
            " FROM unnest(%s::text[], %s::text[]) AS s (name, value)"
            " WHERE pg_catalog.pg_backend_pid() = %s",
            [list(settings), list(settings.values()), self.info.backend_pid],
        )
        if own.rowcount == 0:
            self._each_time = "".join(
                f"; SET LOCAL {SET_IN_TRANSACTION.get(name, name)} = "
                + sql.Literal(value).as_string(self)
                for name, value in settings.items()
                if name not in SET_OUTSIDE
            )

    @property
    def pooled(self) -> bool:
        """Whether a pooler lends its server's sessions: then locks must end with a transaction."""
        return bool(self._each_time)

    def begin(self, how: str = "") -> None:
        """Begin a transaction by hand, in one round trip."""
        super().execute(f"BEGIN {how}{self._each_time}".encode())
        self._note_pid()

    def execute(self, *args: Any, **options: Any) -> psycopg.Cursor[tuple[Any, ...]]:
        if self._each_time and self.info.transaction_status == TransactionStatus.IDLE:
            with self.transaction():
                return self._execute(*args, **options)
        return self._execute(*args, **options)

    def _execute(self, *args: Any, **options: Any) -> psycopg.Cursor[tuple[Any, ...]]:
        with self._translated_loss():
            if self.guard is None:
                return super().execute(*args, **options)
            with self.guard.watching(self):
                return super().execute(*args, **options)

    @contextmanager
    def _translated_loss(self) -> Iterator[None]:
        """What a lost connection means does not depend on what was asked when it was lost."""
        try:
            yield
        except psycopg.OperationalError as error:
            if not (self.side and self.closed):
                raise
            raise from_driver(error, self.side) from error

    @contextmanager
    def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> Iterator[psycopg.Transaction]:
        outermost = self.info.transaction_status == TransactionStatus.IDLE
        with (
            self._translated_loss(),
            super().transaction(savepoint_name, force_rollback) as transaction,
        ):
            if outermost and self._each_time:
                super().execute(self._each_time.removeprefix("; ").encode())
                self._note_pid()
            yield transaction

    def _note_pid(self) -> None:
        """Only where it is needed: nothing may be asked before a snapshot is imported."""
        if self._each_time and self.guard is not None:
            ((self._pid,),) = super().execute("SELECT pg_catalog.pg_backend_pid()").fetchall()


def abandon(connection: Connection) -> None:
    """Cancel what the session runs and close it. Never raises, never takes long."""
    with contextlib.suppress(psycopg.Error, OSError):
        if connection.info.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
            connection.cancel_safe(timeout=CANCEL_TIMEOUT)
    with contextlib.suppress(psycopg.Error, OSError):
        connection.close()
