"""How a driver's errors map to Penstock's.

Drivers identify a server's errors by their SQLSTATE:
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
from penstock.model.awaited import awaiting

# SQLSTATEs, in the order of that page.
TRANSIENT = {
    "01002",  # disconnect error
    "08001",  # client unable to establish connection
    "08003",  # connection not open
    "08004",  # server rejected the connection
    "08007",  # connection failure during transaction
    "08S01",  # communication link failure
    "25S03",  # transaction is rolled back
    "40001",  # serialization failure: a deadlock, or a row changed since the snapshot
    "40003",  # statement completion unknown
    "HY008",  # operation canceled
    "HYT00",  # timeout expired
    "HYT01",  # connection timeout expired
}
# Classes for connections and for names.
_NOT_ABOUT_ROWS = {"", "01", "08", "28", "HY", "IM", "3D", "3F"}
GENERAL = "42000"  # syntax error or access violation, and everything without a state of its own
_SERVERS_OWN = re.compile(
    r"incorrect syntax|invalid (object|column|use)|permission was denied|lock request time ?out"
    r"|cannot (open|find|drop|create|alter|truncate|insert|update)|(transaction log|space) for"
    r"|would be truncated|conversion failed|arithmetic overflow|error converting|out-of-range"
    r"|is already an object|\(process id|snapshot isolation|login failed|must declare"
    r"|does not exist|not supported|expected",
    re.I,
)
INTEGRITY = "23000"  # integrity constraint violation
# Connection errors that no retry can help, by the drivers' messages.
_NEVER = re.compile(
    r"certificate|ssl provider: (?!.*timeout)|login failed|encryption not supp", re.I
)
_LOCK = re.compile(r"lock request time ?out", re.I)
_PREFIX = re.compile(r"^(?:\[[^]]*\])+\s*")
_TLS = (
    "; add ?server_certificate=FILE with the server's certificate to the URL, or "
    "?trust_server_certificate=yes to skip the verification"
)
_LOGIN = "; check the user, password and database"


class DriverError(Exception):
    """An error of a driver.

    Args:
        state: the SQLSTATE; empty if the driver reports none.
        words: the message from the server or driver, without its origin.
    """

    def __init__(self, state: str, words: str) -> None:
        super().__init__(state, words)
        self.state = state
        self.words = _PREFIX.sub("", words).strip().rstrip(".")


def from_driver(error: DriverError, side: str, subject: str = "") -> PenstockError:
    """Classify a driver's error as transient or permanent, and keep the server's diagnosis.

    Args:
        error: the driver's error.
        side: `source` or `target`.
        subject: the table or query, if the server's message does not name it.
    """
    words, lowered = error.words, error.words.lower()
    if error.state not in TRANSIENT and error.state[:2] not in _NOT_ABOUT_ROWS:
        # Otherwise the message may come from a trigger's THROW or RAISERROR.
        is_from_server = error.state != GENERAL or _SERVERS_OWN.search(words)
        words = values.server_message(words) if is_from_server else values.value(words)
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
    """Translate a driver's errors to Penstock's."""
    try:
        with awaiting(f"{side}: {subject}" if subject else side):
            yield
    except DriverError as error:
        raise from_driver(error, side, subject) from error


@contextmanager
def planning(side: str, subject: str) -> Iterator[None]:
    """Translate the server's errors to a `PlanningError` that names the subject."""
    with as_planning(), translated(side, subject):
        yield
