"""The target's tables, checked before anything is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from penstock.backends.api.facts import Fit, LoadRequest
from penstock.backends.mssql.capabilities import TARGET
from penstock.backends.mssql.catalog.script import WRITTEN, Written
from penstock.backends.mssql.catalog.tables import DIALECT, IDENTITY, table_columns
from penstock.backends.mssql.connection import connect
from penstock.backends.mssql.load.likeness import column_text, identity_steps, names_free
from penstock.backends.mssql.load.tables import MssqlTables, text_type
from penstock.backends.mssql.records import MssqlRecords
from penstock.backends.mssql.runs import MssqlRuns
from penstock.backends.mssql.session import MssqlSession
from penstock.backends.mssql.source import server_of
from penstock.backends.mssql.types import TYPES
from penstock.backends.shared.arrow import arrow_type as arrow_type_of
from penstock.backends.shared.arrow import is_list, schema_of, schema_to_text
from penstock.backends.shared.fitting import fit_column
from penstock.backends.sql.load_plan import plan_load
from penstock.backends.sql.relations import TYPE
from penstock.backends.sql.session import keeping
from penstock.backends.sql.target import SqlTarget, no_rows
from penstock.model.codec import from_json
from penstock.model.plans import LoadPlan
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, Relation, TableRef


class MssqlTarget(SqlTarget):
    capabilities = TARGET
    tables = MssqlTables(DIALECT)

    def __init__(self, url: str, control_schema: str) -> None:
        self._session = MssqlSession(connect(url, "target"))
        self._defined: tuple[Column, ...] = ()
        self.control = MssqlRuns(MssqlRecords(self._session, control_schema))

    def close(self) -> None:
        self._session.connection.interrupt()
        self._session.connection.close()

    def describing(self, relations: Sequence[Relation]) -> AbstractContextManager[None]:
        return keeping(self._session, relations)

    @contextmanager
    def _reading(self) -> Iterator[MssqlSession]:
        yield self._session

    @contextmanager
    def _rows_made(self) -> Iterator[tuple[MssqlSession, str]]:
        yield self._session, no_rows(self._session, self._defined)

    def columns(self, table: TableRef) -> tuple[Column, ...]:
        return tuple(map(_in_arrow, table_columns(self._session, table)))

    def defined_columns(
        self,
        table: TableRef,
        definition: TableDefinition,
        columns: Sequence[Column],
        types: Mapping[str, str],
    ) -> tuple[Column, ...]:
        alike = definition.dialect == DIALECT
        texts: dict[str, Column] = {}
        if WRITTEN in definition.content:
            named = names_free(self._session, table)
            written = from_json(Written, definition.content[WRITTEN]).columns
            # Of some columns each is one that is written.
            whole = {each.name for each in written} == {column.name for column in columns}
            texts = {
                each.name: Column(
                    each.name, column_text(each, named), each.nullable, generated=each.computed
                )
                for each in written
                if whole or not each.computed
            }
        unlike = {} if alike else TYPES.made.of_all(columns, definition, types)
        found = []
        for column in columns:
            asked = types.get(column.name, "")
            type_, text = column.type, texts.get(column.name)
            if asked:
                type_, text = TYPES.asked(column.name, asked), None
            elif not alike:
                type_ = unlike[column.name]
                if type_ == TYPES.made.text and not is_list(arrow_type_of(column)):
                    type_ = text_type(column, definition) or type_
            plain = text or replace(column, type=type_, generated=False, traits={})
            described = self._session.type_made(
                type_.partition(" COLLATE")[0], f"column {column.name} of {table}"
            )
            found.append(_in_arrow(replace(plain, traits={TYPE: described})))
        self._defined = tuple(found)
        return self._defined

    def identity(self, table: TableRef) -> str:
        return f"{server_of(self._session)}:{table}"

    def fit(self, source: Sequence[Column], target: Sequence[Column]) -> list[Fit]:
        return [
            Fit("the server computes it") if theirs.generated else fit_column(mine, theirs)
            for mine, theirs in zip(source, target, strict=True)
        ]

    def plan_load(self, request: LoadRequest) -> LoadPlan:
        columns = request.made or self.columns(request.target)
        by_name = {column.name: column for column in columns}
        written = schema_to_text(schema_of(by_name[pair.target] for pair in request.pairs))
        plan = plan_load(self._session, self.tables, request, columns, written)
        numbered = [column.name for column in columns if column.traits.get(IDENTITY)]
        if request.mode.builds_beside and numbered:
            plan = replace(plan, steps=(*plan.steps, *identity_steps(request, numbered)))
        notes = (f"loaded {note}" for note in self._session.connection.driver.notes)
        return replace(plan, warnings=(*plan.warnings, *notes))


open_target = MssqlTarget


def _in_arrow(column: Column) -> Column:
    return TYPES.in_arrow(column, column.traits[TYPE])
