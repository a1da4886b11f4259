"""The target's tables, checked before anything is changed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace

from penstock.backends.api.facts import Fit, LoadRequest
from penstock.backends.mysql.capabilities import TARGET
from penstock.backends.mysql.catalog.tables import (
    COLLATION,
    DIALECT,
    TRANSACTIONAL,
    engine_of,
    flavour_of,
    made_at,
    own_columns,
    table_columns,
)
from penstock.backends.mysql.connection import connect
from penstock.backends.mysql.dialect import BY_BYTES, order_name, own_name
from penstock.backends.mysql.errors import planning
from penstock.backends.mysql.load.besides import expect_alike
from penstock.backends.mysql.load.lines import carried
from penstock.backends.mysql.load.loading import read_settings
from penstock.backends.mysql.load.made import MySqlTables, made_types, written_type
from penstock.backends.mysql.load.rehearsal import made_for_now, without_numbers
from penstock.backends.mysql.location import URLS
from penstock.backends.mysql.records import MySqlRecords
from penstock.backends.mysql.runs import MySqlRuns
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.mysql.types import MyType, arrow_type, is_text
from penstock.backends.shared import losses
from penstock.backends.shared.arrow import TRAIT, schema_of, schema_to_text
from penstock.backends.shared.fitting import fit_column
from penstock.backends.sql.definition import listed_columns
from penstock.backends.sql.load_plan import plan_load
from penstock.backends.sql.relations import TYPE, read_relations
from penstock.backends.sql.session import keeping
from penstock.backends.sql.target import SqlTarget
from penstock.errors import PlanningError
from penstock.model.extents import Bound, Key, KeyRange
from penstock.model.plans import LoadPlan
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, Relation, TableRef
from penstock.spec.modes import Mode

# Of one table.
MOST_TYPES = 50


class MySqlTarget(SqlTarget):
    capabilities = TARGET
    tables = MySqlTables(DIALECT)

    def __init__(self, url: str, control_schema: str) -> None:
        self._session = MySqlSession(connect(url, "target"), BY_BYTES)
        self._tinyint1_bool = URLS.parse(url).options.get("tinyint1") == "bool"
        self._defined: dict[TableRef, tuple[Column, ...]] = {}
        self.control = MySqlRuns(MySqlRecords(self._session, control_schema))

    def close(self) -> None:
        self._session.connection.abandon()

    @contextmanager
    def _reading(self) -> Iterator[MySqlSession]:
        yield self._session

    def describing(self, relations: Sequence[Relation]) -> AbstractContextManager[None]:
        self._defined.clear()
        return keeping(self._session, relations)

    def makes(self, table: TableRef, mode: Mode) -> bool:
        if mode.recreates or mode not in self.capabilities.makes_missing:
            return mode.recreates
        if table in read_relations(self._session):
            return False
        if made_at(self._session, table) is None:
            return True
        # Somebody has made it since: nothing that was found of it holds any more.
        if self._session.known is not None:
            self._session.known.forget()
        return False

    def columns(self, table: TableRef) -> tuple[Column, ...]:
        return tuple(map(self._in_arrow, table_columns(self._session, table)))

    def _in_arrow(self, column: Column) -> Column:
        kind = arrow_type(column.traits[TYPE], self._tinyint1_bool)
        return replace(column, traits={**column.traits, TRAIT: kind})

    # Tables that are made

    def defined_columns(
        self,
        table: TableRef,
        definition: TableDefinition,
        columns: Sequence[Column],
        types: Mapping[str, str],
    ) -> tuple[Column, ...]:
        alike = definition.dialect == DIALECT
        own: dict[str, Column] = {}
        if self.tables.is_own(self._session, definition):
            own = {column.name: column for column in own_columns(definition, types)}
        known = self._collations() if alike else ()
        unlike = {} if alike else made_types(self._session, columns, definition, types)

        def made(column: Column) -> Column:
            if column.name in own:
                written = own[column.name]
                return replace(written, has_default=column.has_default)
            plain = replace(column, generated=False, traits={})
            plain = replace(plain, type=unlike.get(column.name, column.type))
            collation = column.traits.get(COLLATION)
            if collation in known:
                plain = replace(plain, type=f"{plain.type} COLLATE {collation}")
            return replace(plain, type=written_type(plain, types.get(column.name, "")))

        defined = self._defined[table] = tuple(map(made, columns))
        types_made = self._types_made(table, defined)
        found = [
            self._in_arrow(replace(column, traits={TYPE: type_}))
            for column, type_ in zip(defined, types_made, strict=True)
        ]
        return tuple(found if own else self.tables.computing(definition, found, types))

    def _collations(self) -> Collection[str]:
        """Those that the server has."""

        def ask() -> Collection[str]:
            names = "SELECT collation_name FROM information_schema.collations"
            return {str(name) for (name,) in self._session.fetch(names, "collations")}

        return self._session.kept("collations", ask)

    def expect(self, definitions: Mapping[TableRef, TableDefinition]) -> None:
        mine = [
            definition
            for definition in definitions.values()
            if self.tables.is_own(self._session, definition)
        ]
        if len(mine) > 1:
            texts = {column.type for definition in mine for column in own_columns(definition)}
            # What a text says of other columns it says in their own table alone.
            self._learn_types(sorted(text for text in texts if "`" not in text))
            expect_alike(self._session, mine)

    def _learn_types(self, texts: Sequence[str]) -> None:
        """The types of columns that are written like this, as far as the server makes them."""
        known: dict[str, MyType] = self._session.kept("types made", dict)
        for start in range(0, len(texts), MOST_TYPES):
            some = texts[start : start + MOST_TYPES]
            columns = [Column(f"c{place}", text) for place, text in enumerate(some)]
            with suppress(PlanningError):
                known.update(zip(some, self._described(columns, "types"), strict=True))

    def _types_made(self, table: TableRef, defined: Sequence[Column]) -> Sequence[MyType]:
        """The types of the columns that are defined; those of other tables that are written alike
        are known."""
        known: dict[str, MyType] = self._session.kept("types made", dict)
        if any(column.type not in known for column in defined):
            found = self._described(defined, f"{table}")
            known.update(zip((column.type for column in defined), found, strict=True))
        return [known[column.type] for column in defined]

    def _described(self, columns: Sequence[Column], subject: str) -> list[MyType]:
        """In a table that is made for this session alone."""
        with self._made_of(columns) as made:
            # By name: it may have invisible ones.
            names = ", ".join(self._session.dialect.ident(column.name) for column in columns)
            query = f"SELECT {names} FROM {made}"
            return [type_ for _, type_ in self._session.describe(query, subject)]

    def _made_of(self, columns: Sequence[Column]) -> AbstractContextManager[str]:
        plain = [replace(each, nullable=True) for each in without_numbers(columns)]
        body = ", ".join(listed_columns(self._session.dialect, plain))
        return made_for_now(self._session, body)

    @contextmanager
    def _rows_made(self, table: TableRef) -> Iterator[tuple[MySqlSession, str]]:
        with self._made_of(self._defined[table]) as made:
            yield self._session, made

    def identity(self, table: TableRef) -> str:
        return f"{self._session.server.id}:{table}"

    def fit(self, source: Sequence[Column], target: Sequence[Column]) -> list[Fit]:
        fits = [_fitting(mine, theirs) for mine, theirs in zip(source, target, strict=True)]
        with planning("target", "settings"):
            settings = self._session.kept(
                "settings", lambda: read_settings(self._session.connection)
            )
        if not settings.files:
            return fits
        return [carried(*each) for each in zip(fits, source, target, strict=True)]

    def shares_order(self, table: TableRef, key: Key, collation: str) -> bool:
        if collation != order_name(flavour_of(self._session), own_name(collation)):
            return False
        there = table in read_relations(self._session)
        columns = self.columns(table) if there else self._defined.get(table, ())
        known = {column.name: column for column in columns}
        column = known.get(key.text)
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
                f"target: expected {table} to be of the engine InnoDB, found {engine}, in which "
                "nothing is undone when a copy fails; ALTER TABLE ... ENGINE = InnoDB"
            )

    def plan_load(self, request: LoadRequest) -> LoadPlan:
        self._session.kept("writes", lambda: self._check_takes_writes(request.target))
        columns = request.made or self.columns(request.target)
        by_name = {column.name: column for column in columns}
        written = schema_to_text(schema_of(by_name[pair.target] for pair in request.pairs))
        return plan_load(self._session, self.tables, request, columns, written)

    def _check_takes_writes(self, table: TableRef) -> None:
        """
        Raises:
            PlanningError: the server is read-only, for this user at least.
        """
        with planning("target", f"{table}"):
            # Servers refuse it then. Their settings do not tell who is exempt.
            self._session.connection.change("START TRANSACTION READ WRITE")
            self._session.connection.change("ROLLBACK")


def _fitting(mine: Column, theirs: Column) -> Fit:
    fit = fit_column(mine, theirs)
    if fit.canonical == "text" and _is_json(theirs) and not _is_json(mine):
        # MySQL writes it anew. MariaDB keeps the text.
        return replace(fit, warning=losses.JSON, canonical="")
    return fit


def _is_json(column: Column) -> bool:
    type_ = column.traits.get(TYPE)  # whichever system's it is
    return isinstance(type_, MyType) and type_.name == "json"


open_target = MySqlTarget
