"""What a driver's errors mean for us.

Drivers tell a server's errors by their SQLSTATE:
https://learn.microsoft.com/en-us/sql/odbc/reference/appendixes/appendix-a-odbc-error-codes
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.backends.shared.attempts.refusals import as_planning
from penstock.errors import (
    Diagnosis,
    PenstockError,
    PermanentError,
    TransientError,
)
from penstock.model import values

# SQLSTATEs, in the order of that page.
TRANSIENT = {
    "01002",  # disconnect error
    "08001",  # client unable to establish connection
    "08003",  # connection not open
    "08004",  # server rejected the connection
    "08007",  # connection failure during transaction
    "08S01",  # communication link failure
    "25S03",  # transaction is rolled back
    "40001",  # serialization failure: a deadlock, or a snapshot that another has changed
    "40003",  # statement completion unknown
    "HY008",  # operation canceled
    "HYT00",  # timeout expired
    "HYT01",  # connection timeout expired
}
# Classes of connections and of names.
_NOT_ABOUT_ROWS = {"", "01", "08", "28", "HY", "IM", "3D", "3F"}
GENERAL = "42000"  # syntax error or access violation, and all that has no other one
_SERVERS_OWN = re.compile(
    r"incorrect syntax|invalid (object|column|use)|permission was denied|lock request time ?out"
    r"|cannot (open|find|drop|create|alter|truncate|insert|update)|(transaction log|space) for"
    r"|would be truncated|conversion failed|arithmetic overflow|error converting|out-of-range"
    r"|is already an object|\(process id|snapshot isolation|login failed|must declare"
    r"|does not exist|not supported|expected",
    re.I,
)
INTEGRITY = "23000"  # integrity constraint violation
# What no other try can help, though no connection came about. Words of drivers.
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


class DriverError(Exception):
    """
    Parameters:
        state: an SQLSTATE, empty where the driver has told none.
        words: what the server or the driver has said; who said it is cut off.
    """

    def __init__(self, state: str, words: str) -> None:
        super().__init__(state, words)
        self.state = state
        self.words = _PREFIX.sub("", words).strip().rstrip(".")


def from_driver(error: DriverError, side: str, subject: str = "") -> PenstockError:
    """Class a driver's error as transient or permanent, and keep what the server said.

    Parameters:
        subject: what was looked at, where the server's words do not say.
    """
    words, lowered = error.words, error.words.lower()
    if error.state not in TRANSIENT and error.state[:2] not in _NOT_ABOUT_ROWS:
        # Else they may be a trigger's own, of THROW or RAISERROR.
        known = error.state != GENERAL or _SERVERS_OWN.search(words)
        words = values.said(words) if known else values.value(words)
    advice = ""
    if "certificate" in lowered:
        advice = _TLS
    elif "login failed" in lowered:
        advice = _LOGIN
    message = f"{side}: {subject}: {words}{advice}" if subject else f"{side}: {words}{advice}"
    diagnosis = Diagnosis(side=side)
    transient = error.state in TRANSIENT or _LOCK.search(words) is not None
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
    with as_planning(), translated(side, subject):
        yield
