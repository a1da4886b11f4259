"""A database file as a target: opened for a moment at a time, so that others have their turn."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import duckdb
from duckdb import DuckDBPyConnection

from penstock.backends.duckdb.connection import check_database, instance
from penstock.backends.duckdb.dialect import literal
from penstock.backends.duckdb.errors import is_locked, locked, planning
from penstock.backends.duckdb.load.folder import folder_of, turn
from penstock.backends.shared.locked_files import POLL
from penstock.errors import PlanningError

# Others than Penstock go by no lock: one that looks into the file is gone after a moment.
OTHERS_SECONDS = 5.0
NAME = "penstock_target"
"""What a database is called: by its own name, which is the file's, it would be taken for a schema
of that name."""


class Database:
    """
    Parameters:
        patience: seconds to wait for one's turn; 0: for ever.
        worker: see `configure`.
    """

    def __init__(self, path: str, patience: float = 600.0, *, worker: bool = False) -> None:
        self.path = path
        self._patience = patience
        self._worker = worker
        self._open: set[DuckDBPyConnection] = set()
        self._guard = threading.Lock()

    @contextmanager
    def reading(self) -> Iterator[DuckDBPyConnection]:
        """The database, or an empty one where it is not there; nothing is changed."""
        with ExitStack() as stack:
            if not os.path.exists(self.path):
                yield stack.enter_context(instance(worker=self._worker))
                return
            if os.access(os.path.dirname(self.path), os.W_OK) or os.path.isdir(
                folder_of(self.path)
            ):
                stack.enter_context(turn(self.path, self._patience))
            yield stack.enter_context(self._attached(" (READ_ONLY)"))

    @contextmanager
    def writing(self) -> Iterator[DuckDBPyConnection]:
        """The database, made where it is missing, and a transaction: what is not committed at the
        end is undone."""
        with turn(self.path, self._patience):
            check_folder(self.path)
            with self._attached() as connection:
                connection.execute("BEGIN")
                yield connection

    @contextmanager
    def _attached(self, options: str = "") -> Iterator[DuckDBPyConnection]:
        with instance(worker=self._worker) as connection:
            with planning("target", self.path):
                self._attach(connection, options)
            connection.execute(f"USE {NAME}")
            with self._guard:
                self._open.add(connection)
            try:
                yield connection
            finally:
                with self._guard:
                    self._open.discard(connection)
            with suppress(duckdb.TransactionException):  # there is no transaction
                connection.execute("ROLLBACK")
            connection.execute("USE memory")
            connection.execute(f"DETACH {NAME}")

    def _attach(self, connection: DuckDBPyConnection, options: str) -> None:
        if os.path.exists(self.path):
            check_database(self.path, "target")
        deadline = time.monotonic() + OTHERS_SECONDS
        while True:
            try:
                connection.execute(f"ATTACH {literal(self.path)} AS {NAME}{options}")
                return
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


def check_folder(path: str) -> None:
    """
    Raises:
        PlanningError: a database cannot be made there.
    """
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise PlanningError(f"target: expected a folder {folder} for the database, found none")
