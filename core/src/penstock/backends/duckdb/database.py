"""A database file as a target: opened for a moment at a time, so that others have their turn."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import duckdb
from duckdb import DuckDBPyConnection

from penstock.backends.duckdb.connection import check_database, configure
from penstock.backends.duckdb.dialect import literal
from penstock.backends.duckdb.errors import is_locked, locked, planning
from penstock.backends.duckdb.load.folder import POLL, folder_of, turn
from penstock.errors import PlanningError

# Others than Penstock go by no lock: one that looks into the file is gone after a moment.
OTHERS_SECONDS = 5.0
NAME = "penstock_target"


class Database:
    """
    Parameters:
        patience: seconds to wait for one's turn; 0: for ever.
    """

    def __init__(self, path: str, patience: float = 600.0) -> None:
        self.path = path
        self.patience = patience
        self._open: set[DuckDBPyConnection] = set()
        self._guard = threading.Lock()

    def exists(self) -> bool:
        return os.path.exists(self.path)

    @contextmanager
    def reading(self) -> Iterator[DuckDBPyConnection]:
        """The database, or an empty one where it is not there; nothing is changed."""
        with ExitStack() as stack:
            if self.exists():
                if os.access(os.path.dirname(self.path), os.W_OK) or os.path.isdir(
                    folder_of(self.path)
                ):
                    stack.enter_context(turn(self.path, self.patience))
                yield stack.enter_context(self._connected(read_only=True, worker=False))
            else:
                yield stack.enter_context(duckdb.connect())

    @contextmanager
    def writing(self, *, worker: bool = False) -> Iterator[DuckDBPyConnection]:
        """The database, made where it is missing."""
        with (
            turn(self.path, self.patience),
            self._connected(read_only=False, worker=worker) as connection,
        ):
            yield connection

    @contextmanager
    def transaction(self) -> Iterator[DuckDBPyConnection]:
        with self.writing() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            except BaseException:
                with suppress(duckdb.Error):
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    @contextmanager
    def _connected(self, *, read_only: bool, worker: bool) -> Iterator[DuckDBPyConnection]:
        connection = configure(self._connect(read_only=read_only), worker=worker)
        with self._guard:
            self._open.add(connection)
        try:
            yield connection
        finally:
            with self._guard:
                self._open.discard(connection)
            connection.close()

    def _connect(self, *, read_only: bool) -> DuckDBPyConnection:
        if not read_only and not os.path.isdir(os.path.dirname(self.path)):
            folder = os.path.dirname(self.path)
            raise PlanningError(f"target: expected a folder {folder} for the database, found none")
        if self.exists():
            check_database(self.path, "target")
        deadline = time.monotonic() + OTHERS_SECONDS
        while True:
            with planning("target", self.path):
                try:
                    return _attached(self.path, read_only=read_only)
                except duckdb.Error as error:
                    if not is_locked(error):
                        raise
                    if time.monotonic() > deadline:
                        raise locked(self.path, "target", error) from error
            time.sleep(POLL)

    def interrupt(self) -> None:
        """End whatever runs, on any thread."""
        with self._guard:
            for connection in self._open:
                connection.interrupt()


def _attached(path: str, *, read_only: bool) -> DuckDBPyConnection:
    """A session in which the database has a name of ours: by its own, which is the file's, it would
    be taken for a schema of that name."""
    connection = duckdb.connect()
    try:
        options = " (READ_ONLY)" if read_only else ""
        connection.execute(f"ATTACH {literal(path)} AS {NAME}{options}")
        connection.execute(f"USE {NAME}")
    except BaseException:
        connection.close()
        raise
    return connection
