"""A session over a driver's connection whose `execute` returns a cursor to fetch from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from penstock.backends.shared.in_use import InUse
from penstock.backends.sql.session import NamedRelations, Row


class DriverSession(NamedRelations, ABC):
    """The part of a `Session` that is the same for such drivers."""

    def __init__(self, connection: Any, side: str) -> None:
        self.connection = connection
        self.side = side
        self.in_use = InUse(self._free)
        """Calls of the connection are made within it, if another thread may close it."""
        self._closed = False

    @abstractmethod
    def search_path(self) -> tuple[str, ...]: ...

    @abstractmethod
    def planning(self, subject: str) -> AbstractContextManager[None]:
        """Translate the driver's errors to those that a `Session` raises."""

    @abstractmethod
    def translated(self, subject: str) -> AbstractContextManager[None]:
        """Translate errors in statements that change something."""

    def run(self, statements: str) -> int:
        with self.translated("statement"), self.in_use:
            return int(self.connection.execute(statements).rowcount)

    def run_many(self, statement: str, rows: Iterable[Row]) -> int:
        """Execute a statement once for each row of values; return how many rows it changed."""
        with self.translated("statement"), self.in_use:
            return int(self.connection.executemany(statement, rows).rowcount)

    def stream(self, query: str, subject: str) -> Iterator[Row]:
        with self.planning(subject):
            yield from self.connection.execute(query)

    def fetch(self, query: str, subject: str, values: Sequence[Any] = ()) -> list[Row]:
        with self.planning(subject), self.in_use:
            rows: list[Row] = self.connection.execute(query, values).fetchall()
            return rows

    def check(self, query: str, subject: str) -> None:
        self.fetch(f"EXPLAIN {query}", subject)

    def close(self) -> None:
        """Cancel what is running, and disconnect. May be called twice, from any thread."""
        if not self._closed:
            self._closed = True
            self.in_use.leave()
            self.connection.interrupt()
            self.in_use.free()

    def _free(self) -> None:
        self.connection.close()
