"""The mapping of the server's errors to Penstock's.

https://dev.mysql.com/doc/mysql-errors/8.4/en/server-error-reference.html
https://mariadb.com/kb/en/mariadb-error-code-reference/
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pymysql

from penstock.backends.shared.attempts.refusals import as_planning
from penstock.errors import (
    Diagnosis,
    PenstockError,
    PermanentError,
    TooManyConnections,
    TransientError,
)
from penstock.model import values

TOO_MANY = {1040, 1203}
TRANSIENT = {
    1047,  # Galera: node not ready
    1053, 1927, 3169,  # shutdown in progress, connection or session killed
    1158, 1159, 1160, 1161,  # packets lost or late
    1180,  # error during COMMIT in a cluster
    1205, 1213,  # lock wait timeout, deadlock
    1226,  # hourly limit of queries or connections per user
    1317, 1969, 3024,  # interrupted, or over the server's time limit; not by us
    1637,  # too many transactions
    2002, 2003, 2006, 2013, 2055,  # cannot connect, server has gone away, connection lost
    3058,  # a user-level lock would be a deadlock
    3100, 3101,  # rolled back by a replication group
    4031,  # disconnected for being idle
}  # fmt: skip
# PyMySQL uses the same codes for network errors and for errors that no retry can help.
_NEVER = ("certificate", "unknown ca", "wrong version number", "ssl is required")
SYNTAX_ERROR = 1064
SIGNAL = 1644
"""The code of errors raised by triggers, with their authors' text."""
CANNOT_CONNECT = 2003
READ_ONLY_TRANSACTION = 1792
# How PyMySQL writes the name of a plugin: 'b'parsec''.
_PLUGIN = re.compile(r"'b'(\w+)''")
_LOGIN = (
    "check the user, the password, the hosts from which the user may connect, and whether the user "
    "must use TLS"
)
_PLUGINS = (
    "expected a user that logs in with mysql_native_password, caching_sha2_password, "
    "sha256_password or ed25519"
)
# sql_require_primary_key.
NEEDS_KEY = 3750
_PRIMARY = "expected a primary server that accepts writes"
_READS = "expected a query that only reads and locks no rows"
_INFILE = "set local_infile = ON on the server"
_RIGHTS = (
    "grant the user CREATE to create tables there, and CREATE TEMPORARY TABLES for --mode recreate "
    "and --mode upsert"
)
_ADVICE = {
    1044: _RIGHTS,
    1045: _LOGIN,
    1049: "create it, or name another database in the URL",
    1148: f"{_INFILE}, or grant the user the privilege to set it",
    1153: "raise max_allowed_packet on the server",
    1251: _PLUGINS,
    1290: _PRIMARY,
    1698: _LOGIN,
    READ_ONLY_TRANSACTION: _PRIMARY,
    1836: _PRIMARY,
    2059: _PLUGINS,
    3159: "add ?ssl_mode=required to the URL",
    NEEDS_KEY: "grant the user SESSION_VARIABLES_ADMIN, so that its sessions can switch "
    "sql_require_primary_key off, or switch it off on the server",
    3948: _INFILE,
    4166: _INFILE,
}
_NOT_ABOUT_ROWS = {
    *(1044, 1045, 1046, 1049, 1050, 1051, 1054, 1060, 1072, 1091, 1142, 1143, 1146, 1153, 1227),
    *(1251, 1290, 1305, 1370, 1698, 1792, 1836, 3159, NEEDS_KEY, 3948, 4166),
}
# What a constraint requires of rows, by the error for a violation.
CONSTRAINTS = {
    1062: "each key once in the table and the source",
    1216: "a parent row in the referenced table for each row",
    1452: "a parent row in the referenced table for each row",
    1526: "a partition of the table for each row",
    3819: "rows that meet the table's check constraints",
    4025: "rows that meet the table's check constraints",
}
_CA = (
    "add ?ssl_ca=FILE to the URL, with the certificate of the authority that signed the server's, "
    "or ?ssl_mode=required to verify nothing"
)


def code_of(error: pymysql.Error) -> int:
    """Return the server's error code; 0 for an error of the driver's own."""
    code = error.args[0] if error.args else 0
    return code if isinstance(code, int) else 0


def is_not_about_rows(code: int) -> bool:
    """Whether an error is about connections, privileges, names or the server itself."""
    return (
        not code or 2000 <= code < 3000 or code in _NOT_ABOUT_ROWS or code in TRANSIENT | TOO_MANY
    )


def from_driver(
    error: pymysql.Error, side: str, subject: str = "", *, parsed: bool = False
) -> PenstockError:
    """Classify a driver's error as transient or permanent, and keep the server's diagnosis.

    Args:
        error: the driver's error, with the server's code, or one of PyMySQL's own.
        side: `source` or `target`, for the message.
        subject: the table or query, if the server's message does not name it.
        parsed: whether the statement contains no values of rows.
    """
    code = code_of(error)
    words = _PLUGIN.sub("'\\1'", str(error.args[1]) if len(error.args) > 1 else str(error))
    words = words.rstrip(".")
    if not (parsed and code == SYNTAX_ERROR) and not is_not_about_rows(code):
        words = values.value(words) if code == SIGNAL else values.server_message(words)
    if code in CONSTRAINTS:
        words = f"expected {CONSTRAINTS[code]}, found: {words}"
    advice = f"; {_ADVICE[code]}" if code in _ADVICE else ""
    if code == READ_ONLY_TRANSACTION and side == "source":  # we open the source read-only
        advice = f"; {_READS}"
    elif code == CANNOT_CONNECT and "certificate verify failed" in words:
        advice = f"; {_CA}"
    message = f"{side}: {subject}: {words}{advice}" if subject else f"{side}: {words}{advice}"
    diagnosis = Diagnosis(side=side, code=str(code or ""))
    if code in TOO_MANY:
        return TooManyConnections(message, diagnosis)
    never = code in (CANNOT_CONNECT, 2013) and any(word in words.lower() for word in _NEVER)
    # Without a code the error is the driver's own, about a closed connection.
    closed = not code and isinstance(error, pymysql.err.InterfaceError | pymysql.OperationalError)
    if (code in TRANSIENT and not never) or closed:
        return TransientError(message, diagnosis)
    return PermanentError(message, diagnosis)


@contextmanager
def translated(side: str, subject: str = "", *, parsed: bool = False) -> Iterator[None]:
    """Translate a driver's errors to Penstock's; see `from_driver`.

    Args:
        side: `source` or `target`, for the message.
        subject: the table or query, if the server's message does not name it.
        parsed: whether the block sends no values of rows.
    """
    try:
        yield
    except pymysql.Error as error:
        raise from_driver(error, side, subject, parsed=parsed) from error
    except ConnectionError as error:
        raise TransientError(f"{side}: {error}", Diagnosis(side=side)) from error


@contextmanager
def planning(side: str, subject: str) -> Iterator[None]:
    """Translate the server's errors to a `PlanningError` that names the subject."""
    with as_planning(), translated(side, subject, parsed=True):
        yield
