"""Sessions of DuckDB, set the same everywhere."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress

import duckdb
from duckdb import DuckDBPyConnection

from penstock.backends.duckdb.dialect import ident
from penstock.backends.duckdb.errors import is_locked, locked, planning, translated
from penstock.backends.duckdb.rows import first
from penstock.errors import Diagnosis, PlanningError
from penstock.model.tables import TableRef

# What a session of a worker may use at most, next to what Python and the batches take.
WORKER_MEMORY = "128MB"


def configure(connection: DuckDBPyConnection, *, worker: bool) -> DuckDBPyConnection:
    """Set what texts of values depend on, and what a session may use.

    Parameters:
        worker: one of many processes: one thread, little memory, rows in any order.
    """
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET temp_directory = ?", [tempfile.gettempdir()])
    connection.execute("SET enable_progress_bar = false")  # it would be on our stdout
    if worker:
        connection.execute("SET threads = 1")
        connection.execute(f"SET memory_limit = '{WORKER_MEMORY}'")
        connection.execute("SET preserve_insertion_order = false")
    return connection


def connect_to_read(path: str | None, side: str, *, worker: bool = False) -> DuckDBPyConnection:
    """Open a database that nobody writes to while it is open.

    Parameters:
        path: None for an empty one in memory.

    Raises:
        PlanningError: there is no such database.
        TransientError: somebody has it open for writing.
    """
    if path is None:
        return configure(duckdb.connect(), worker=worker)
    if not os.path.exists(path):
        raise PlanningError(
            f"{side}: expected a DuckDB database, found no file {path}", Diagnosis(side=side)
        )
    check_database(path, side)
    with planning(side, path):
        try:
            connection = duckdb.connect(path, read_only=True)
        except duckdb.Error as error:
            if is_locked(error):
                raise locked(path, side, error) from error
            raise
    return configure(connection, worker=worker)


def check_database(path: str, side: str) -> None:
    """By the bytes that begin a database: DuckDB takes a CSV file and others for ones to be read
    with a name of their own.

    https://duckdb.org/docs/stable/internals/storage: ``DUCK`` follows a checksum of 8 bytes.

    Raises:
        PlanningError: the file is no database.
    """
    try:
        with open(path, "rb") as file:
            begin = file.read(12)
    except OSError as error:
        raise PlanningError(
            f"{side}: {path}: expected a DuckDB database, found: {error.strerror}",
            Diagnosis(side=side),
        ) from error
    if begin[8:] != b"DUCK":
        raise PlanningError(
            f"{side}: {path}: expected a DuckDB database, found another kind of file",
            Diagnosis(side=side),
        )


def catalog_name(connection: DuckDBPyConnection, side: str) -> str:
    """What a session calls its database: tables are named with it, for a schema of the same name
    would be taken for it."""
    with translated(side):
        found = first(connection.execute("SELECT current_database()"))
    assert found is not None
    return str(found[0])


def full_name(catalog: str, table: TableRef) -> str:
    return f"{ident(catalog)}.{ident(table.schema)}.{ident(table.name)}"


def interrupting(connection: DuckDBPyConnection) -> Callable[[], None]:
    """What interrupts whatever a connection does."""

    def interrupt() -> None:
        with suppress(Exception):  # closed meanwhile
            connection.interrupt()

    return interrupt
