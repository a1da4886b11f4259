"""A server's statistics of its tables, brought up to date."""

from __future__ import annotations

from typing import Any

import psycopg

_FORCED_FROM = 150000


def flush_statistics(connection: psycopg.Connection[Any]) -> None:
    """Report what the session has counted, which it would otherwise keep for up to ten seconds.

    PostgreSQL 14 has no such call: there, a session reports at least what it counted more than
    half a second ago, and the rest when it ends.
    """
    if connection.info.server_version >= _FORCED_FROM:
        connection.execute("SELECT pg_stat_force_next_flush()")
