"""Sessions of DuckDB, set the same everywhere.

To make an instance of DuckDB takes 20 ms of CPU, so those in memory are kept for whoever needs one
next. A database file is attached to one for as long as it is used, and no longer.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
from duckdb import DuckDBPyConnection

from penstock.backends.duckdb.errors import is_locked, locked, planning
from penstock.errors import Diagnosis, PlanningError

# What a session of a worker may use at most, next to what Python and the batches take.
WORKER_MEMORY = "128MB"
_idle: dict[bool, list[DuckDBPyConnection]] = {False: [], True: []}
"""Instances in memory that nobody uses at the moment, by `worker`."""


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


@contextmanager
def instance(*, worker: bool = False) -> Iterator[DuckDBPyConnection]:
    """A session of an instance of one's own. Its user leaves nothing in it.

    Parameters:
        worker: see `configure`.
    """
    try:
        connection = _idle[worker].pop()
    except IndexError:
        connection = configure(duckdb.connect(), worker=worker)
    try:
        yield connection
    except BaseException:
        connection.close()  # whatever became of it
        raise
    if _idle[worker]:
        connection.close()
    else:
        _idle[worker].append(connection)


def close_idle() -> None:
    """Close those that nobody uses. Their threads would be missing in a process that is forked."""
    for connections in _idle.values():
        while connections:
            connections.pop().close()


os.register_at_fork(before=close_idle)


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
