"""A database file as a target, opened for a moment at a time, so that others get their turn."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from penstock.backends.shared.attempts.attempt_files import AttemptFiles
from penstock.backends.sql.dialect import CatalogDialect
from penstock.backends.sql.session import Session
from penstock.model.tables import TableRef


class OneFile(ABC):
    """A database in one file.

    Args:
        patience: seconds to wait for a turn; 0 for no limit.
    """

    dialect: CatalogDialect

    def __init__(self, path: str, patience: float = 600.0) -> None:
        self.path = path
        self.folder = f"{path}.penstock"
        """A folder beside it for locks and staged rows, which exists while a process uses it."""
        self.attempts = AttemptFiles(self.folder)
        self.patience = patience
        self._open: set[Any] = set()
        self._guard = threading.Lock()

    @abstractmethod
    def reading(self) -> AbstractContextManager[Session]:
        """Open the file to read one state of it; nothing is changed."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[Session]:
        """Open an exclusive transaction; what is not committed at the end is undone."""

    def control_table(self, schema: str, name: str) -> TableRef:
        return TableRef(schema, name)

    def table_name(self, table: TableRef) -> str:
        """Return a table's name for statements in any of its sessions."""
        return self.dialect.table(table)

    def tidy(self) -> None:
        """Remove the folder if it is empty."""
        with suppress(OSError):
            os.rmdir(self.folder)

    @contextmanager
    def interruptible(self, connection: Any) -> Iterator[None]:
        """Make a driver's connection interruptible while it is open."""
        with self._guard:
            self._open.add(connection)
        try:
            yield
        finally:
            with self._guard:
                self._open.discard(connection)

    def interrupt(self) -> None:
        """Cancel the running statements of all threads."""
        with self._guard:
            for connection in self._open:
                connection.interrupt()
