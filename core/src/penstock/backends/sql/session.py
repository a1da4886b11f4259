"""What the kit asks of a database's session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from penstock.backends.sql.dialect import CatalogDialect, Type
from penstock.model.tables import TableRef

Row = tuple[Any, ...]


class Session(Protocol):
    """Texts of values mean the same in all of its sessions: the zone is UTC.

    All methods raise `PlanningError` where the database refuses, `TransientError` where another
    try may help; `subject` says in their messages what was asked for.
    """

    @property
    def dialect(self) -> CatalogDialect: ...

    @property
    def side(self) -> str:
        """`source` or `target`."""
        ...

    def table(self, table: TableRef) -> str:
        """A table as an item of FROM."""
        ...

    def fetch(self, query: str, subject: str) -> list[Row]:
        """All rows of a query."""
        ...

    def stream(self, query: str, subject: str) -> Iterator[Row]:
        """The rows of a query, few at once, while the session answers other questions."""
        ...

    def describe(self, query: str, subject: str) -> list[tuple[str, Type]]:
        """Names and types of a query's columns."""
        ...

    def check(self, query: str, subject: str) -> None:
        """Have the database parse a query and resolve its names, but not run it."""
        ...


def closed(text: str, rows: str) -> str:
    """A query in which the database refuses SQL that closes a bracket which it did not open.

    It would be an expression of its own within ours, where it is put in parentheses.
    """
    return f"SELECT CASE WHEN 1 = 1 THEN\n{text}\nEND FROM {rows}"
