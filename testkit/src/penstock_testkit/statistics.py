"""A server's statistics of its tables, brought up to date."""

from __future__ import annotations

import time
from typing import Any

import psycopg

_FORCED_FROM = 150000
# Seconds: more than the longest delay of a report, and of the file in which the server keeps it.
_DELAY = 0.6


def flush_statistics(connection: psycopg.Connection[Any]) -> None:
    """Report what the session has counted, which it would otherwise keep for up to ten seconds.

    PostgreSQL 14 has no such call: there, a session reports at least what it counted more than
    half a second ago, and the rest when it ends.
    """
    if connection.info.server_version >= _FORCED_FROM:
        connection.execute("SELECT pg_stat_force_next_flush()")


def settle_statistics(connection: psycopg.Connection[Any]) -> None:
    """Report what the session has counted, and wait until others can read it.

    Takes a second on PostgreSQL 14, see `flush_statistics`.
    """
    if connection.info.server_version >= _FORCED_FROM:
        flush_statistics(connection)
        return
    time.sleep(_DELAY)
    connection.execute("SELECT")
    time.sleep(_DELAY)
