"""How the server's errors map to Penstock's.

https://github.com/ClickHouse/ClickHouse/blob/master/src/Common/ErrorCodes.cpp
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from clickhouse_connect.driver.exceptions import ClickHouseError, OperationalError
from urllib3.exceptions import HTTPError

from penstock.errors import (
    Diagnosis,
    PenstockError,
    PermanentError,
    TooManyConnections,
    TransientError,
)
from penstock.model import values
from penstock.model.awaited import awaiting

TABLE_EXISTS, SAME_QUERY_ID = 57, 216
TOO_MANY = {202}
TRANSIENT = {
    159, 160,  # over a time limit
    209, 210,  # socket timeout, network error
    216, 236, 241, 242, 252,  # still running, aborted, out of memory, read-only, too many parts
    279, 319, 394,  # all connections failed, unknown status of an insert, canceled
    425, 473, 745, 999,  # system error, deadlock avoided, overloaded, keeper
}  # fmt: skip
# About connections, privileges, names and statements.
_NOT_ABOUT_ROWS = {47, 60, 62, 81, 164, 193, 359, 497, 516}
TOO_MANY_PARTITIONS = "Too many partitions for single INSERT block"
_ADVICE = {
    81: "create it, or name another database in the URL",
    164: "the user may not change settings (readonly = 1); set readonly to 2 or 0 for the user",
    193: "check the user and password",
    359: "raise max_table_size_to_drop, or drop the table it names by hand; then resume",
    497: "grant the privilege, or use another user",
    516: "check the user and password",
}
# Text that the driver adds without new information: the URL of the request, versions.
_NOISE = re.compile(
    r"^.*?server response: |^(?:Streaming \w+(?: \w+)? failed: )|Code: \d+\. DB::Exception: "
    r"| \(version [^)]*\)| \(for url [^)]*\)|: In scope .*?(?= \([A-Z_]+\)|$)",
    re.DOTALL,
)


def code_of(error: Exception) -> int:
    """Return the server's error code; 0 if the error has none."""
    return int(getattr(error, "code", None) or 0)


def from_driver(error: Exception, side: str, subject: str = "") -> PenstockError:
    """Classify a driver's error as transient or permanent, and keep the server's diagnosis.

    Args:
        error: an error of the driver or of HTTP.
        side: `source` or `target`.
        subject: the table or query, if the server's message does not name it.
    """
    code, text = code_of(error), str(error)
    words = _NOISE.sub("", _NOISE.sub("", text)).strip().rstrip(".")
    if code and code not in _NOT_ABOUT_ROWS | TRANSIENT | TOO_MANY:
        words = values.server_message(words)
    advice = f"; {_ADVICE[code]}" if code in _ADVICE else ""
    message = ": ".join(part for part in (side, subject, words) if part) + advice
    diagnosis = Diagnosis(side=side, code=str(code or ""))
    if code in TOO_MANY:
        return TooManyConnections(message, diagnosis)
    is_lost = not code and isinstance(error, OperationalError | HTTPError | OSError)
    if is_lost or (code in TRANSIENT and TOO_MANY_PARTITIONS not in text):
        return TransientError(message, diagnosis)
    return PermanentError(message, diagnosis)


@contextmanager
def translated(side: str, subject: str = "") -> Iterator[None]:
    """Translate a driver's errors to Penstock's."""
    try:
        with awaiting(f"{side}: {subject}" if subject else side):
            yield
    except (ClickHouseError, HTTPError, OSError) as error:
        raise from_driver(error, side, subject) from error
