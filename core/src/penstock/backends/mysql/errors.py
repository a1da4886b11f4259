"""What the server's errors mean for us.

https://dev.mysql.com/doc/mysql-errors/8.4/en/server-error-reference.html
https://mariadb.com/kb/en/mariadb-error-code-reference/
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pymysql

from penstock.errors import (
    Diagnosis,
    PenstockError,
    PermanentError,
    PlanningError,
    TooManyConnections,
    TransientError,
)

TOO_MANY = {1040, 1203}
TRANSIENT = {
    1047,  # Galera: node not ready
    1053, 1927, 3169,  # shutdown in progress, connection or session killed
    1158, 1159, 1160, 1161,  # packets lost, or too late
    1180,  # error during COMMIT: of a cluster
    1205, 1213,  # lock wait timeout, deadlock
    1226,  # more queries or connections than the user may have in an hour
    1317, 1969, 3024,  # interrupted, or over the server's time limit: not by us
    1637,  # too many transactions
    2002, 2003, 2006, 2013, 2055,  # cannot connect, server has gone away, connection lost
    3058,  # a user level lock that would be a deadlock
    3100, 3101,  # a replication group has rolled back
    4031,  # disconnected for being idle
}  # fmt: skip
# PyMySQL wraps what the network says and what cannot be helped in the same codes.
_NEVER = ("certificate", "unknown ca", "wrong version number", "ssl is required")
NO_FUNCTION = 1305
# MySQL 9.6 and later. https://dev.mysql.com/doc/refman/9.6/en/encryption-functions.html
_MD5 = (
    "checksums need MD5: INSTALL COMPONENT 'file://component_classic_hashing' on the server, or "
    "pass --verify counts"
)
_ADVICE = {
    1045: "check the user and the password, and from which hosts the user may connect",
    1148: "set local_infile = ON on the server, or give the user the right to change it",
    1153: "raise max_allowed_packet on the server",
    1251: "expected mysql_native_password, caching_sha2_password or sha256_password",
    1290: "expected a primary server that can be written to",
    1836: "expected a primary server that can be written to",
    1792: "expected a primary server that can be written to",
    2059: "expected mysql_native_password, caching_sha2_password or sha256_password",
    3159: "add ?ssl_mode=required to the URL",
    3948: "set local_infile = ON on the server",
    4166: "set local_infile = ON on the server",
}


def code_of(error: pymysql.Error) -> int:
    code = error.args[0] if error.args else 0
    return code if isinstance(code, int) else 0


def from_driver(error: pymysql.Error, side: str, subject: str = "") -> PenstockError:
    """Class a driver's error as transient or permanent, and keep what the server said.

    Parameters:
        subject: what was looked at, where the server's words do not say.
    """
    code = code_of(error)
    words = str(error.args[1]) if len(error.args) > 1 else str(error)
    advice = f"; {_ADVICE[code]}" if code in _ADVICE else ""
    if code == NO_FUNCTION and "md5" in words.lower():
        advice = f"; {_MD5}"
    message = f"{side}: {subject}: {words}{advice}" if subject else f"{side}: {words}{advice}"
    diagnosis = Diagnosis(side=side, code=str(code or ""))
    if code in TOO_MANY:
        return TooManyConnections(message, diagnosis)
    never = code in (2003, 2013) and any(word in words.lower() for word in _NEVER)
    # Without a code it is the driver's own: of a connection that is closed.
    closed = not code and isinstance(error, pymysql.err.InterfaceError | pymysql.OperationalError)
    if (code in TRANSIENT and not never) or closed:
        return TransientError(message, diagnosis)
    return PermanentError(message, diagnosis)


@contextmanager
def translated(side: str, subject: str = "") -> Iterator[None]:
    """Turn a driver's errors into ours."""
    try:
        yield
    except pymysql.Error as error:
        raise from_driver(error, side, subject) from error
    except ConnectionError as error:
        raise TransientError(f"{side}: {error}", Diagnosis(side=side)) from error


@contextmanager
def planning(side: str, subject: str) -> Iterator[None]:
    """Turn a server's refusal into a `PlanningError` that names the subject."""
    try:
        with translated(side, subject):
            yield
    except PermanentError as error:
        if type(error) is not PermanentError:
            raise
        raise PlanningError(error.message, error.diagnosis) from error.__cause__
