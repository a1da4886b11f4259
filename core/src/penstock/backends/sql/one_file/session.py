"""A session over a driver's connection, whose `execute` returns what rows are fetched from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from penstock.backends.sql.dialect import CatalogDialect, raw
from penstock.backends.sql.session import Row
from penstock.model.tables import Query, Relation, TableRef


class DriverSession(ABC):
    """The part of a `Session` that is alike for such drivers."""

    dialect: CatalogDialect
    catalog: Any

    def __init__(self, connection: Any, side: str) -> None:
        self.connection = connection
        self.side = side
        self._closed = False

    @abstractmethod
    def planning(self, subject: str) -> AbstractContextManager[None]:
        """Raises the driver's errors as those that a `Session` raises."""

    def parenthesized(self, query: str) -> str:
        """A query that somebody wrote as an item of FROM. What is no single query is none.

        Raises:
            PlanningError: the database would take what is none for one.
        """
        return f"{raw(query)} AS query"

    def table(self, table: TableRef) -> str:
        return self.dialect.table(table)

    def rows_of(self, relation: Relation) -> str:
        """An item of FROM."""
        if isinstance(relation, Query):
            return self.parenthesized(relation.text)
        assert isinstance(relation, TableRef)
        return self.table(relation)

    def fetch(self, query: str, subject: str, values: Sequence[Any] = ()) -> list[Row]:
        with self.planning(subject):
            found: list[Row] = self.connection.execute(query, values).fetchall()
            return found

    def facts(self, query: str, table: TableRef) -> list[Row]:
        return self.fetch(query, f"table {table}", [self.catalog, table.schema, table.name])

    def check(self, query: str, subject: str) -> None:
        self.fetch(f"EXPLAIN {query}", subject)

    def close(self) -> None:
        """Cancel what runs, and disconnect. May be called twice."""
        if not self._closed:
            self._closed = True
            self.connection.interrupt()
            self.connection.close()
