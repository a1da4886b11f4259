"""A server's tables as a target, into which record batches are loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, ClassVar, Generic, TypeVar

from penstock.backends.api.facts import Fit, LoadRequest
from penstock.backends.shared.arrow import held_kinds, schema_of, schema_to_text
from penstock.backends.shared.fitting import fit_column
from penstock.backends.shared.type_table import TypeTable
from penstock.backends.sql.load_plan import TargetTables, plan_load
from penstock.backends.sql.relations import TYPE, read_columns
from penstock.backends.sql.server.session import InterruptibleSession
from penstock.backends.sql.session import keeping
from penstock.backends.sql.target import SqlTarget, no_rows
from penstock.model.plans import LoadPlan
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, Relation, TableRef

S = TypeVar("S", bound=InterruptibleSession)


class ServerTables(TargetTables):
    """Tables of a server, of which each column holds what its record batches do."""

    def kinds(self, columns: Sequence[Column]) -> Mapping[str, str]:
        return held_kinds(columns)


class ServerTarget(SqlTarget, Generic[S]):
    types: ClassVar[TypeTable[Any]]

    def __init__(self, session: S) -> None:
        self._session = session
        self._defined: dict[TableRef, tuple[Column, ...]] = {}

    def close(self) -> None:
        self._session.connection.close()

    def describing(self, relations: Sequence[Relation]) -> AbstractContextManager[None]:
        self._defined.clear()
        return keeping(self._session, relations)

    @contextmanager
    def _reading(self) -> Iterator[S]:
        yield self._session

    @contextmanager
    def _rows_made(self, table: TableRef) -> Iterator[tuple[S, str]]:
        yield self._session, no_rows(self._session, self._defined[table])

    # For subclasses

    def table_columns(self, table: TableRef) -> tuple[Column, ...]:
        """With the trait `TYPE`.

        Raises:
            PlanningError: no such table or view.
        """
        return read_columns(self._session, table)

    def alike(
        self, table: TableRef, definition: TableDefinition, columns: Sequence[Column]
    ) -> Mapping[str, Column]:
        """Columns as a table of the same system has them, by name: with defaults and more in their
        types."""
        return {}

    def unlike(self, column: Column, definition: TableDefinition, type_: str) -> str:
        """The type of a column that is made like another system's.

        Parameters:
            type_: that of all of its kind.
        """
        return type_

    # The same for all

    def columns(self, table: TableRef) -> tuple[Column, ...]:
        return tuple(map(self._in_arrow, self.table_columns(table)))

    def _in_arrow(self, column: Column) -> Column:
        return self.types.in_arrow(column, column.traits[TYPE])

    def defined_columns(
        self,
        table: TableRef,
        definition: TableDefinition,
        columns: Sequence[Column],
        types: Mapping[str, str],
    ) -> tuple[Column, ...]:
        whole: Mapping[str, Column] = {}
        made: dict[str, str] = {}
        if definition.dialect == self.tables.definitions:
            whole = self.alike(table, definition, columns)
        else:
            made = self.types.made.of_all(columns, definition, types)
        found = []
        for column in columns:
            name, asked = column.name, types.get(column.name, "")
            type_ = column.type
            if asked:
                type_ = self.types.asked(name, asked)
            elif name in made:
                type_ = self.unlike(column, definition, made[name])
            described = self._session.type_made(type_, f"column {name} of {table}")
            plain = replace(column, type=type_, generated=False)
            if name in whole and not asked:
                plain = whole[name]
            found.append(self._in_arrow(replace(plain, traits={TYPE: described})))
        self._defined[table] = tuple(found)
        return self._defined[table]

    def identity(self, table: TableRef) -> str:
        return f"{self._session.server}:{table}"

    def fit(self, source: Sequence[Column], target: Sequence[Column]) -> list[Fit]:
        return [fit_column(mine, theirs) for mine, theirs in zip(source, target, strict=True)]

    def plan_load(self, request: LoadRequest) -> LoadPlan:
        columns = request.made or self.columns(request.target)
        by_name = {column.name: column for column in columns}
        written = schema_of(by_name[pair.target] for pair in request.pairs)
        return plan_load(self._session, self.tables, request, columns, schema_to_text(written))
