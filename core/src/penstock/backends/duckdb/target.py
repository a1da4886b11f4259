"""The target's tables, checked before anything is changed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

import pyarrow as pa

from penstock.backends.api.facts import Fit, LoadRequest
from penstock.backends.api.optional.drift import PermittedDifferences
from penstock.backends.duckdb.capabilities import TARGET
from penstock.backends.duckdb.catalog.definition import DIALECT, read_type
from penstock.backends.duckdb.catalog.values import with_arrow
from penstock.backends.duckdb.connection import instance
from penstock.backends.duckdb.database import Database, check_folder
from penstock.backends.duckdb.dialect import ident, literal
from penstock.backends.duckdb.errors import planning
from penstock.backends.duckdb.load.drift import column_changes
from penstock.backends.duckdb.load.fitting import TEXT, column_type, fit_columns, text_type
from penstock.backends.duckdb.load.load_plan import DuckTables
from penstock.backends.duckdb.load_hooks import DuckLoadHooks
from penstock.backends.duckdb.session import DuckSession
from penstock.backends.shared.values.arrow import arrow_type
from penstock.backends.sql.catalog.relations import TYPE
from penstock.backends.sql.one_file.target import FileTarget
from penstock.backends.sql.session import Session
from penstock.errors import PlanningError
from penstock.model.drift import ColumnChange
from penstock.model.plans import LoadPlan
from penstock.model.table_model import ENUM, JSON, ColumnType, TableDefinition
from penstock.model.tables import Column, Relation, TableRef
from penstock.spec.modes import Mode

_MADE = "memory.main.made"


class DuckTarget(FileTarget):
    """The catalog of a DuckDB target."""

    capabilities = TARGET
    tables = DuckTables(DIALECT)
    load_hooks = DuckLoadHooks

    def __init__(self, path: str | None, control_schema: str) -> None:
        if path is None:
            raise PlanningError(
                "target: expected a database file, as in duckdb:///relative/path or "
                "duckdb:////absolute/path; found a database in memory, which ends with its process"
            )
        super().__init__(Database(path), control_schema)
        self._is_new = not os.path.exists(path)
        self._defined: dict[TableRef, tuple[Column, ...]] = {}

    def schemas_beside(self, table: TableRef) -> tuple[str, ...] | None:
        # In a file that does not exist yet, no schema can be mistyped.
        return None if self._is_new else super().schemas_beside(table)

    @contextmanager
    def describing(self, relations: Sequence[Relation]) -> Iterator[None]:
        self._defined.clear()
        with super().describing(relations):
            yield

    def in_arrow(
        self, session: Session, rows: str, columns: Sequence[Column]
    ) -> tuple[Column, ...]:
        return with_arrow(cast("DuckSession", session), rows, columns)

    def defined_columns(
        self,
        table: TableRef,
        definition: TableDefinition,
        columns: Sequence[Column],
        types: Mapping[str, str],
    ) -> tuple[Column, ...]:
        defined = self._defined[table] = tuple(
            Column(column.name, _made_type(column, definition, types), column.nullable)
            for column in columns
        )
        # Created in memory, and described.
        with self._created_table(table) as (session, table_made):
            types_made = session.column_types(table_made)
            typed = [
                replace(column_, type=str(type_), traits={TYPE: type_})
                for column_, (_, type_) in zip(defined, types_made, strict=True)
            ]
            return self.in_arrow(session, session.table(table_made), typed)

    @contextmanager
    def _created_table(self, table: TableRef) -> Iterator[tuple[DuckSession, TableRef]]:
        listed = ", ".join(f"{ident(column.name)} {column.type}" for column in self._defined[table])
        with instance() as connection:
            with planning("target", "the new table"):
                connection.execute(f"CREATE TABLE {_MADE} ({listed})")
            try:
                session = DuckSession(connection, "target")
                session.catalog = "memory"
                yield session, TableRef("main", "made")
            finally:
                connection.execute(f"DROP TABLE {_MADE}")

    def fit(self, source: Sequence[Column], target: Sequence[Column]) -> list[Fit]:
        return fit_columns(source, target)

    def text_types(self, columns: Sequence[Column]) -> list[pa.DataType | None]:
        return [text_type(column) for column in columns]

    def check_writable(self, table: TableRef, mode: Mode, columns: Sequence[str]) -> None:
        self._check_file()
        super().check_writable(table, mode, columns)

    def _check_file(self) -> None:
        path = self._database.path
        check_folder(path)
        for name in (path, os.path.dirname(path)):
            if os.path.exists(name) and not os.access(name, os.W_OK):
                raise PlanningError(f"target: no permission to write to {name}")

    def column_changes(
        self, table: TableRef, differences: PermittedDifferences
    ) -> tuple[ColumnChange, ...]:
        with self._reading() as session:
            return column_changes(session, table, differences)

    def plan_load(self, request: LoadRequest) -> LoadPlan:
        self._check_file()
        return super().plan_load(request)


def _made_type(column: Column, definition: TableDefinition, types: Mapping[str, str]) -> str:
    if column.name in types:
        return read_type(types[column.name], column.name)
    if definition.dialect == DIALECT:
        return column.type
    type_, _ = column_type(arrow_type(column), column.name)
    model = definition.model.types.get(column.name, ColumnType())
    if type_ == TEXT and model.kind == JSON:
        return "JSON"
    if type_ == TEXT and model.kind == ENUM and model.labels:
        return f"ENUM ({', '.join(map(literal, model.labels))})"
    return type_


open_target = DuckTarget
