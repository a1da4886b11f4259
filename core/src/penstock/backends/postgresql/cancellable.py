"""Statements that may compute for long, and must still be cancelled at once."""

from __future__ import annotations

import contextlib

import psycopg
from psycopg import sql
from psycopg.pq import ExecStatus

from penstock.backends.api.worker import Wait
from penstock.backends.postgresql.connection import Connection
from penstock.errors import StallError

_ENDED = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)


def compute(connection: Connection, query: sql.Composable, side: str, wait: Wait) -> int:
    """Run a statement to its end, however long it takes. Returns its row count.

    No bytes move while a server computes, so that is no stall: to wait for a lock for too long is
    an error of the server's, and a peer that is gone is found by keepalives.
    """
    pgconn = connection.pgconn
    pgconn.send_query_params(query.as_bytes(connection), None)
    while pgconn.flush():
        wait(side, pgconn.socket, True)
        pgconn.consume_input()
    count = 0
    while True:
        while pgconn.is_busy():
            with contextlib.suppress(StallError):
                wait(side, pgconn.socket, False)
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            return count
        if result.status not in _ENDED:
            raise psycopg.errors.error_from_result(result)
        count = result.command_tuples or 0
