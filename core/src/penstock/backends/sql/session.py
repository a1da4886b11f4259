"""What the kit asks of a database's session."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from penstock.backends.sql.dialect import CatalogDialect, Type, raw
from penstock.model.tables import Query, Relation, TableRef

Row = tuple[Any, ...]


class Session(Protocol):
    """Texts of values mean the same in all of its sessions: the zone is UTC.

    They raise `PlanningError` where the database refuses, `TransientError` where another try may
    help; `subject` says in their messages what was asked for.
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

    @property
    def catalog(self) -> str:
        """What the information schema calls the database."""
        ...

    def search_path(self) -> tuple[str, ...]:
        """The schemas in which a name without one is looked for."""
        ...

    def fetch(self, query: str, subject: str, values: Sequence[Any] = ()) -> list[Row]:
        """All rows of a query.

        Parameters:
            values: for the places in it; see `CatalogDialect.placeholder`.
        """
        ...

    def facts(self, query: str, table: TableRef) -> list[Row]:
        """What a catalog says of a table: the query's values are its database, schema and name."""
        ...

    def run(self, statements: str) -> int:
        """Do something to a table. Raises `PermanentError` where the database refuses.

        Returns: how many rows the last statement has changed.
        """
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


class NamedRelations:
    """The part of a `Session` that names what it reads."""

    dialect: CatalogDialect
    catalog: Any

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

    @abstractmethod
    def fetch(self, query: str, subject: str, values: Sequence[Any] = ()) -> list[Row]: ...

    def facts(self, query: str, table: TableRef) -> list[Row]:
        return self.fetch(query, f"table {table}", [self.catalog, table.schema, table.name])


def closed(text: str, rows: str, *, tests: bool = False) -> str:
    """A query in which the database refuses SQL that closes a bracket which it did not open.

    It would be an expression of its own within ours, where it is put in parentheses.

    Parameters:
        tests: the text is a condition, which not every database takes for a value.
    """
    case = f"CASE WHEN\n{text}\nTHEN 1 END" if tests else f"CASE WHEN 1 = 1 THEN\n{text}\nEND"
    return f"SELECT {case} FROM {rows}"
