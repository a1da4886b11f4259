"""The protocol of a session, for the shared SQL code."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

from penstock.backends.sql.catalog.catalog_facts import CatalogFacts, TableQuery
from penstock.backends.sql.dialect import CatalogDialect, Type, raw
from penstock.model.tables import Query, Relation, TableRef

Row = tuple[Any, ...]


class Session(Protocol):
    """A session. Texts of values mean the same in all sessions: the time zone is UTC.

    Methods raise `PlanningError` if the database rejects the request, and `TransientError` if a
    retry may help; `subject` names in messages what was requested.
    """

    catalog_facts: CatalogFacts | None
    """The catalog's answers that are kept while many tables are described."""

    @property
    def dialect(self) -> CatalogDialect: ...

    @property
    def side(self) -> str:
        """The side, `source` or `target`."""
        ...

    def table(self, table: TableRef) -> str:
        """Return a table as an item of FROM."""
        ...

    @property
    def catalog(self) -> str:
        """The name of the database in the information schema."""
        ...

    def search_path(self) -> tuple[str, ...]:
        """Return the schemas searched for a name without a schema."""
        ...

    def fetch(self, query: str, subject: str, values: Sequence[Any] = ()) -> list[Row]:
        """Return all rows of a query.

        Args:
            query: the query, with placeholders for the values.
            subject: the subject of error messages.
            values: the values of its placeholders; see `CatalogDialect.placeholder`.
        """
        ...

    def facts(self, query: str, table: TableRef) -> list[Row]:
        """Return a catalog's rows about a table.

        The query's values are its database, schema and name.
        """
        ...

    def about(self, query: TableQuery, table: TableRef) -> list[Row]:
        """Return a catalog's rows about a table.

        This also reads the rows of all tables of `catalog_facts`.
        """
        ...

    def column_types(self, table: TableRef) -> list[tuple[str, Type]]:
        """Return the names and types of a table's columns.

        This also reads the columns of all tables of `catalog_facts`.
        """
        ...

    def once(self, query: str, subject: str, values: Sequence[Any] = ()) -> list[Row]:
        """Return the rows of a query, kept while there are `catalog_facts`.

        Args:
            query: the query.
            subject: the subject of error messages.
            values: the values of the placeholders.
        """
        ...

    def about_all(self, query: TableQuery, tables: Sequence[TableRef]) -> dict[TableRef, list[Row]]:
        """Return a catalog's current rows about some tables, by table."""
        ...

    def describe_all(
        self, tables: Sequence[TableRef]
    ) -> Mapping[TableRef, Sequence[tuple[str, Type]]]:
        """Return the names and types of the columns of some tables, by table."""
        ...

    def run(self, statements: str) -> int:
        """Execute statements on a table. Raises `PermanentError` if the database rejects them.

        Returns:
            how many rows the last statement changed.
        """
        ...

    def stream(self, query: str, subject: str) -> Iterator[Row]:
        """Yield the rows of a query, a few at a time, while the session answers other questions."""
        ...

    def describe(self, query: str, subject: str) -> list[tuple[str, Type]]:
        """Return the names and types of a query's columns."""
        ...

    def check(self, query: str, subject: str) -> None:
        """Have the database parse a query and resolve its names, without running it."""
        ...

    def hold(self, values: Mapping[str, str]) -> None:
        """Store secret texts by name, for the expressions of masks; see `Masking.stored_bytes`."""
        ...


class NamedRelations:
    """The part of a `Session` that names what it reads."""

    dialect: CatalogDialect
    catalog: Any
    catalog_facts: CatalogFacts | None = None

    def parenthesized(self, query: str) -> str:
        """Return a user's query as an item of FROM.

        Raises:
            PlanningError: the text is not a single query, but the database would accept it.
        """
        return f"{raw(query)} AS query"

    def table(self, table: TableRef) -> str:
        return self.dialect.table(table)

    def rows_of(self, relation: Relation) -> str:
        """Return an item of FROM."""
        if isinstance(relation, Query):
            return self.parenthesized(relation.text)
        assert isinstance(relation, TableRef)
        return self.table(relation)

    @abstractmethod
    def fetch(self, query: str, subject: str, values: Sequence[Any] = ()) -> list[Row]: ...

    def facts(self, query: str, table: TableRef) -> list[Row]:
        return self.fetch(query, f"table {table}", [self.catalog, table.schema, table.name])

    def about(self, query: TableQuery, table: TableRef) -> list[Row]:
        if self.catalog_facts is None:
            return self.about_all(query, [table])[table]
        return self.catalog_facts.about(query, table, partial(self.about_all, query))

    def about_all(self, query: TableQuery, tables: Sequence[TableRef]) -> dict[TableRef, list[Row]]:
        by_name = {self.in_catalog(table): table for table in tables}
        text, values = query.statement(self.dialect.placeholder, self.catalog, list(by_name))
        subject = f"table {tables[0]}" if len(tables) == 1 else "tables"
        rows: dict[TableRef, list[Row]] = {table: [] for table in tables}
        for schema, name, *row in self.fetch(text, subject, values):
            rows[by_name[TableRef(schema, name)]].append(tuple(row))
        return rows

    def once(self, query: str, subject: str, values: Sequence[Any] = ()) -> list[Row]:
        """Return the rows of a query, kept while there are `catalog_facts`.

        Args:
            query: the query.
            subject: the subject of error messages.
            values: the values of the placeholders.
        """
        if self.catalog_facts is None:
            return self.fetch(query, subject, values)
        return self.catalog_facts.once((query, *values), lambda: self.fetch(query, subject, values))

    def in_catalog(self, table: TableRef) -> TableRef:
        """Return a table's name as the catalog writes it."""
        return table

    def column_types(self, table: TableRef) -> list[tuple[str, Type]]:
        if self.catalog_facts is None:
            return list(self.describe_all([table])[table])
        return list(self.catalog_facts.about("described", table, self.describe_all))

    def describe_all(
        self, tables: Sequence[TableRef]
    ) -> Mapping[TableRef, Sequence[tuple[str, Type]]]:
        """Return columns by table.

        If several tables are asked for, missing ones are left out.
        """
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
    """Keep the catalog's facts about some tables during the block; see `DescribesMany`."""
    before, session.catalog_facts = session.catalog_facts, CatalogFacts(relations)
    try:
        yield
    finally:
        session.catalog_facts = before


def closed(text: str, rows: str, *, tests: bool = False) -> str:
    """Return a query in which the database rejects SQL that closes a bracket it did not open.

    In parentheses such SQL would change the expression around it.

    Args:
        text: the SQL that the user wrote.
        rows: the item of FROM that it selects from.
        tests: whether the text is a condition, which not every database accepts as a value.
    """
    case = f"CASE WHEN\n{text}\nTHEN 1 END" if tests else f"CASE WHEN 1 = 1 THEN\n{text}\nEND"
    return f"SELECT {case} FROM {rows}"
