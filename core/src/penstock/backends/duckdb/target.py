"""The target's tables, checked before anything is changed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from duckdb import DuckDBPyConnection

from penstock.backends.api.facts import Checksum, Fit, LoadRequest
from penstock.backends.duckdb.catalog.conditions import condition
from penstock.backends.duckdb.catalog.definition import DIALECT, read_type
from penstock.backends.duckdb.catalog.facts import DuckCatalog
from penstock.backends.duckdb.catalog.tables import (
    TYPE,
    find_by_name,
    read_columns,
    relations,
    search_path,
    unique_keys,
)
from penstock.backends.duckdb.catalog.values import arrow_types
from penstock.backends.duckdb.connection import catalog_name, full_name
from penstock.backends.duckdb.control import ControlTables
from penstock.backends.duckdb.database import Database
from penstock.backends.duckdb.errors import planning
from penstock.backends.duckdb.load.fitting import column_type, fit_columns
from penstock.backends.duckdb.load.load_plan import plan_load
from penstock.backends.duckdb.location import path_of
from penstock.backends.duckdb.snapshot import identity
from penstock.backends.shared.arrow import TRAIT, arrow_type
from penstock.errors import PlanningError
from penstock.model.extents import Extent
from penstock.model.plans import LoadPlan
from penstock.model.records import CommitRecord
from penstock.model.tables import Column, ColumnPair, Relation, TableDefinition, TableRef
from penstock.spec.modes import Mode


class DuckTarget:
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
    def _reading(self) -> Iterator[tuple[DuckDBPyConnection, str]]:
        with self._database.reading() as connection:
            yield connection, catalog_name(connection, "target")

    def schemas(self) -> tuple[str, ...]:
        with self._reading() as (connection, _):
            return search_path(connection)

    def find(self, name: str) -> TableRef | None:
        with self._reading() as (connection, catalog):
            return find_by_name(connection, catalog, name)

    def columns(self, table: TableRef) -> tuple[Column, ...]:
        with self._reading() as (connection, catalog):
            return _in_arrow(connection, catalog, table)

    def identity(self, table: TableRef) -> str:
        # Of the file: nobody writes to one that is read as a source.
        return identity(self._database.path)

    replaces_by_condition = True

    def makes(self, table: TableRef, mode: Mode) -> bool:
        if mode.recreates:
            return True
        if mode.merges_by_key:
            return False  # a new table would have no key to find rows by
        with self._reading() as (connection, catalog):
            return table not in relations(connection, catalog)

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
        with self._scratch(made) as (connection, catalog, scratch):
            found = _in_arrow(connection, catalog, scratch)
        self._made = tuple(
            replace(column, nullable=wanted.nullable)
            for column, wanted in zip(found, made, strict=True)
        )
        return self._made

    @contextmanager
    def _scratch(
        self, columns: Sequence[Column]
    ) -> Iterator[tuple[DuckDBPyConnection, str, TableRef]]:
        import duckdb  # noqa: PLC0415

        from penstock.backends.duckdb.quoting import ident  # noqa: PLC0415

        table = TableRef("main", "made")
        listed = ", ".join(f"{ident(column.name)} {column.type}" for column in columns)
        with duckdb.connect() as connection, planning("target", "the table that is made"):
            connection.execute(f"CREATE TABLE made ({listed})")
            yield connection, catalog_name(connection, "target"), table

    def fit(self, source: Sequence[Column], target: Sequence[Column]) -> list[Fit]:
        return fit_columns(source, target)

    def check_writable(self, table: TableRef, mode: Mode, columns: Sequence[str]) -> None:
        self._check_file()
        with self._reading() as (connection, catalog):
            if relations(connection, catalog)[table]:
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
        with self._reading() as (connection, catalog), planning("target", str(request.target)):
            columns = request.made or _in_arrow(connection, catalog, request.target)
            return plan_load(connection, catalog, request, columns)

    def check_condition(self, table: TableRef, where: str | None, extent: Extent) -> None:
        with self._reading() as (connection, catalog):
            known = table in relations(connection, catalog)
            if known:
                self._check(connection, full_name(catalog, table), table, where, extent)
        if not known:
            with self._scratch(self._made) as (connection, catalog, scratch):
                self._check(connection, full_name(catalog, scratch), table, where, extent)

    @staticmethod
    def _check(
        connection: DuckDBPyConnection,
        rows: str,
        table: TableRef,
        where: str | None,
        extent: Extent,
    ) -> None:
        with planning("target", f"--mode replace: the partitions' condition on {table}"):
            tested = condition(where, extent)
            connection.execute(f"EXPLAIN SELECT 1 FROM {rows} WHERE {tested}").fetchall()

    @contextmanager
    def _catalog(self) -> Iterator[DuckCatalog]:
        with self._reading() as (connection, catalog):

            def item(relation: Relation) -> str:
                assert isinstance(relation, TableRef)
                return full_name(catalog, relation)

            yield DuckCatalog(connection, item, "target")

    def checksum(
        self, table: TableRef, where: str | None, extent: Extent, pairs: Sequence[ColumnPair]
    ) -> Checksum:
        with self._catalog() as catalog:
            return catalog.checksum(table, where, extent, _mine(pairs))

    def checksums(
        self,
        table: TableRef,
        where: str | None,
        records: Sequence[CommitRecord],
        pairs: Sequence[ColumnPair],
        *,
        others: bool,
    ) -> Mapping[str, Checksum] | None:
        # A row does not tell who has loaded it.
        return None

    def unique_key(self, table: TableRef) -> tuple[str, ...]:
        with self._reading() as (connection, catalog):
            nullable = {
                column.name: column.nullable
                for column in read_columns(connection, catalog, table, "target")
            }
            for key in unique_keys(connection, catalog, table):
                if not any(nullable[name] for name in key.columns):
                    return key.columns
        return ()

    def row_digests(
        self,
        table: TableRef,
        where: str | None,
        extent: Extent,
        pairs: Sequence[ColumnPair],
        key: Sequence[str],
        only: Sequence[str] = (),
        *,
        loaded_by: Sequence[CommitRecord] = (),
        other_than: Sequence[CommitRecord] = (),
    ) -> Iterator[tuple[str, str]]:
        assert not loaded_by
        assert not other_than
        with self._catalog() as catalog:
            yield from catalog.row_digests(table, where, extent, _mine(pairs), key, only)


def _mine(pairs: Sequence[ColumnPair]) -> list[ColumnPair]:
    """The pairs as they are in the target alone."""
    return [ColumnPair(pair.target, pair.target, "", pair.canonical) for pair in pairs]


def _in_arrow(connection: DuckDBPyConnection, catalog: str, table: TableRef) -> tuple[Column, ...]:
    """The columns of a table, each with the type in which its values travel."""
    columns = read_columns(connection, catalog, table, "target")
    names, kinds = [c.name for c in columns], [c.traits[TYPE] for c in columns]
    with planning("target", f"table {table}"):
        found = arrow_types(connection, full_name(catalog, table), names, kinds)
    return tuple(
        replace(column, traits={**column.traits, TRAIT: type_})
        for column, type_ in zip(columns, found, strict=True)
    )
