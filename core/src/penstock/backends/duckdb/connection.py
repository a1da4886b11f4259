"""Sessions of DuckDB, with the same settings everywhere.

Creating an instance of DuckDB takes 20 ms of CPU time, so those in memory are kept for reuse. A
database file is attached to one only while it is in use.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import duckdb
from duckdb import DuckDBPyConnection

from penstock.backends.duckdb.errors import is_locked, locked, planning
from penstock.backends.shared import resources
from penstock.errors import Diagnosis, PlanningError

# The memory limit of a worker's session, besides what Python and the batches take.
WORKER_MEMORY = 128 << 20
# What Python, libraries and batches take (measured).
_BESIDES = 80 << 20
# Copies of a value that DuckDB holds at once: in the batch, in blocks, and in the log.
_COPIES = 8
# Shorter rows of an incomplete row group can be spilled (measured: 10 kB can, 60 kB cannot).
_LONG_ROW = 16 << 10
_GROUP_ROWS = 122_880
# What DuckDB allocates per byte of text that it reads: a power of two, beside the blocks read.
_PER_TEXT_BYTE = 3
# The most bytes of texts in 2,048 rows, by the statistics of each column's segments.
_TEXT_BYTES = """
    SELECT sum(size) FROM (
        SELECT max(least(
            stats.total_string_length::DOUBLE, 2048 * stats.max_string_length::DOUBLE
        )) AS size
        FROM pragma_storage_info(?) GROUP BY column_id
    )
"""
_idle: dict[bool, list[DuckDBPyConnection]] = {False: [], True: []}
"""Unused instances in memory, by `worker`."""


def configure(connection: DuckDBPyConnection, *, worker: bool) -> DuckDBPyConnection:
    """Apply the settings that texts of values depend on, and resource limits.

    Args:
        connection: a new session.
        worker: whether it is one of many processes: one thread, little memory, rows in any order.

    Returns:
        The session.
    """
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET temp_directory = ?", [tempfile.gettempdir()])
    # The bar would be written to our stdout. In a notebook without ipywidgets, DuckDB has no bar,
    # and rejects the setting.
    with suppress(duckdb.InvalidInputException):
        connection.execute("SET enable_progress_bar = false")
    if worker:
        connection.execute("SET threads = 1")
        _limit(connection, WORKER_MEMORY)
        connection.execute("SET preserve_insertion_order = false")
    else:
        connection.execute(f"SET threads = {resources.cpus()}")
        if (most := resources.max_memory()) is not None:
            # No worker is busy while steps run before and after the partitions.
            connection.execute(f"SET memory_limit = '{most // 2}B'")
    return connection


def _limit(connection: DuckDBPyConnection, size: int) -> None:
    """Set a worker's memory limit, to less if the worker may take less."""
    connection.execute(f"SET memory_limit = '{resources.buffer(size, _BESIDES)}B'")


def allow_values_of(connection: DuckDBPyConnection, widest: int, total: int, rows: int) -> None:
    """Raise a worker's memory limit, if rows that are to be loaded would exceed it.

    Args:
        connection: the worker's session.
        widest: the size of the largest batch in bytes.
        total: the size of all batches in bytes.
        rows: their number of rows.
    """
    size = widest * _COPIES
    if rows and total / rows > _LONG_ROW:
        # At the commit it holds all texts of the last, incomplete row group.
        size += round(total * min(1, _GROUP_ROWS / rows))
    if size > WORKER_MEMORY:
        _limit(connection, WORKER_MEMORY + size)


def allow_values_in(connection: DuckDBPyConnection, rows: str) -> bool:
    """Raise a worker's memory limit if the texts of a table need more.

    DuckDB reads 2,048 rows at once, and allocates their texts together. Asking beforehand would
    take 7 ns of CPU time per value of the table (measured), so ask once the limit is reached.

    Args:
        connection: the worker's session.
        rows: the table's name in statements.

    Returns:
        Whether the limit was raised.
    """
    # The connection's own result has failed, and is not finished.
    with connection.cursor() as session, suppress(duckdb.CatalogException):  # a view has no figures
        found = session.execute(_TEXT_BYTES, [rows]).fetchone()
        if found is not None and found[0]:
            limit = "SELECT current_setting('memory_limit')"
            before = session.execute(limit).fetchone()
            size = WORKER_MEMORY + _PER_TEXT_BYTE * int(found[0])
            _limit(session, size)
            return before != session.execute(limit).fetchone()
    return False


