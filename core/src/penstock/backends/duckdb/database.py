"""A database file as a target, attached for a moment at a time, so that others get their turn."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import duckdb
from duckdb import DuckDBPyConnection

from penstock.backends.duckdb.connection import (
    check_database,
    check_macros,
    instance,
)
from penstock.backends.duckdb.dialect import DUCKDB, ident, literal
from penstock.backends.duckdb.errors import is_locked, locked, planning, translated
from penstock.backends.duckdb.load.turns import turn
from penstock.backends.duckdb.session import DuckSession
from penstock.backends.shared.attempts.locked_files import POLL
from penstock.backends.sql.one_file.database import OneFile
from penstock.errors import PenstockError, PlanningError
from penstock.model.tables import TableRef

# Programs other than Penstock ignore its lock: one that reads the file is done after a moment.
OTHERS_SECONDS = 5.0
# https://duckdb.org/docs/stable/internals/storage
HEADERS_BYTES = 3 * 4096
NAME = "penstock_target"
"""The database's name in statements: its own name, from the file, might be taken for a schema."""


class Database(OneFile):
    """A DuckDB database in a file.

    Args:
        worker: as for `configure`.
    """

    dialect = DUCKDB

    def __init__(self, path: str, patience: float = 600.0, *, worker: bool = False) -> None:
        super().__init__(path, patience)
        self._worker = worker
        self._has_checked_macros = worker

    def table_name(self, table: TableRef) -> str:
        return f"{ident(NAME)}.{super().table_name(table)}"

    @contextmanager
    def reading(self) -> Iterator[DuckSession]:
        """Open the database, or an empty one if it does not exist."""
        with translated("target"), ExitStack() as stack:
            if not os.path.exists(self.path):
                connection = stack.enter_context(instance(worker=self._worker))
                yield DuckSession(connection, "target")
                return
            if os.access(os.path.dirname(self.path), os.W_OK) or os.path.isdir(self.folder):
                stack.enter_context(turn(self.path, self.folder, self.patience))
            yield stack.enter_context(self._attached(" (READ_ONLY)"))

    @contextmanager
    def writing(self) -> Iterator[DuckSession]:
        """Open the database, created if it is missing, and a transaction."""
        with translated("target"), turn(self.path, self.folder, self.patience):
            check_folder(self.path)
            with self._attached() as session:
                session.run("BEGIN")
                yield session

    def tidy(self) -> None:
        """Do nothing: each turn tidies up."""
        if os.path.isdir(self.folder):
            with suppress(PenstockError), turn(self.path, self.folder, POLL):
                pass

    @contextmanager
    def _attached(self, options: str = "") -> Iterator[DuckSession]:
        with instance(worker=self._worker) as connection:
            with planning("target", self.path):
                self._attach(connection, options)
            connection.execute(f"USE {NAME}")
            if not self._has_checked_macros:
                check_macros(connection, self.path, "target")
                self._has_checked_macros = True
            with self.interruptible(connection):
                session = DuckSession(connection, "target")
                session.catalog = NAME
                yield session
            with suppress(duckdb.TransactionException):  # there is no transaction
                connection.execute("ROLLBACK")
            connection.execute("USE memory")
            connection.execute(f"DETACH {NAME}")

    def _attach(self, connection: DuckDBPyConnection, options: str) -> None:
        existed = os.path.exists(self.path)
        if existed:
            check_database(self.path, "target")
        deadline = time.monotonic() + OTHERS_SECONDS
        while True:
            try:
                connection.execute(f"ATTACH {literal(self.path)} AS {NAME}{options}")
                return
            except duckdb.Error as error:
                if not is_locked(error):
                    if not existed:
                        self._remove_torn()
                    raise
                if time.monotonic() > deadline:
                    raise locked(self.path, "target", error) from error
            time.sleep(POLL)

    def _remove_torn(self) -> None:
        """Remove a database whose headers did not fit on the disk: it could never be opened."""
        with suppress(OSError):
            if os.path.getsize(self.path) < HEADERS_BYTES:
                os.unlink(self.path)


def check_folder(path: str) -> None:
    """Check a database's folder.

    Raises:
        PlanningError: a database cannot be created there.
    """
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise PlanningError(f"target: {path}: expected an existing folder; create {folder}")
