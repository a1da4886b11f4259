"""How DuckDB's errors map to Penstock's.

https://duckdb.org/docs/stable/clients/python/reference lists the exceptions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from penstock.errors import (
    Diagnosis,
    PenstockError,
    PermanentError,
    PlanningError,
    TransientError,
)
from penstock.model import values
from penstock.model.awaited import awaiting

_LOCKED = re.compile(r'lock on file "(?P<file>[^"]*)".*?(?:\(PID (?P<pid>\d+)\))', re.DOTALL)
# Two connections of this process with different settings.
_CONFIGURED = "different configuration"
_PASSING = (duckdb.HTTPException, duckdb.TransactionException, duckdb.InterruptException)
_NOT_ABOUT_ROWS = (
    *_PASSING,
    *(duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException),
    *(duckdb.IOException, duckdb.OutOfMemoryException, duckdb.PermissionException),
    *(duckdb.ConnectionException, duckdb.DependencyException, duckdb.FatalException),
)
# Errors that a retry would meet again.
_LASTING_IO = re.compile(
    r"no files found|does not exist|not a valid duckdb|is a directory|permission denied"
    r"|no such file|cannot open file|could not read enough bytes",
    re.IGNORECASE,
)


# Retrying does not free disk space.
_FULL = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)


# An error of memory that a commit reports as one of the transaction.
_TOO_LARGE = re.compile(r"could not allocate block|failed to (allocate|pin) (data|block)")


@contextmanager
def translated(side: str, subject: str = "") -> Iterator[None]:
    """Translate DuckDB's errors to Penstock's."""
    try:
        with awaiting(f"{side}: {subject}" if subject else side):
            yield
    except duckdb.Error as error:
        raise translate(error, side, subject) from error


@contextmanager
def planning(side: str, subject: str) -> Iterator[None]:
    """Translate errors as `translated`, with those that no retry can help as `PlanningError`."""
    try:
        with translated(side, subject):
            yield
    except PermanentError as error:
        if isinstance(error.__cause__, duckdb.Error):
            raise PlanningError(error.message, error.diagnosis) from error
        raise


def translate(error: duckdb.Error, side: str, subject: str = "") -> PenstockError:
    """Classify a DuckDB error as transient or permanent, and keep its message.

    Args:
        error: the error.
        side: `source` or `target`.
        subject: the table or query, if DuckDB's message does not name it.
    """
    words = first_lines(str(error))
    if not isinstance(error, _NOT_ABOUT_ROWS):
        words = values.server_message(words)
    message = f"{side}: {subject}: {words}" if subject else f"{side}: {words}"
    if _FULL.search(words):
        return PermanentError(message, Diagnosis(side=side))
    if isinstance(error, duckdb.OutOfMemoryException) or _TOO_LARGE.search(words):
        return PermanentError(
            f"{message}; use smaller partitions, leave out large columns, or raise --max-memory if "
            "it is set",
            Diagnosis(side=side),
        )
    if isinstance(error, _PASSING) or is_locked(error):
        return TransientError(message, Diagnosis(side=side))
    if isinstance(error, duckdb.IOException) and not _LASTING_IO.search(words):
        return TransientError(message, Diagnosis(side=side))
    return PermanentError(message, Diagnosis(side=side))


def is_locked(error: duckdb.Error) -> bool:
    """Whether another process has the database open in a way that excludes this one."""
    return _LOCKED.search(str(error)) is not None or _CONFIGURED in str(error)


def locked(path: str, side: str, error: duckdb.Error) -> TransientError:
    """Return an error that names the process that has the database open.

    Args:
        path: the database file.
        side: `source` or `target`.
        error: DuckDB's error, which names the process.
    """
    match = _LOCKED.search(str(error))
    owner = f"in another process (PID {match['pid']})" if match else "in this process"
    verb = "written" if side == "target" else "read"
    purpose = "" if side == "target" else " for writing"
    return TransientError(
        f"{side}: {path} is open{purpose} {owner}; it cannot be {verb} until that process closes "
        "it",
        Diagnosis(side=side),
    )


def first_lines(text: str) -> str:
    """Return a message without the excerpt of the statement, which is our own."""
    lines = []
    for line in text.splitlines():
        if line.startswith("LINE "):
            break
        if line.strip():
            lines.append(line.strip())
    return " ".join(lines)
