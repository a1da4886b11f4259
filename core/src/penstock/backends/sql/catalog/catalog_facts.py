"""Facts from a catalog about many tables; each question is asked once, for all of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.backends.shared.bisection import halved
from penstock.errors import PlanningError
from penstock.model.tables import Relation, TableRef

T = TypeVar("T")
# Tables per statement.
AT_ONCE = 300


class CatalogFacts:
    """The facts about some tables, as of the first question.

    If the database refuses to answer for all tables, each half is asked separately. An error is
    then raised only where the table that causes it is asked for.
    """

    def __init__(self, relations: Iterable[Relation]) -> None:
        self.tables = [each for each in dict.fromkeys(relations) if isinstance(each, TableRef)]
        self.forget()

    def forget(self) -> None:
        """Drop all facts, so that they are read again when needed."""
        self._once: dict[Hashable, Any] = {}
        self._answers: dict[Hashable, dict[TableRef, Any]] = {}
        self._errors: dict[Hashable, dict[TableRef, PlanningError]] = {}

    def once(self, key: Hashable, ask: Callable[[], T]) -> T:
        """Return a fact that depends on no single table."""
        if key not in self._once:
            self._once[key] = ask()
        fact: T = self._once[key]
        return fact

    def about(
        self,
        key: Hashable,
        table: TableRef,
        ask: Callable[[Sequence[TableRef]], Mapping[TableRef, T]],
    ) -> T:
        """Return a fact about a table.

        Args:
            key: the kind of fact, as a key.
            table: the table.
            ask: answers for each of several tables.

        Raises:
            PlanningError: the database's error for this table.
        """
        answers = self._answers.setdefault(key, {})
        errors = self._errors.setdefault(key, {})
        if table not in answers and table not in errors:
            remaining_tables = [
                each for each in self.tables if each not in answers and each not in errors
            ]
            tables = list(dict.fromkeys([table, *remaining_tables]))
            for first in range(0, len(tables), AT_ONCE):
                some, failed = halved(tables[first : first + AT_ONCE], ask, PlanningError)
                answers |= some
                errors |= failed
        if table in errors:
            raise errors[table]
        answer: T = answers[table]
        return answer


@dataclass(frozen=True, slots=True)
class TableQuery:
    """A question to a catalog about tables, which can be asked for one or for many."""

    columns: str
    """The columns as in a SELECT."""
    rows: str
    """The item of FROM."""
    schema: str
    """The column that names a table's schema."""
    name: str
    """The column that names the table."""
    tests: str = ""
    """Further conditions; `{catalog}` stands for the placeholder of the database's name."""
    order: str = ""
    """The sort order of a table's rows."""

    def statement(
        self, placeholder: Callable[[int], str], catalog: str, tables: Sequence[TableRef]
    ) -> tuple[str, list[str]]:
        """Return the query and its values. The rows begin with the table's schema and name.

        Args:
            placeholder: returns the placeholder of a value, by its place from 1.
            catalog: the name of the database.
            tables: the tables.
        """
        values: list[str] = []

        def place(value: str) -> str:
            values.append(value)
            return placeholder(len(values))

        tests = [self.tests.format(catalog=place(catalog))] if "{" in self.tests else []
        tests += [self.tests] if self.tests and not tests else []
        by_schema: dict[str, list[str]] = {}
        for table in tables:
            by_schema.setdefault(table.schema, []).append(table.name)
        some = []
        for schema, names in by_schema.items():
            of, places = place(schema), [place(name) for name in names]
            # Some catalogs look up a single table, but scan for several.
            tested = f"IN ({', '.join(places)})" if len(places) > 1 else f"= {places[0]}"
            some.append(f"({self.schema} = {of} AND {self.name} {tested})")
        tests.append(f"({' OR '.join(some)})")
        ordered = f" ORDER BY {self.order}" if self.order else ""
        return (
            f"SELECT {self.schema}, {self.name}, {self.columns} FROM {self.rows}"
            f" WHERE {' AND '.join(tests)}{ordered}",
            values,
        )
