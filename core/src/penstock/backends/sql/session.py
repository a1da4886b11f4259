"""What the kit asks of a database's session."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

from penstock.backends.sql.catalog.described import CatalogFacts, TableQuery
from penstock.backends.sql.dialect import CatalogDialect, Type, raw
from penstock.model.tables import Query, Relation, TableRef

Row = tuple[Any, ...]


class Session(Protocol):
    """Texts of values mean the same in all of its sessions: the zone is UTC.

    They raise `PlanningError` where the database refuses, `TransientError` where another try may
    help; `subject` says in their messages what was asked for.
    """

    known: CatalogFacts | None
    """What is kept of the catalog's answers, while many tables are described."""

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

    def about(self, query: TableQuery, table: TableRef) -> list[Row]:
        """What a catalog says of a table; with it, of all that are `known`."""
        ...

    def described(self, table: TableRef) -> list[tuple[str, Type]]:
        """Names and types of a table's columns; with them, those of all that are `known`."""
        ...

    def once(self, query: str, subject: str, values: Sequence[Any] = ()) -> list[Row]:
        """`fetch`, kept as long as something is `known`."""
        ...

    def about_all(self, query: TableQuery, tables: Sequence[TableRef]) -> dict[TableRef, list[Row]]:
        """What a catalog says of some tables now, by table."""
        ...

    def describe_all(
        self, tables: Sequence[TableRef]
    ) -> Mapping[TableRef, Sequence[tuple[str, Type]]]:
        """Names and types of the columns of some tables, by table."""
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

    def hold(self, values: Mapping[str, str]) -> None:
        """Keep secret texts by name, for the expressions of masks; see `Masking.held`."""
        ...


class NamedRelations:
    """The part of a `Session` that names what it reads."""

    dialect: CatalogDialect
    catalog: Any
    known: CatalogFacts | None = None

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

    def about(self, query: TableQuery, table: TableRef) -> list[Row]:
        if self.known is None:
            return self.about_all(query, [table])[table]
        return self.known.about(query, table, partial(self.about_all, query))

    def about_all(self, query: TableQuery, tables: Sequence[TableRef]) -> dict[TableRef, list[Row]]:
        named = {self.in_catalog(table): table for table in tables}
        text, values = query.statement(self.dialect.placeholder, self.catalog, list(named))
        subject = f"table {tables[0]}" if len(tables) == 1 else "tables"
        found: dict[TableRef, list[Row]] = {table: [] for table in tables}
        for schema, name, *row in self.fetch(text, subject, values):
            found[named[TableRef(schema, name)]].append(tuple(row))
        return found

    def once(self, query: str, subject: str, values: Sequence[Any] = ()) -> list[Row]:
        """The rows of a query; they are kept as long as something is `known`."""
        if self.known is None:
            return self.fetch(query, subject, values)
        return self.known.once((query, *values), lambda: self.fetch(query, subject, values))

    def in_catalog(self, table: TableRef) -> TableRef:
        """A table's name as the catalog writes it."""
        return table

    def described(self, table: TableRef) -> list[tuple[str, Type]]:
        if self.known is None:
            return list(self.describe_all([table])[table])
        return list(self.known.about("described", table, self.describe_all))

    def describe_all(
        self, tables: Sequence[TableRef]
    ) -> Mapping[TableRef, Sequence[tuple[str, Type]]]:
        """By table; nothing of one that is not there, if others are asked for, too."""
        return {
            table: self.describe(f"SELECT * FROM {self.table(table)}", f"table {table}")
            for table in tables
        }

    @abstractmethod
    def describe(self, query: str, subject: str) -> list[tuple[str, Type]]: ...

    def hold(self, values: Mapping[str, str]) -> None:
        assert not values, "planning refuses masks with a key where a session can hold none"


@contextmanager
def keeping(session: Session, relations: Sequence[Relation]) -> Iterator[None]:
    """Keep what the catalog says of some tables meanwhile; see `DescribesMany`."""
    before, session.known = session.known, CatalogFacts(relations)
    try:
        yield
    finally:
        session.known = before


def closed(text: str, rows: str, *, tests: bool = False) -> str:
    """A query in which the database refuses SQL that closes a bracket which it did not open.

    It would be an expression of its own within ours, where it is put in parentheses.

    Parameters:
        tests: the text is a condition, which not every database takes for a value.
    """
    case = f"CASE WHEN\n{text}\nTHEN 1 END" if tests else f"CASE WHEN 1 = 1 THEN\n{text}\nEND"
    return f"SELECT {case} FROM {rows}"
