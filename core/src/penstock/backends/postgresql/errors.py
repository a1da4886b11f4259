"""The mapping of the server's errors to Penstock's.

SQLSTATE classes: https://www.postgresql.org/docs/current/errcodes-appendix.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import psycopg

from penstock.errors import (
    Diagnosis,
    PenstockError,
    PermanentError,
    PlanningError,
    TooManyConnections,
    TransientError,
)
from penstock.model import values

TOO_MANY_CONNECTIONS = "53300"
# 08 connection, 40 transaction rollback, 53 insufficient resources, 58 system error
TRANSIENT_CLASSES = ("08", "40", "53", "58")
SESSION_ENDED = {
    "25P03",  # idle_in_transaction_session_timeout
    "25P04",  # transaction_timeout
    "57P01",  # admin_shutdown
    "57P02",  # crash_shutdown
    "57P03",  # cannot_connect_now
    "57P05",  # idle_session_timeout
}
TRANSIENT_STATES = SESSION_ENDED | {
    "55P03",  # lock_not_available
    "57014",  # query_canceled: not canceled by us, or the attempt would be over
}
# Retrying does not free disk space; 58P01 and 58P02 report missing files.
PERMANENT_STATES = {"53100", "58P01", "58P02"}

# Patterns are kept as text: compiling them takes a millisecond, and most processes see no error.

# Two sessions changed a catalog row at the same time, or one dropped what the other was about to
# look up. The server never translates these messages.
_CATALOG_RACE = (
    r"tuple concurrently (updated|deleted)|cache lookup failed"
    r"|could not open relation with OID"
)
INTERNAL = "XX000"
CONSTRAINT = "23"
# In these classes, messages are about connections, privileges, statements and the server itself,
# not about rows.
NOT_ABOUT_ROWS = frozenset(
    {
        *("08", "0A", "25", "26", "28", "2B", "34", "3B", "3D", "3F", "40", "42"),
        *("53", "54", "55", "57", "58"),
    }
)
UNIQUE_VIOLATION = "23505"
DENIED = "42501"
NOT_IN_ENCODING = "22021"
_UNCHECKED = (
    "; expected text in UTF-8, or in the database's encoding (SQL_ASCII checks none): correct the "
    "values in the source, leave out their rows (--where) or their column (--columns), or copy the "
    "column as bytea (--query)"
)

_SPARE_READS = (
    "A standby ends reads that hold back its replay: set hot_standby_feedback = on there, raise "
    "its max_standby_streaming_delay, or read from the primary."
)

# A pooler reports all of its errors under one SQLSTATE, which also means a lost connection.
_POOLER_NEVER = r"(?i)statement pooling|long transactions not allowed"

# For a refused connection libpq reports no SQLSTATE, only the text from the server or a pooler.
_TOO_MANY = (
    r"(?i)too many (clients|connections)|connection slots are reserved"
    r"|no more connections allowed|query_wait_timeout"
)
# A pooler repeats its server's message, which tells the cause.
_REFUSED = (
    r"(?i)authentication failed|no pg_hba|no such (user|database)"
    r"|(role|user|database) \S+ does not exist"
)
_TRANSIENT = (
    r"(?i)starting up|shutting down|in recovery|terminat|cannot connect now"
    r"|database system is not (yet )?accepting"
    r"|could not fork|out of memory|cannot allocate memory|temporarily unavailable"
    # The connection broke, or the server could not even negotiate encryption.
    r"|SSL SYSCALL|unexpected(ly)?\b|EOF detected|reset by peer|error response during SSL exchange"
    r"|timed out|timeout expired|due to timeout"
    # A pooler that cannot reach its server.
    r"|server login has been failing|server login failed|cannot connect to server"
    r"|client_login_timeout|server_login_retry|connect_timeout \("
)
# libpq rejected its input before contacting a server.
_INPUT_ERRORS = (
    r"^connection is bad: (?!connection to server|could not|out of memory)"
    r"|invalid \w+ value|invalid (integer )?value|bad value for|invalid port number"
    r"|channel binding required"
)
_TO_READ = (
    "; a source is only read: GRANT the user SELECT on the table, and USAGE on its schema if "
    "that is missing, too"
)
_PERMANENT = r"(?i)FATAL|no password supplied|certificate|SSL|authentication"


def from_driver(
    error: psycopg.Error, side: str, subject: str = "", table: str = ""
) -> PenstockError:
    """Classify a driver's error as transient or permanent, and keep the server's diagnosis.

    Args:
        error: the driver's error.
        side: `source` or `target`, for the message.
        subject: the table or query, if the server's message does not name it.
        table: the table being loaded; named where the server gives only its number.
    """
    diag = error.diag
    state = error.sqlstate or ""
    message = (diag.message_primary or str(error)).strip()
    hint = diag.message_hint or ""
    if is_recovery_conflict(diag):
        hint = " ".join(filter(None, (hint, _SPARE_READS)))
    diagnosis = Diagnosis(
        side=side,
        code=state,
        detail=diag.message_detail or "",
        hint=hint,
        context=diag.context or "",
        constraint=diag.constraint_name or "",
    )
    if not values.are_shown():
        message, diagnosis = _without_values(message, diagnosis, diag)
    message = f"{side}: {subject}: {message}" if subject else f"{side}: {message}"
    if state == DENIED and side == "source":
        message += _TO_READ
    if state == NOT_IN_ENCODING and side == "source":
        message += _UNCHECKED
    if state == TOO_MANY_CONNECTIONS or (state[:2] == "08" and re.search(_TOO_MANY, message)):
        return TooManyConnections(message, diagnosis)
    if state[:2] == "08" and re.search(_POOLER_NEVER, message):
        message += (
            "; expected a pooler that keeps a server session for at least a whole transaction"
        )
        return PermanentError(message, diagnosis)
    if state:
        raced = _is_catalog_race(state, diag)
        transient = (
            state in TRANSIENT_STATES
            or (state[:2] in TRANSIENT_CLASSES and state not in PERMANENT_STATES)
            or raced
        )
        if raced and state == INTERNAL:
            what = table or "a table or a part of it"
            message += f" (another session has just dropped, recreated or altered {what})"
    else:
        # Without an SQLSTATE, the error is the driver's own. Lost connections are
        # OperationalErrors.
        transient = isinstance(error, psycopg.OperationalError)
    return (TransientError if transient else PermanentError)(message, diagnosis)


def is_recovery_conflict(diag: psycopg.errors.Diagnostic) -> bool:
    """Whether a standby has ended a session or statement because it held back replay."""
    # The text may be translated. The function has the first name since PostgreSQL 17.
    return (
        diag.source_function
        in (
            "ProcessRecoveryConflictInterrupt",
            "ProcessInterrupts",
        )
        and diag.sqlstate == "40001"
    )


def is_loss(error: psycopg.OperationalError) -> bool:
    """Whether the session has ended, even if the connection does not know yet.

    This includes a socket that was reset just as it was being waited for, and a server that has
    announced the end of the session but not closed it yet.
    """
    if error.sqlstate is None:
        return not isinstance(error, psycopg.errors.PipelineAborted)
    return error.sqlstate in SESSION_ENDED or error.sqlstate[:2] == "08"


def _without_values(
    message: str, diagnosis: Diagnosis, diag: psycopg.errors.Diagnostic
) -> tuple[str, Diagnosis]:
    kind, copied = diagnosis.code[:2], _COPIED.search(diagnosis.context)
    # The line of the stream, without the value.
    diagnosis = replace(diagnosis, context=copied[0] if copied else "")
    if diag.source_function == "exec_stmt_raise":
        # The text comes from the author of a trigger or function.
        return values.HIDDEN, replace(diagnosis, detail="", hint="")
    if kind == CONSTRAINT:  # the message names the constraint; the row is in the detail
        return message, replace(diagnosis, detail="")
    if not kind or kind in NOT_ABOUT_ROWS:
        return message, diagnosis
    return values.server_message(message), replace(diagnosis, detail="")


def _is_catalog_race(state: str, diag: psycopg.errors.Diagnostic) -> bool:
    if state == INTERNAL:
        return re.match(_CATALOG_RACE, diag.message_primary or "") is not None
    # Two sessions created what neither of them had found.
    return state == UNIQUE_VIOLATION and diag.schema_name == "pg_catalog"


def from_connecting(error: psycopg.Error, side: str) -> PenstockError:
    """Classify an error raised by `connect`, by its text, since it has no SQLSTATE."""
    if error.sqlstate:
        return from_driver(error, side)
    text = " ".join(str(error).split())
    diagnosis = Diagnosis(side=side)
    if re.search(_TOO_MANY, text):
        return TooManyConnections(
            f"{side}: {text}", Diagnosis(side=side, code=TOO_MANY_CONNECTIONS)
        )
    later = re.search(_TRANSIENT, text) and not re.search(_REFUSED, text)
    if re.search(_INPUT_ERRORS, text) or (re.search(_PERMANENT, text) and not later):
        return PermanentError(f"{side}: {text}", diagnosis)
    return TransientError(f"{side}: {text}", diagnosis)


# "COPY t, line 3, column a: ..." in a text stream, where the server examined the value.
_COPIED = re.compile(r"^COPY .+?, line (\d+)(?:, column (.+?))?(?=: |$)", re.M)


@contextmanager
def translated(side: str, *, rows: str = "", table: str = "") -> Iterator[None]:
    """Translate a driver's errors to Penstock's.

    Args:
        side: `source` or `target`, for the messages.
        rows: report the line of the stream, by this word, and the column; empty if the server's
            line numbers mean nothing to users.
        table: see `from_driver`.
    """
    try:
        yield
    except psycopg.Error as error:
        raise from_driver(error, side, _place(error, rows) if rows else "", table) from error


def _place(error: psycopg.Error, noun: str) -> str:
    match = _COPIED.search(error.diag.context or "")
    if match is None:
        return ""
    row = f"{noun} {int(match[1]):,}"
    column = error.diag.column_name or match[2]
    return f"column {column!r}, {row}" if column else row


@contextmanager
def planning(side: str, subject: str) -> Iterator[None]:
    """Translate the server's errors to a `PlanningError` that names the subject."""
    try:
        yield
    except psycopg.Error as error:
        ours = from_driver(error, side, subject)
        if ours.transient:
            raise ours from error
        # The context would show our own statement.
        raise PlanningError(ours.message, replace(ours.diagnosis, context="")) from error
