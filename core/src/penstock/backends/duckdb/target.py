"""The target's tables, checked before anything is changed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import duckdb

from penstock.backends.api.facts import Fit, LoadRequest
from penstock.backends.duckdb.capabilities import TARGET
from penstock.backends.duckdb.catalog.definition import DIALECT, read_type
from penstock.backends.duckdb.catalog.values import with_arrow
from penstock.backends.duckdb.control import ControlTables
from penstock.backends.duckdb.database import Database, check_folder
from penstock.backends.duckdb.dialect import ident
from penstock.backends.duckdb.errors import planning
from penstock.backends.duckdb.load.fitting import column_type, fit_columns
from penstock.backends.duckdb.load.load_plan import DuckTables
from penstock.backends.duckdb.location import path_of
from penstock.backends.duckdb.session import DuckSession
from penstock.backends.duckdb.snapshot import identity
from penstock.backends.shared.arrow import arrow_type, schema_of, schema_to_text
from penstock.backends.sql.load_plan import plan_load
from penstock.backends.sql.relations import read_columns
from penstock.backends.sql.target import SqlTarget
from penstock.errors import PlanningError
from penstock.model.plans import LoadPlan
from penstock.model.tables import Column, TableDefinition, TableRef
from penstock.spec.modes import Mode


class DuckTarget(SqlTarget):
    capabilities = TARGET
    tables = DuckTables()

    def __init__(self, url: str, control_schema: str) -> None:
        path = path_of(url)
        if path is None:
            raise PlanningError(
                "target: an in-memory database ends with its process; expected "
                "duckdb:///relative/path or duckdb:////absolute/path"
            )
        self._database = Database(path)
        self.control = ControlTables(self._database, control_schema)
        self._defined: tuple[Column, ...] = ()

    def close(self) -> None:
        self._database.interrupt()
        self.control.leave()

    @contextmanager
    def _reading(self) -> Iterator[DuckSession]:
        with self._database.reading() as connection:
            yield DuckSession(connection, "target")

    def columns(self, table: TableRef) -> tuple[Column, ...]:
        with self._reading() as session:
            return _in_arrow(session, table)

    def identity(self, table: TableRef) -> str:
        # Of the file: nobody writes to one that is read as a source.
        return identity(self._database.path)

    def defined_columns(
        self,
        table: TableRef,
        definition: TableDefinition,
        columns: Sequence[Column],
        types: Mapping[str, str],
    ) -> tuple[Column, ...]:
        self._defined = tuple(
            Column(column.name, _made_type(column, definition, types), column.nullable)
            for column in columns
        )
        # Made in memory, and looked at.
        with self._made() as (session, made):
            found = _in_arrow(session, made)
        return tuple(
            replace(column, nullable=wanted.nullable)
            for column, wanted in zip(found, self._defined, strict=True)
        )

    @contextmanager
    def _made(self) -> Iterator[tuple[DuckSession, TableRef]]:
        listed = ", ".join(f"{ident(column.name)} {column.type}" for column in self._defined)
        with duckdb.connect() as connection:
            with planning("target", "the table that is made"):
                connection.execute(f"CREATE TABLE made ({listed})")
            yield DuckSession(connection, "target"), TableRef("main", "made")

    def fit(self, source: Sequence[Column], target: Sequence[Column]) -> list[Fit]:
        return fit_columns(source, target)

    def check_writable(self, table: TableRef, mode: Mode, columns: Sequence[str]) -> None:
        self._check_file()
        super().check_writable(table, mode, columns)

    def _check_file(self) -> None:
        path = self._database.path
        check_folder(path)
        for name in (path, os.path.dirname(path)):
            if os.path.exists(name) and not os.access(name, os.W_OK):
                raise PlanningError(f"target: no permission to write to {name}")

    def plan_load(self, request: LoadRequest) -> LoadPlan:
        self._check_file()
        columns = request.made or self.columns(request.target)
        by_name = {column.name: column for column in columns}
        written = schema_of(by_name[pair.target] for pair in request.pairs)
        with self._reading() as session:
            return plan_load(session, self.tables, request, columns, schema_to_text(written))


def _in_arrow(session: DuckSession, table: TableRef) -> tuple[Column, ...]:
    """The columns of a table, each with the type in which its values travel."""
    return with_arrow(session, session.table(table), read_columns(session, table))


def _made_type(column: Column, definition: TableDefinition, types: Mapping[str, str]) -> str:
    if column.name in types:
        return read_type(types[column.name], column.name)
    if definition.dialect == DIALECT:
        return column.type
    type_, _ = column_type(arrow_type(column), column.name)
    return type_
