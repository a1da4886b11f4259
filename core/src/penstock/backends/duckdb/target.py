"""The target's tables, checked before anything is changed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import duckdb

from penstock.backends.api.facts import Fit, LoadRequest
from penstock.backends.duckdb.catalog.definition import DIALECT, read_type
from penstock.backends.duckdb.catalog.tables import (
    read_columns,
    relations,
    search_path,
    unique_keys,
)
from penstock.backends.duckdb.catalog.values import with_arrow
from penstock.backends.duckdb.control import ControlTables
from penstock.backends.duckdb.database import Database
from penstock.backends.duckdb.dialect import ident
from penstock.backends.duckdb.errors import planning
from penstock.backends.duckdb.load.fitting import column_type, fit_columns
from penstock.backends.duckdb.load.load_plan import plan_load
from penstock.backends.duckdb.location import path_of
from penstock.backends.duckdb.session import DuckSession
from penstock.backends.duckdb.snapshot import identity
from penstock.backends.shared.arrow import arrow_type
from penstock.backends.sql.relations import find_by_name
from penstock.backends.sql.target import SqlTarget
from penstock.errors import PlanningError
from penstock.model.extents import Extent
from penstock.model.plans import LoadPlan
from penstock.model.tables import Column, TableDefinition, TableRef
from penstock.spec.modes import Mode


class DuckTarget(SqlTarget):
    def __init__(self, url: str, control_schema: str) -> None:
        path = path_of(url)
        if path is None:
            raise PlanningError(
                "target: a database in memory ends with its process; expected "
                "duckdb:///relative/path or duckdb:////absolute/path"
            )
        self._database = Database(path)
        self.control = ControlTables(self._database, control_schema)
        self._made: tuple[Column, ...] = ()

    def close(self) -> None:
        self._database.interrupt()
        self.control.leave()

    @contextmanager
    def _reading(self) -> Iterator[DuckSession]:
        with self._database.reading() as connection:
            yield DuckSession(connection, "target")

    def schemas(self) -> tuple[str, ...]:
        with self._reading() as session:
            return search_path(session)

    def find(self, name: str) -> TableRef | None:
        with self._reading() as session:
            return find_by_name(_relations(session), search_path(session), name)

    def columns(self, table: TableRef) -> tuple[Column, ...]:
        with self._reading() as session:
            return _in_arrow(session, table)

    def identity(self, table: TableRef) -> str:
        # Of the file: nobody writes to one that is read as a source.
        return identity(self._database.path)

    def makes(self, table: TableRef, mode: Mode) -> bool:
        if mode.recreates:
            return True
        if mode.merges_by_key:
            return False  # a new table would have no key to find rows by
        with self._reading() as session:
            return table not in _relations(session)

    def defined_columns(
        self,
        table: TableRef,
        definition: TableDefinition,
        columns: Sequence[Column],
        types: Mapping[str, str],
    ) -> tuple[Column, ...]:
        made = []
        for column in columns:
            if column.name in types:
                type_ = read_type(types[column.name], column.name)
            elif definition.dialect == DIALECT:
                type_ = column.type
            else:
                type_, _ = column_type(arrow_type(column), column.name)
            made.append(Column(column.name, type_, column.nullable))
        # Made in memory, and looked at.
        with _scratch(made) as (session, scratch):
            found = _in_arrow(session, scratch)
        self._made = tuple(
            replace(column, nullable=wanted.nullable)
            for column, wanted in zip(found, made, strict=True)
        )
        return self._made

    def fit(self, source: Sequence[Column], target: Sequence[Column]) -> list[Fit]:
        return fit_columns(source, target)

    def check_writable(self, table: TableRef, mode: Mode, columns: Sequence[str]) -> None:
        self._check_file()
        with self._reading() as session:
            if _relations(session)[table]:
                raise PlanningError(f"target: expected {table} to be a table, found a view")

    def _check_file(self) -> None:
        path = self._database.path
        folder = os.path.dirname(path)
        if not os.path.isdir(folder):
            raise PlanningError(f"target: expected a folder {folder} for the database, found none")
        for name in (path, folder):
            if os.path.exists(name) and not os.access(name, os.W_OK):
                raise PlanningError(f"target: expected that {name} can be written, found it cannot")

    def plan_load(self, request: LoadRequest) -> LoadPlan:
        self._check_file()
        with self._reading() as session:
            columns = request.made or _in_arrow(session, request.target)
            return plan_load(session, request, columns)

    def check_condition(self, table: TableRef, where: str | None, extent: Extent) -> None:
        with self._reading() as session:
            known = table in _relations(session)
            if known:
                self._check(session, session.table(table), table, where, extent)
        if not known:
            with _scratch(self._made) as (session, scratch):
                self._check(session, session.table(scratch), table, where, extent)

    def unique_key(self, table: TableRef) -> tuple[str, ...]:
        with self._reading() as session:
            nullable = {column.name: column.nullable for column in read_columns(session, table)}
            for key in unique_keys(session, table):
                if not any(nullable[name] for name in key.names):
                    return key.names
        return ()


def _relations(session: DuckSession) -> dict[TableRef, bool]:
    return relations(session.connection, session.catalog)


@contextmanager
def _scratch(columns: Sequence[Column]) -> Iterator[tuple[DuckSession, TableRef]]:
    """A table of these columns, in memory."""
    listed = ", ".join(f"{ident(column.name)} {column.type}" for column in columns)
    with duckdb.connect() as connection:
        with planning("target", "the table that is made"):
            connection.execute(f"CREATE TABLE made ({listed})")
        yield DuckSession(connection, "target"), TableRef("main", "made")


def _in_arrow(session: DuckSession, table: TableRef) -> tuple[Column, ...]:
    """The columns of a table, each with the type in which its values travel."""
    return with_arrow(session, session.table(table), read_columns(session, table))
