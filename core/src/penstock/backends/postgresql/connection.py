"""Connecting: URLs, session settings, cancelling."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import conninfo, sql
from psycopg.pq import TransactionStatus

from penstock.backends.postgresql.errors import from_connecting
from penstock.errors import UsageError

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


def resolve(url: str, environ: Mapping[str, str], flag: str) -> str:
    """Check a URL and fold PGPASSWORD into it, so that no child needs it in its environment.

    Raises:
        UsageError: libpq cannot read the URL. Its own words are shown only where they cannot
            hold a part of the password.
    """
    if re.search(r"^[^/]*//[^/?]*/[^?]*@", url) or url.count("@") > 1:
        raise UsageError(
            f"{flag}: malformed URL: expected postgresql://user:password@host:port/database, "
            "found an unescaped '/' or '@' before the host; "
            "write %2F, %40, %3A, %23 or %3F for / @ : # ? in a password"
        )
    try:
        parts = conninfo.conninfo_to_dict(url)
    except psycopg.Error as error:
        words = "" if "@" in url else f": {str(error).strip()}"
        raise UsageError(f"{flag}: malformed URL: expected one that libpq accepts{words}") from None
    port = str(parts.get("port", "") or "")
    if not all(re.fullmatch(r"\d*", part) for part in port.split(",")):
        raise UsageError(f"{flag}: malformed URL: expected a number as port")
    if "password" not in parts and environ.get("PGPASSWORD"):
        parts["password"] = environ["PGPASSWORD"]
    return conninfo.make_conninfo("", **parts)


def secrets(url: str) -> tuple[str, ...]:
    """The parts of a connection string that libpq itself hides from display."""
    given = conninfo.conninfo_to_dict(url)
    hidden = ("password", "sslpassword", "oauth_client_secret")
    return tuple(str(given[name]) for name in hidden if given.get(name))


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
        connection.set_up(_settings(connection.info.server_version, side))
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

    _each_time = ""

    def set_up(self, settings: Mapping[str, str]) -> None:
        """Set them for the session, where it is one: a pooler shows process ids of its own."""
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

    def begin(self, how: str = "") -> None:
        """Begin a transaction by hand, in one round trip."""
        super().execute(f"BEGIN {how}{self._each_time}".encode())

    def execute(self, *args: Any, **options: Any) -> psycopg.Cursor[tuple[Any, ...]]:
        if self._each_time and self.info.transaction_status == TransactionStatus.IDLE:
            with self.transaction():
                return super().execute(*args, **options)
        return super().execute(*args, **options)

    @contextmanager
    def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> Iterator[psycopg.Transaction]:
        outermost = self.info.transaction_status == TransactionStatus.IDLE
        with super().transaction(savepoint_name, force_rollback) as transaction:
            if outermost and self._each_time:
                super().execute(self._each_time.removeprefix("; ").encode())
            yield transaction


def abandon(connection: Connection) -> None:
    """Cancel what the session runs and close it. Never raises, never takes long."""
    with contextlib.suppress(psycopg.Error, OSError):
        if connection.info.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
            connection.cancel_safe(timeout=CANCEL_TIMEOUT)
    with contextlib.suppress(psycopg.Error, OSError):
        connection.close()
