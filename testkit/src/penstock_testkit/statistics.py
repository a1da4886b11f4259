"""A server's statistics of its tables, brought up to date."""

from __future__ import annotations

import time
from typing import Any

import psycopg

_FORCED_FROM = 150000
# Seconds: more than the longest delay of a report, and of the file in which the server keeps it.
_DELAY = 0.6


def settle_statistics(connection: psycopg.Connection[Any]) -> None:
    """Report what the session has counted, and wait until others can read it.

    A session would otherwise keep it for up to ten seconds. Takes a second on PostgreSQL 14, where
    nothing forces a report: a session reports at least what it counted more than half a second ago.
    """
    if connection.info.server_version >= _FORCED_FROM:
        connection.execute("SELECT pg_stat_force_next_flush()")
        return
    time.sleep(_DELAY)
    connection.execute("SELECT")
    time.sleep(_DELAY)
