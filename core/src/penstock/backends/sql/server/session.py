"""A session of a server, over a connection that gives the rows of a query at once."""

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
"""Rows that are fetched at once, where few are needed."""


class ServerConnection(Protocol):
    """What it is asked raises the driver's errors."""

    side: str

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[Row]: ...

    def change(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Returns: how many rows the statement has found."""
        ...

    def close(self) -> None: ...


class ServerSession(NamedRelations, ABC):
    """The part of a `Session` that is alike for servers."""

    connection: ServerConnection
    side: str

    @abstractmethod
    def translated(self, subject: str = "") -> AbstractContextManager[None]:
        """Turns the driver's errors into ours."""

    @abstractmethod
    def search_path(self) -> tuple[str, ...]: ...

    @abstractmethod
    def stream(self, query: str, subject: str) -> Iterator[Row]: ...

    @abstractmethod
    def describe(self, query: str, subject: str) -> list[tuple[str, Type]]: ...

    def type_made(self, written: str, subject: str) -> Type:
        """A type that somebody wrote, as the server describes it."""

        def ask() -> Type:
            ((_, type_),) = self.describe(f"SELECT CAST(NULL AS {written}) AS made", subject)
            return type_

        return self.kept(("type", written), ask)

    def kept(self, what: Hashable, make: Callable[[], T]) -> T:
        """What `make` returns, which is called once as long as something is `known`."""
        return make() if self.known is None else self.known.once(what, make)

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
    def interrupt(self) -> None:
        """End what another thread waits for."""
        ...

    def stream(self, query: str, count: int) -> Iterator[list[Row]]:
        """The rows of a query, at most `count` at once, over a session of its own: this one answers
        other questions in between, and its transaction survives an error of the query."""
        ...


class KnownServer(ServerSession):
    """One that tells which server it is of."""

    @property
    @abstractmethod
    def server(self) -> str:
        """A text that tells the server's database from others."""


class InterruptibleSession(KnownServer):
    """One whose statements another thread can end."""

    connection: InterruptibleConnection

    def stream(self, query: str, subject: str) -> Iterator[Row]:
        with as_planning(), self.translated(subject):
            for rows in self.connection.stream(query, STREAMED):
                yield from rows
