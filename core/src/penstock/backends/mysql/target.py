"""The target's tables, checked before anything is changed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial

from penstock.backends.api.facts import Fit, LoadRequest
from penstock.backends.api.optional.drift import PermittedDifferences
from penstock.backends.mysql.capabilities import TARGET
from penstock.backends.mysql.catalog.tables import (
    COLLATION,
    DIALECT,
    SRID,
    TRANSACTIONAL,
    creation_time,
    dialect_for_key,
    engine_of,
    flavour_of,
    native_columns,
    table_columns,
)
from penstock.backends.mysql.connection import connect
from penstock.backends.mysql.dialect import BY_BYTES, native_name, order_name
from penstock.backends.mysql.errors import planning
from penstock.backends.mysql.load.drift import column_changes
from penstock.backends.mysql.load.loaded_table import MySqlMarks
from penstock.backends.mysql.load.loading import read_settings
from penstock.backends.mysql.load.presence import MySqlPresence
from penstock.backends.mysql.load.rehearsal import own_key, temporary_table, without_numbers
from penstock.backends.mysql.load.table_parts import rehearse_clones
from penstock.backends.mysql.load.tables import MySqlTables, translated_types
from penstock.backends.mysql.load_hooks import MySqlLoadHooks
from penstock.backends.mysql.location import URLS
from penstock.backends.mysql.records import MySqlRecords
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.mysql.stream.lines import line_fit
from penstock.backends.mysql.types import MyType, is_text, types_of
from penstock.backends.shared.records.ledger import Ledger
from penstock.backends.shared.values import losses
from penstock.backends.shared.values.fitting import fit_column
from penstock.backends.sql.catalog.relations import TYPE, read_relations
from penstock.backends.sql.definitions.definition import listed_columns
from penstock.backends.sql.server.control import server_control
from penstock.backends.sql.server.target import ServerTarget
from penstock.errors import PlanningError
from penstock.model.drift import ColumnChange
from penstock.model.extents import Bound, Key, KeyRange
from penstock.model.plans import LoadPlan
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, TableRef
from penstock.spec.modes import Mode, Table

# Per table.
MOST_TYPES = 50
_GIVEN_SRID = "a value without a SRID gets the column's,"


class MySqlTarget(ServerTarget[MySqlSession]):
    """See `ServerTarget`."""

    capabilities = TARGET
    tables = MySqlTables(DIALECT)

    def __init__(self, url: str, control_schema: str) -> None:
        super().__init__(MySqlSession(connect(url, "target"), BY_BYTES))
        self.types = types_of(URLS.parse(url).options)
        records = MySqlRecords(self._session, control_schema)
        self.control = server_control(
            MySqlLoadHooks(Ledger(records), MySqlMarks(records)),
            MySqlPresence(records),
            partial(dialect_for_key, self._session),
        )

    def close(self) -> None:
        self._session.connection.abandon()

    def creates_table(self, table: TableRef, mode: Mode) -> bool:
        if mode.table is Table.RECREATED or mode not in self.capabilities.creating_modes:
            return mode.table is Table.RECREATED
        if table in read_relations(self._session):
            return False
        if creation_time(self._session, table) is None:
            return True
        # The table has been created in the meantime, so earlier facts no longer apply.
        if self._session.catalog_facts is not None:
            self._session.catalog_facts.forget()
        return False

    def table_columns(self, table: TableRef) -> tuple[Column, ...]:
        return table_columns(self._session, table)

    # Tables to create

    def defined_columns(
        self,
        table: TableRef,
        definition: TableDefinition,
        columns: Sequence[Column],
        types: Mapping[str, str],
    ) -> tuple[Column, ...]:
        defined = super().defined_columns(table, definition, columns, types)
        if self.tables.is_native(self._session, definition):
            return defined
        return tuple(self.tables.planned_columns(definition, defined, types))

    def cloned_columns(
        self, table: TableRef, definition: TableDefinition, columns: Sequence[Column]
    ) -> Mapping[str, Column]:
        if self.tables.is_native(self._session, definition):
            defaults = {column.name: column.has_default for column in columns}
            return {
                column.name: replace(column, has_default=defaults.get(column.name, False))
                for column in native_columns(definition)
            }
        collations = self._collations()
        return {
            column.name: replace(
                column,
                type=f"{column.type} COLLATE {column.traits[COLLATION]}",
                generated=False,
            )
            for column in columns
            if column.traits.get(COLLATION) in collations
        }

    def translated_types(
        self, columns: Sequence[Column], definition: TableDefinition, types: Mapping[str, str]
    ) -> Mapping[str, str]:
        return translated_types(self._session, columns, definition, types)

    def type_clause(self, column: Column) -> str:
        # Without NULL, some servers make the first timestamp NOT NULL with a default.
        null = column.nullable and column.type.lower().startswith("timestamp")
        return f"{column.type} NULL" if null else column.type

    def _collations(self) -> Collection[str]:
        """Return the server's collations."""

        def ask() -> Collection[str]:
            names = "SELECT collation_name FROM information_schema.collations"
            return {str(name) for (name,) in self._session.fetch(names, "collations")}

        return self._session.cached("collations", ask)

    def expect(self, definitions: Mapping[TableRef, TableDefinition]) -> None:
        own_definitions = [
            definition
            for definition in definitions.values()
            if self.tables.is_native(self._session, definition)
        ]
        if len(own_definitions) > 1:
            texts = {
                column.type
                for definition in own_definitions
                for column in native_columns(definition)
            }
            # References in a text to other columns are valid only in their own table.
            self._learn_types(sorted(text for text in texts if "`" not in text))
            rehearse_clones(self._session, own_definitions)

    def _learn_types(self, texts: Sequence[str]) -> None:
        """Learn the types of columns with these texts, as far as the server accepts them."""
        types: dict[str, MyType] = self._session.cached("types made", dict)
        for start in range(0, len(texts), MOST_TYPES):
            batch = texts[start : start + MOST_TYPES]
            columns = [Column(f"c{place}", text) for place, text in enumerate(batch)]
            with suppress(PlanningError):
                types.update(zip(batch, self._described(columns, "types"), strict=True))

    def created_types(
        self, table: TableRef, columns: Sequence[Column], plain: Sequence[str]
    ) -> Sequence[MyType]:
        # The types of other tables' columns with the same text are known.
        types: dict[str, MyType] = self._session.cached("types made", dict)
        if any(column.type not in types for column in columns):
            described = self._described(columns, f"{table}")
            types.update(zip((column.type for column in columns), described, strict=True))
        return [types[column.type] for column in columns]

    def _described(self, columns: Sequence[Column], subject: str) -> list[MyType]:
        """Return the types in a table created for this session alone."""
        with self._temporary_table(columns) as table:
            # Named explicitly: the table may have invisible columns.
            names = ", ".join(self._session.dialect.ident(column.name) for column in columns)
            query = f"SELECT {names} FROM {table}"
            return [type_ for _, type_ in self._session.describe(query, subject)]

    def _temporary_table(self, columns: Sequence[Column]) -> AbstractContextManager[str]:
        plain = [replace(each, nullable=True) for each in without_numbers(columns)]
        listed = listed_columns(self._session.dialect, plain)
        body = ", ".join([*listed, *own_key(self._session, ())])
        return temporary_table(self._session, body)

    @contextmanager
    def _created_rows(self, table: TableRef) -> Iterator[tuple[MySqlSession, str]]:
        with self._temporary_table(self._defined[table]) as rows:
            yield self._session, rows

    def fit(self, source: Sequence[Column], target: Sequence[Column]) -> list[Fit]:
        fits = [_fitting(mine, theirs) for mine, theirs in zip(source, target, strict=True)]
        with planning("target", "settings"):
            settings = self._session.cached(
                "settings", lambda: read_settings(self._session.connection)
            )
        if not settings.files:
            return fits
        return [line_fit(*each) for each in zip(fits, source, target, strict=True)]

    def shares_order(self, table: TableRef, key: Key, collation: str) -> bool:
        if collation != order_name(flavour_of(self._session), native_name(collation)):
            return False
        exists = table in read_relations(self._session)
        columns = self.columns(table) if exists else self._defined.get(table, ())
        by_name = {column.name: column for column in columns}
        column = by_name.get(key.text)
        if key.expression or column is None or not is_text(column.traits[TYPE]):
            return False
        compared = replace(key, collation=collation)
        try:
            self.check_condition(table, None, KeyRange(compared, Bound("text", ""), None))
        except PlanningError:
            return False  # of another character set
        return True

    def check_writable(self, table: TableRef, mode: Mode, columns: Sequence[str]) -> None:
        super().check_writable(table, mode, columns)
        engine = engine_of(self._session, table)
        if engine.lower() not in TRANSACTIONAL:
            raise PlanningError(
                f"target: expected {table} to use InnoDB, found engine {engine}, which cannot undo "
                "a failed copy; run ALTER TABLE ... ENGINE = InnoDB"
            )

    def column_changes(
        self, table: TableRef, differences: PermittedDifferences
    ) -> tuple[ColumnChange, ...]:
        return column_changes(self._session, table, differences)

    def plan_load(self, request: LoadRequest) -> LoadPlan:
        self._session.cached("writes", lambda: self._check_takes_writes(request.target))
        return super().plan_load(request)

    def _check_takes_writes(self, table: TableRef) -> None:
        """Check that the server accepts writes.

        Raises:
            PlanningError: the server is read-only, at least for this user.
        """
        with planning("target", f"{table}"):
            # Read-only servers reject this. Their settings do not show which users are exempt.
            self._session.connection.change("START TRANSACTION READ WRITE")
            self._session.connection.change("ROLLBACK")


def _fitting(mine: Column, theirs: Column) -> Fit:
    fit = fit_column(mine, theirs)
    if fit.canonical == "text" and _is_json(theirs) and not _is_json(mine):
        # MySQL reformats it; MariaDB keeps the text.
        return replace(fit, warning=losses.JSON, canonical="")
    if SRID in theirs.traits and not _is_spatial(mine) and not fit.reason:
        return replace(fit, warning=f"{_GIVEN_SRID} {theirs.traits[SRID]}", canonical="")
    return fit


def _is_spatial(column: Column) -> bool:
    type_ = column.traits.get(TYPE)
    return isinstance(type_, MyType) and type_.name == "geometry"


def _is_json(column: Column) -> bool:
    type_ = column.traits.get(TYPE)  # whichever system it belongs to
    return isinstance(type_, MyType) and type_.name == "json"


open_target = MySqlTarget
