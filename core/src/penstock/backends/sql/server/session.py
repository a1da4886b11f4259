"""A session over a connection that returns all rows of a query at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from penstock.backends.shared.attempts.refusals import as_planning
from penstock.backends.sql.dialect import Type
from penstock.backends.sql.session import NamedRelations, Row

T = TypeVar("T")
STREAMED = 1000
"""Rows fetched at once, if few are needed."""


class ServerConnection(Protocol):
    """A connection that raises the driver's errors."""

    side: str

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Row]: ...

    def change(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Execute a statement; return how many rows it matched."""
        ...

    def close(self) -> None: ...


class ServerSession(NamedRelations, ABC):
    """The part of a `Session` that is the same for servers."""

    connection: ServerConnection
    side: str

    @property
    @abstractmethod
    def server(self) -> str:
        """A text that distinguishes this database from others."""

    @abstractmethod
    def translated(self, subject: str = "") -> AbstractContextManager[None]:
        """Translate the driver's errors to Penstock's."""

    @abstractmethod
    def search_path(self) -> tuple[str, ...]: ...

    @abstractmethod
    def stream(self, query: str, subject: str) -> Iterator[Row]: ...

    @abstractmethod
    def describe(self, query: str, subject: str) -> list[tuple[str, Type]]: ...

    def resolve_type(self, type_text: str, subject: str) -> Type:
        """Return a type that the user wrote, as the server describes it."""

        def ask() -> Type:
            ((_, type_),) = self.describe(f"SELECT CAST(NULL AS {type_text}) AS made", subject)
            return type_

        return self.cached(("type", type_text), ask)

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result of `make`, called once while there are `catalog_facts`."""
        return make() if self.catalog_facts is None else self.catalog_facts.once(key, make)

    def check(self, query: str, subject: str) -> None:
        self.describe(query, subject)

    def fetch(self, query: str, subject: str, values: Sequence[Any] = ()) -> list[Row]:
        with as_planning(), self.translated(subject):
            return self.connection.rows(query, values)

    def run(self, statements: str) -> int:
        count = 0
        with self.translated():
            for statement in statements.split(";\n"):
                count = self.connection.change(statement)
        return count


class InterruptibleConnection(ServerConnection, Protocol):
    """A connection whose statement another thread can cancel, and which can stream a result."""

    def interrupt(self) -> None:
        """Cancel the statement that another thread waits for."""
        ...

    def stream(self, query: str, count: int) -> Iterator[list[Row]]:
        """Yield the rows of a query, at most `count` at a time, over a separate session.

        This session can answer other questions in between, and its transaction survives an error in
        the query.
        """
        ...


class InterruptibleSession(ServerSession):
    """A session whose statements another thread can cancel."""

    connection: InterruptibleConnection

    def stream(self, query: str, subject: str) -> Iterator[Row]:
        with as_planning(), self.translated(subject):
            for rows in self.connection.stream(query, STREAMED):
                yield from rows
