"""What the driver's errors mean for us.

The driver tells a server's errors by their SQLSTATE:
https://learn.microsoft.com/en-us/sql/odbc/reference/appendixes/appendix-a-odbc-error-codes
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from mssql_python.exceptions import Exception as DriverError

from penstock.errors import (
    Diagnosis,
    PenstockError,
    PermanentError,
    PlanningError,
    TransientError,
)

# As the driver words the SQLSTATE, which it does not keep itself.
TRANSIENT = {
    "Disconnect error",  # 01002
    "Client unable to establish connection",  # 08001
    "Connection not open",  # 08003
    "Server rejected the connection",  # 08004
    "Connection failure during transaction",  # 08007
    "Communication link failure",  # 08S01
    "Transaction is rolled back",  # 25S03
    "Serialization failure",  # 40001: a deadlock, or a snapshot that another has changed
    "Statement completion unknown",  # 40003
    "Operation canceled",  # HY008
    "Timeout expired",  # HYT00
    "Connection timeout expired",  # HYT01
}
# What no other try can help, though no connection came about. Words of the driver's.
_NEVER = re.compile(
    r"certificate|ssl provider: (?!.*timeout)|login failed|encryption not supp", re.I
)
_LOCK = re.compile(r"lock request time ?out", re.I)
_PREFIX = re.compile(r"^(?:\[[^]]*\])+\s*")
_TLS = (
    "; pass ?trust_server_certificate=yes to verify nothing, or ?server_certificate=FILE with the "
    "server's own"
)
_LOGIN = "; check the user, the password and the database"


def words_of(error: DriverError) -> str:
    """What the server or the driver said, without who said it."""
    return _PREFIX.sub("", error.ddbc_error or error.driver_error).strip().rstrip(".")


def from_driver(error: DriverError, side: str, subject: str = "") -> PenstockError:
    """Class a driver's error as transient or permanent, and keep what the server said.

    Parameters:
        subject: what was looked at, where the server's words do not say.
    """
    words, state = words_of(error), error.driver_error
    lowered = words.lower()
    advice = ""
    if "certificate" in lowered:
        advice = _TLS
    elif "login failed" in lowered:
        advice = _LOGIN
    message = f"{side}: {subject}: {words}{advice}" if subject else f"{side}: {words}{advice}"
    diagnosis = Diagnosis(side=side)
    transient = state in TRANSIENT or _LOCK.search(words) is not None
    if transient and not _NEVER.search(words):
        return TransientError(message, diagnosis)
    return PermanentError(message, diagnosis)


@contextmanager
def translated(side: str, subject: str = "") -> Iterator[None]:
    """Turn a driver's errors into ours."""
    try:
        yield
    except DriverError as error:
        raise from_driver(error, side, subject) from error


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
