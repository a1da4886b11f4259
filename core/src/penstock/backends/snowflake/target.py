"""The target's tables, checked before anything is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from penstock.backends.api.facts import Fit, LoadRequest
from penstock.backends.shared.arrow import held_kinds, schema_of, schema_to_text
from penstock.backends.shared.fitting import fit_column
from penstock.backends.snowflake.capabilities import TARGET
from penstock.backends.snowflake.catalog.tables import unique_keys
from penstock.backends.snowflake.connection import connect
from penstock.backends.snowflake.dialect import SNOWFLAKE
from penstock.backends.snowflake.records import SnowflakeRecords
from penstock.backends.snowflake.runs import SnowflakeRuns
from penstock.backends.snowflake.session import SnowflakeSession
from penstock.backends.snowflake.source import server_of
from penstock.backends.snowflake.types import SEMI_STRUCTURED, TYPES
from penstock.backends.sql.load_plan import TargetTables, plan_load
from penstock.backends.sql.relations import TYPE, read_columns
from penstock.backends.sql.session import Session, keeping
from penstock.backends.sql.target import SqlTarget, no_rows
from penstock.model.plans import LoadPlan
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, Relation, TableRef


class SnowflakeTables(TargetTables):
    unique_keys = staticmethod(unique_keys)  # type: ignore[assignment] # of its own sessions

    def kinds(self, columns: Sequence[Column]) -> Mapping[str, str]:
        return held_kinds(columns)

    def like(self, session: Session, table: TableRef, beside: TableRef) -> tuple[str, list[str]]:
        # The exchange takes grants along with the rows.
        new, old = session.dialect.table(beside), session.dialect.table(table)
        return f"CREATE TABLE {new} LIKE {old} COPY GRANTS", []


class SnowflakeTarget(SqlTarget):
    capabilities = TARGET
    tables = SnowflakeTables(SNOWFLAKE.name.lower())

    def __init__(self, url: str, control_schema: str) -> None:
        self._session = SnowflakeSession(connect(url, "target"))
        self._records = SnowflakeRecords(self._session, control_schema, url)
        self._defined: tuple[Column, ...] = ()
        self.control = SnowflakeRuns(self._records)

    def close(self) -> None:
        self._records.leases.close()
        self._session.connection.close()

    def describing(self, relations: Sequence[Relation]) -> AbstractContextManager[None]:
        return keeping(self._session, relations)

    @contextmanager
    def _reading(self) -> Iterator[SnowflakeSession]:
        yield self._session

    @contextmanager
    def _rows_made(self) -> Iterator[tuple[SnowflakeSession, str]]:
        yield self._session, no_rows(self._session, self._defined)

    def columns(self, table: TableRef) -> tuple[Column, ...]:
        return tuple(map(_in_arrow, read_columns(self._session, table)))

    def defined_columns(
        self,
        table: TableRef,
        definition: TableDefinition,
        columns: Sequence[Column],
        types: Mapping[str, str],
    ) -> tuple[Column, ...]:
        unlike: dict[str, str] = {}
        if definition.dialect != self.tables.definitions:
            unlike = TYPES.made.of_all(columns, definition, types)
        found = []
        for column in columns:
            asked, type_ = types.get(column.name, ""), column.type
            if asked:
                type_ = TYPES.asked(column.name, asked)
            elif column.name in unlike:
                type_ = unlike[column.name]
            described = self._session.type_made(type_, f"column {column.name} of {table}")
            made = replace(column, type=type_, generated=False, traits={TYPE: described})
            found.append(_in_arrow(made))
        self._defined = tuple(found)
        return self._defined

    def identity(self, table: TableRef) -> str:
        return f"{server_of(self._session, self._session.connection.host)}:{table}"

    def fit(self, source: Sequence[Column], target: Sequence[Column]) -> list[Fit]:
        return [
            Fit(f"nothing is loaded into {theirs.type} from files; expected a column of varchar")
            if theirs.traits[TYPE].name in SEMI_STRUCTURED
            else fit_column(mine, theirs)
            for mine, theirs in zip(source, target, strict=True)
        ]

    def plan_load(self, request: LoadRequest) -> LoadPlan:
        columns = request.made or self.columns(request.target)
        by_name = {column.name: column for column in columns}
        written = schema_to_text(schema_of(by_name[pair.target] for pair in request.pairs))
        return plan_load(self._session, self.tables, request, columns, written)


def _in_arrow(column: Column) -> Column:
    return TYPES.in_arrow(column, column.traits[TYPE])


open_target = SnowflakeTarget
