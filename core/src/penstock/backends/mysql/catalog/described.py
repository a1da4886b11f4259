"""Facts about many tables: each is asked for all of them by one statement, and kept."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.model.tables import Relation, TableRef

T = TypeVar("T")
Row = tuple[Any, ...]

# Tables that one statement asks about.
AT_ONCE = 300


@dataclass(frozen=True, slots=True)
class TableQuery:
    """A question about tables that the information schema answers for many at once."""

    listed: str
    """The columns to select, as SQL."""
    of: str
    """A table of the information schema."""
    tested: str = ""
    """A condition besides."""
    grouped: str = ""
    ordered: str = ""
    schema: str = "table_schema"
    name: str = "table_name"
    """Its columns that name a table."""

    def about(self, tables: Sequence[TableRef]) -> tuple[str, list[str]]:
        """The statement, whose rows begin with a schema and a name, and its values. It may answer
        about more tables: every combination of these schemas and names."""
        schemas = list(dict.fromkeys(table.schema for table in tables))
        names = list(dict.fromkeys(table.name for table in tables))
        tests = [
            f"{column} IN ({', '.join(['%s'] * len(values))})"
            # An equation is looked up.
            if len(values) > 1
            else f"{column} = %s"
            for column, values in ((self.schema, schemas), (self.name, names))
        ]
        tests += [self.tested] if self.tested else []
        words = [
            f"SELECT {self.schema}, {self.name}, {self.listed}",
            f"FROM information_schema.{self.of} WHERE {' AND '.join(tests)}",
        ]
        if self.grouped:
            words.append(f"GROUP BY {self.schema}, {self.name}, {self.grouped}")
        if self.ordered:
            words.append(f"ORDER BY {self.ordered}")
        return " ".join(words), [*schemas, *names]

    def sorted(
        self, rows: Iterable[Row], tables: Sequence[TableRef], *, folds: bool
    ) -> dict[TableRef, list[Row]]:
        """The rows by table, without its name.

        Parameters:
            folds: the server takes names of any case.
        """

        def known_as(schema: str, name: str) -> tuple[str, str]:
            return (schema.casefold(), name.casefold()) if folds else (schema, name)

        found: dict[tuple[str, str], list[Row]] = {}
        for schema, name, *row in rows:
            found.setdefault(known_as(schema, name), []).append(tuple(row))
        return {table: found.get(known_as(table.schema, table.name), []) for table in tables}


class Described:
    """What a server's catalog says of some tables, as of when each question was first put."""

    def __init__(self, relations: Iterable[Relation]) -> None:
        found = dict.fromkeys(each for each in relations if isinstance(each, TableRef))
        self.tables = tuple(found)
        self._among = frozenset(found)
        self.forget()

    def forget(self) -> None:
        """Ask anew for whatever is wanted from now on."""
        self._rows: dict[TableQuery, dict[TableRef, list[Row]]] = {}
        self._made: dict[Hashable, Any] = {}
        self._outdated: set[TableRef] = set()

    def outdate(self, table: TableRef) -> None:
        """Nothing that was found of it holds any more."""
        self._outdated.add(table)
        self._made.clear()

    def holds(self, table: TableRef) -> bool:
        return table in self._among and table not in self._outdated

    def rows(
        self,
        query: TableQuery,
        table: TableRef,
        ask: Callable[[TableQuery, Sequence[TableRef]], Mapping[TableRef, list[Row]]],
    ) -> list[Row]:
        """
        Parameters:
            table: one of these.
            ask: puts a question about some of them.
        """
        known = self._rows.setdefault(query, {})
        if table not in known:
            first = self.tables.index(table) // AT_ONCE * AT_ONCE
            known |= ask(query, self.tables[first : first + AT_ONCE])
        return known[table]

    def once(self, what: Hashable, make: Callable[[], T]) -> T:
        """Other questions."""
        if what not in self._made:
            self._made[what] = make()
        found: T = self._made[what]
        return found

    def of_each(
        self,
        what: Hashable,
        table: TableRef,
        others: Callable[[], Sequence[TableRef]],
        ask: Callable[[Sequence[TableRef]], Mapping[TableRef, T]],
    ) -> T | None:
        """A fact of which the first that is wanted is asked for with those of other tables.

        Parameters:
            others: those that may be asked about with it.
            ask: leaves out those that the server refuses to answer about.

        Returns: None where it is left out; it is to be asked about alone.
        """
        known: dict[TableRef, T] = self.once(what, dict)
        if table not in known:
            left = [each for each in others() if each not in known]
            known |= ask(left if table in left else [table])
        return known.get(table)