@contextmanager
def instance(*, worker: bool = False) -> Iterator[DuckDBPyConnection]:
    """Provide a session with an instance of its own, in which it must leave nothing behind.

    Args:
        worker: as for `configure`.
    """
    try:
        connection = _idle[worker].pop()
    except IndexError:
        connection = configure(duckdb.connect(), worker=worker)
    try:
        yield connection
    except BaseException:
        connection.close()  # whatever happened to it
        raise
    if _idle[worker]:
        connection.close()
    else:
        _idle[worker].append(connection)


def close_idle() -> None:
    """Close unused instances, whose threads would be missing after a fork."""
    for connections in _idle.values():
        while connections:
            connections.pop().close()


os.register_at_fork(before=close_idle)


def connect_to_read(path: str | None, side: str, *, worker: bool = False) -> DuckDBPyConnection:
    """Open a database that is not written to while it is open.

    Args:
        path: None for an empty database in memory.
        side: `source` or `target`, for error messages.
        worker: as for `configure`.

    Raises:
        PlanningError: the database does not exist.
        TransientError: another process has it open for writing.
    """
    if path is None:
        return configure(duckdb.connect(), worker=worker)
    if not os.path.exists(path):
        raise PlanningError(
            f"{side}: {path}: expected a DuckDB database, found no file", Diagnosis(side=side)
        )
    check_database(path, side)
    with planning(side, path):
        try:
            connection = duckdb.connect(path, read_only=True)
        except duckdb.Error as error:
            if is_locked(error):
                raise locked(path, side, error) from error
            raise
    if not worker:
        try:
            check_macros(connection, path, side)
        except BaseException:
            connection.close()
            raise
    return configure(connection, worker=worker)


# A macro can replace any function and most operators, so this query uses neither.
_REPLACED = """
    SELECT DISTINCT mine.function_name
    FROM system.main.duckdb_functions() AS mine
    JOIN system.main.duckdb_functions() AS builtin
        ON builtin.function_name = mine.function_name AND builtin.internal
    WHERE NOT mine.internal AND mine.schema_name = 'main'
    ORDER BY mine.function_name
"""


def check_macros(connection: DuckDBPyConnection, path: str, side: str) -> None:
    """Check that no macro of a database replaces one of DuckDB's own functions.

    Whoever made the file could otherwise have a mask or a checksum compute something else.

    Args:
        connection: a session that uses the database.
        path: the database, for error messages.
        side: `source` or `target`, for error messages.

    Raises:
        PlanningError: one does.
    """
    with planning(side, path):
        names = [name for (name,) in connection.execute(_REPLACED).fetchall()]
    if names:
        listed = ", ".join(f"main.{name}" for name in names[:5]) + (", ..." if names[5:] else "")
        raise PlanningError(
            f"{side}: {path}: expected no macro with the name of a function of DuckDB, found "
            f"{listed}: DuckDB calls it instead, also in the statements of Penstock; drop it, "
            "rename it, or move it to another schema",
            Diagnosis(side=side),
        )


def check_database(path: str, side: str) -> None:
    """Check a database by its first bytes.

    DuckDB would otherwise open a CSV file, for instance, under that name.

    https://duckdb.org/docs/stable/internals/storage: ``DUCK`` follows a checksum of 8 bytes.

    Raises:
        PlanningError: the file is not a database.
    """
    try:
        with open(path, "rb") as file:
            begin = file.read(12)
    except OSError as error:
        raise PlanningError(
            f"{side}: {path}: expected a DuckDB database: {error.strerror}",
            Diagnosis(side=side),
        ) from error
    if begin[8:] != b"DUCK":
        raise PlanningError(
            f"{side}: {path}: expected a DuckDB database, found another kind of file",
            Diagnosis(side=side),
        )
