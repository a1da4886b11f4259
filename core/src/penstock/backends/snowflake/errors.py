"""How the driver's errors map to Penstock's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from snowflake.connector.errors import Error

from penstock.errors import Diagnosis, PenstockError, PermanentError, SnapshotLost, TransientError
from penstock.model import values
from penstock.model.awaited import awaiting

# Error numbers of the driver's network, results and HTTP code, and of the server: a canceled
# statement, a lock timeout, a deadlock, a session that has ended.
_DRIVER = (250000, 300000)
TRANSIENT = {604, 625, 90232, 390104, 390111, 390112, 390114, 390195}
NO_TRAVEL = {707, 90219}
_NEVER = re.compile(
    r"incorrect|invalid|not allowed|does not exist|locked|disabled|expired|403|404|certificate",
    re.I,
)
# SQLSTATE classes for data, and for statements in general.
_OF_ROWS = {"22", "23", "44", "P0", "XX", ""}
_PREFIX = re.compile(r"^\d{6}(?: \(\w{5}\))?: (?:[0-9a-f-]{36}: )?")
_ADVICE = {
    606: "add ?warehouse=NAME to the URL, or set a default warehouse for the user",
    3001: "the role lacks this privilege; add ?role=NAME to the URL, or grant the privilege",
}


def from_driver(error: Error, side: str, subject: str = "") -> PenstockError:
    """Classify a driver's error as transient or permanent, and keep the server's diagnosis.

    Args:
        error: the driver's error.
        side: `source` or `target`.
        subject: the table or query, if the server's message does not name it.
    """
    code = error.errno or 0
    words = " ".join(_PREFIX.sub("", str(error.msg or error)).split()).rstrip(".")
    if code not in _ADVICE and code not in TRANSIENT and (error.sqlstate or "")[:2] in _OF_ROWS:
        words = values.server_message(words)
    advice = f"; {_ADVICE[code]}" if code in _ADVICE else ""
    message = f"{side}: {subject}: {words}{advice}" if subject else f"{side}: {words}{advice}"
    diagnosis = Diagnosis(side=side, code=str(code) if code > 0 else "")
    if code in NO_TRAVEL:
        return SnapshotLost(message, diagnosis)
    first, end = _DRIVER
    network = first <= code < end or (error.sqlstate or "").startswith("08")
    if code in TRANSIENT or (network and not _NEVER.search(words)):
        return TransientError(message, diagnosis)
    return PermanentError(message, diagnosis)


@contextmanager
def translated(side: str, subject: str = "") -> Iterator[None]:
    """Translate a driver's errors to Penstock's."""
    try:
        with awaiting(f"{side}: {subject}" if subject else side):
            yield
    except Error as error:
        raise from_driver(error, side, subject) from error
