"""Statements that are awaited without blocking, so that they can be canceled at once."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import psycopg
from psycopg import sql
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from penstock.backends.api.worker import Wait
from penstock.backends.postgresql.connection import Connection
from penstock.errors import StallError

# Bytes. A server that waits for statements always has room for this many.
SENT_AT_ONCE = 8192

_ENDED = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)


def compute(connection: Connection, query: sql.Composable, side: str, wait: Wait) -> int:
    """Run a statement to its end, however long it takes, and return its row count.

    No bytes move while a server computes, so silence is not a stall: waiting too long for a lock is
    an error from the server, and keepalives detect a peer that is gone.

    Args:
        connection: the session.
        query: the statement.
        side: the side of the server, for `wait`.
        wait: waits for the socket; a stall is ignored.
    """
    send(connection, query, side, wait)
    return _count(connection.pgconn, side, wait, patient=True) or 0


def compute_all(
    connection: Connection, queries: Sequence[sql.Composable], side: str, wait: Wait
) -> list[int]:
    """Run several statements in one round trip, as `compute` does.

    After a failure the remaining ones are skipped.

    Args:
        connection: the session.
        queries: the statements, without parameters.
        side: the side of the server, for `wait`.
        wait: waits for the socket; a stall is ignored.

    Returns:
        The row count of each statement.
    """
    if not psycopg.Pipeline.is_supported():
        return [compute(connection, query, side, wait) for query in queries]
    pgconn = connection.pgconn
    pgconn.enter_pipeline_mode()
    for query in queries:
        pgconn.send_query_params(query.as_bytes(connection), None)
    pgconn.pipeline_sync()
    flush(pgconn, side, wait)
    results: list[PGresult] = []
    while pgconn.status != ConnStatus.BAD:
        result = _next_result(pgconn, side, wait, patient=True)
        if result is None:
            continue  # between two statements
        if result.status == ExecStatus.PIPELINE_SYNC:
            pgconn.exit_pipeline_mode()
            break
        results.append(result)
    for result in results:
        if result.status not in _ENDED:
            raise psycopg.errors.error_from_result(result)
    if len(results) < len(queries):
        raise psycopg.OperationalError(pgconn.get_error_message() or "the connection was lost")
    return [result.command_tuples or 0 for result in results]


def start_copy(
    connection: Connection, query: sql.Composed, side: str, wait: Wait, expected: ExecStatus
) -> None:
    """Send a COPY, and return when the server is ready to stream.

    Args:
        connection: the session.
        query: the COPY.
        side: the side of the server, for `wait`.
        wait: waits for the socket, within the stall timeout.
        expected: the status of a server that is ready: COPY_IN or COPY_OUT.
    """
    send(connection, query, side, wait)
    await_copy(connection, side, wait, expected)


def send(connection: Connection, query: sql.Composable, side: str, wait: Wait) -> bool:
    """Send a statement.

    Args:
        connection: the session.
        query: the statement, without parameters.
        side: the side of the server, for `wait`.
        wait: waits for the socket, within the stall timeout.

    Returns:
        Whether libpq has read nothing since; it may have if the statement could not be sent at
        once.
    """
    text = query.as_bytes(connection)
    connection.pgconn.send_query_params(text, None)
    if len(text) <= SENT_AT_ONCE and not connection.pgconn.flush():
        return True
    flush(connection.pgconn, side, wait)
    return False


def await_copy(connection: Connection, side: str, wait: Wait, expected: ExecStatus) -> None:
    """Wait until the server is ready to stream a COPY already sent.

    Args:
        connection: the session.
        side: the side of the server, for `wait`.
        wait: waits for the socket, within the stall timeout.
        expected: the status of a server that is ready: COPY_IN or COPY_OUT.
    """
    result = _next_result(connection.pgconn, side, wait)
    assert result is not None
    if result.status != expected:
        raise psycopg.errors.error_from_result(result)


def end_copy(connection: Connection, side: str, wait: Wait) -> int:
    """Wait for the end of a COPY, and return the row count from the server.

    Args:
        connection: the session.
        side: the side of the server, for `wait`.
        wait: waits for the socket, within the stall timeout.
    """
    rows = _count(connection.pgconn, side, wait)
    if rows is None:
        raise psycopg.OperationalError("the server ended COPY without a count")
    return rows


def flush(pgconn: PGconn, side: str, wait: Wait) -> None:
    """Send everything buffered in libpq.

    Args:
        pgconn: libpq's connection.
        side: the side of the server, for `wait`.
        wait: waits for the socket, within the stall timeout.
    """
    while pgconn.flush():
        wait(side, pgconn.socket, True)
        pgconn.consume_input()


def _next_result(
    pgconn: PGconn, side: str, wait: Wait, *, patient: bool = False
) -> PGresult | None:
    ignored = [StallError] if patient else []
    while pgconn.is_busy():
        with contextlib.suppress(*ignored):
            wait(side, pgconn.socket, False)
        pgconn.consume_input()
    return pgconn.get_result()


def _count(pgconn: PGconn, side: str, wait: Wait, *, patient: bool = False) -> int | None:
    """Return the row count of a statement, once it has ended."""
    count = None
    while (result := _next_result(pgconn, side, wait, patient=patient)) is not None:
        if result.status not in _ENDED:
            raise psycopg.errors.error_from_result(result)
        count = result.command_tuples
    return count
