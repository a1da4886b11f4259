"""A server's tables as a target for record batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Generic, TypeVar

from penstock.backends.api.facts import Fit, LoadRequest
from penstock.backends.shared.values.arrow import schema_of, schema_to_text, value_kinds
from penstock.backends.shared.values.fitting import fit_column
from penstock.backends.shared.values.type_table import TypeTable
from penstock.backends.sql.catalog.relations import TYPE, read_columns
from penstock.backends.sql.dialect import Type
from penstock.backends.sql.loads.load_plan import TargetTables, plan_load
from penstock.backends.sql.server.session import ServerSession
from penstock.backends.sql.session import keeping
from penstock.backends.sql.target import SqlTarget, no_rows
from penstock.model.plans import LoadPlan
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, Relation, TableRef

S = TypeVar("S", bound=ServerSession)


class ServerTables(TargetTables):
    """The tables of a server, in which each column holds what its record batches do."""

    def kinds(self, columns: Sequence[Column]) -> Mapping[str, str]:
        return value_kinds(columns)


class ServerTarget(SqlTarget, Generic[S]):
    """A target that asks the server over one session; subclasses write the server's own queries."""

    types: TypeTable[Any]

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
    def _created_rows(self, table: TableRef) -> Iterator[tuple[S, str]]:
        yield self._session, no_rows(self._session, self._defined[table])

    # For subclasses

    def table_columns(self, table: TableRef) -> tuple[Column, ...]:
        """Return a table's columns with the trait `TYPE`.

        Raises:
            PlanningError: the table or view does not exist.
        """
        return read_columns(self._session, table)

    def cloned_columns(
        self, table: TableRef, definition: TableDefinition, columns: Sequence[Column]
    ) -> Mapping[str, Column]:
        """Return, by name, columns like those of a table of the same system.

        Their types include defaults and more.

        Args:
            table: the table.
            definition: the definition of the source's table.
            columns: the columns.
        """
        return {}

    def translated_type(self, column: Column, definition: TableDefinition, type_: str) -> str:
        """Return the type of a column created like another system's.

        Args:
            column: the column.
            definition: the definition of the source's table.
            type_: the usual type for its kind.
        """
        return type_

    def translated_types(
        self, columns: Sequence[Column], definition: TableDefinition, types: Mapping[str, str]
    ) -> Mapping[str, str]:
        """Return the types of all columns, by name, except those that the user specified.

        Args:
            columns: the columns.
            definition: the definition of the source's table.
            types: the types that the user specified, by column.
        """
        created = self.types.created.of_all(columns, definition, types)
        return {
            column.name: self.translated_type(column, definition, created[column.name])
            for column in columns
            if column.name in created
        }

    def type_clause(self, column: Column) -> str:
        """Return a column's type as it appears in CREATE TABLE."""
        return column.type

    def created_types(
        self, table: TableRef, columns: Sequence[Column], plain: Sequence[str]
    ) -> Sequence[Type]:
        """Return the types of new columns, as the server describes them.

        Args:
            table: the table.
            columns: as they appear in CREATE TABLE.
            plain: their types, without defaults and the like.
        """
        return [
            self._session.resolve_type(type_, f"column {column.name} of {table}")
            for column, type_ in zip(columns, plain, strict=True)
        ]

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
        translated: Mapping[str, str] = {}
        if definition.dialect == self.tables.definitions:
            whole = self.cloned_columns(table, definition, columns)
        else:
            translated = self.translated_types(columns, definition, types)
        clauses, plain = [], []
        for column in columns:
            name, requested = column.name, types.get(column.name, "")
            type_ = (
                self.types.requested_type(name, requested)
                if requested
                else translated.get(name, column.type)
            )
            mine = replace(column, type=type_, generated=False)
            mine = replace(mine, type=self.type_clause(mine))
            clauses.append(whole[name] if name in whole and not requested else mine)
            plain.append(type_)
        described = self.created_types(table, clauses, plain)
        self._defined[table] = tuple(
            self._in_arrow(replace(column, traits={TYPE: kind}))
            for column, kind in zip(clauses, described, strict=True)
        )
        return self._defined[table]

    def identity(self, table: TableRef) -> str:
        return f"{self._session.server}:{table}"

    def fit(self, source: Sequence[Column], target: Sequence[Column]) -> list[Fit]:
        return [fit_column(mine, theirs) for mine, theirs in zip(source, target, strict=True)]

    def plan_load(self, request: LoadRequest) -> LoadPlan:
        columns = (
            request.new_columns or request.columns_after_changes or self.columns(request.target)
        )
        by_name = {column.name: column for column in columns}
        stream_schema = schema_of(by_name[pair.target] for pair in request.pairs)
        return plan_load(
            self._session, self.tables, request, columns, schema_to_text(stream_schema)
        )
