"""Sessions of DuckDB, set the same everywhere."""

from __future__ import annotations

import tempfile

from duckdb import DuckDBPyConnection

# What a session of a worker may use at most, next to what Python and the batches take.
WORKER_MEMORY = "192MB"


def configure(connection: DuckDBPyConnection, *, worker: bool) -> DuckDBPyConnection:
    """Set what texts of values depend on, and what a session may use.

    Parameters:
        worker: one of many processes: one thread, little memory, rows in any order.
    """
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET temp_directory = ?", [tempfile.gettempdir()])
    if worker:
        connection.execute("SET threads = 1")
        connection.execute(f"SET memory_limit = '{WORKER_MEMORY}'")
        connection.execute("SET preserve_insertion_order = false")
    return connection
