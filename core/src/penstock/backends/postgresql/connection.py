"""Connecting: URLs, session settings, cancelling."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import conninfo

from penstock.backends.postgresql.errors import from_connecting
from penstock.errors import UsageError

Connection = psycopg.Connection[tuple[Any, ...]]

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
        connection = psycopg.connect(url, autocommit=True, prepare_threshold=None, **added)
        settings = dict(SETTINGS)
        if connection.info.server_version >= 140000:
            settings |= SETTINGS_14
        if connection.info.server_version >= 170000:
            settings |= SETTINGS_17
        calls = ", ".join(["pg_catalog.set_config(%s, %s, false)"] * len(settings))
        connection.execute(
            f"SELECT {calls}",
            [word for setting in settings.items() for word in setting],
        )
    except psycopg.Error as error:
        raise from_connecting(error, side) from error
    return connection


def abandon(connection: Connection) -> None:
    """Cancel what the session runs and close it. Never raises, never takes long."""
    with contextlib.suppress(psycopg.Error, OSError):
        if connection.info.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
            connection.cancel_safe(timeout=CANCEL_TIMEOUT)
    with contextlib.suppress(psycopg.Error, OSError):
        connection.close()
