"""The target's tables, checked before anything is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from penstock.backends.api.facts import Fit, LoadRequest
from penstock.backends.mssql.capabilities import TARGET
from penstock.backends.mssql.catalog import DIALECT, table_columns
from penstock.backends.mssql.connection import connect
from penstock.backends.mssql.made import MssqlTables, check_type, column_type, key_type
from penstock.backends.mssql.records import MssqlRecords
from penstock.backends.mssql.runs import MssqlRuns
from penstock.backends.mssql.session import MssqlSession
from penstock.backends.mssql.source import server_of
from penstock.backends.mssql.types import arrow_type
from penstock.backends.shared.arrow import TRAIT, schema_of, schema_to_text
from penstock.backends.shared.arrow import arrow_type as arrow_type_of
from penstock.backends.shared.fitting import fit_column
from penstock.backends.sql.load_plan import plan_load
from penstock.backends.sql.relations import TYPE
from penstock.backends.sql.target import SqlTarget
from penstock.model.plans import LoadPlan
from penstock.model.tables import Column, TableDefinition, TableRef


class MssqlTarget(SqlTarget):
    capabilities = TARGET
    tables = MssqlTables(DIALECT)

    def __init__(self, url: str, control_schema: str) -> None:
        self._session = MssqlSession(connect(url, "target"))
        self.control = MssqlRuns(MssqlRecords(self._session, control_schema))

    def close(self) -> None:
        self._session.connection.interrupt()
        self._session.connection.close()

    @contextmanager
    def _reading(self) -> Iterator[MssqlSession]:
        yield self._session

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
        found = []
        for column in columns:
            asked = types.get(column.name, "")
            type_ = column.type
            if asked:
                check_type(column.name, asked)
                type_ = asked.strip()
            elif not alike:
                type_ = column_type(arrow_type_of(column), column.name)
                type_ = key_type(column, definition) or type_
            plain = replace(column, type=type_, generated=False, traits={})
            ((_, described),) = self._session.describe(
                f"SELECT CAST(NULL AS {type_.partition(' COLLATE')[0]}) AS made",
                f"column {column.name} of {table}",
            )
            found.append(_in_arrow(replace(plain, traits={TYPE: described})))
        return tuple(found)

    def identity(self, table: TableRef) -> str:
        return f"{server_of(self._session)}:{table}"

    def fit(self, source: Sequence[Column], target: Sequence[Column]) -> list[Fit]:
        return [fit_column(mine, theirs) for mine, theirs in zip(source, target, strict=True)]

    def plan_load(self, request: LoadRequest) -> LoadPlan:
        columns = request.made or self.columns(request.target)
        by_name = {column.name: column for column in columns}
        written = schema_to_text(schema_of(by_name[pair.target] for pair in request.pairs))
        return plan_load(self._session, self.tables, request, columns, written)


def _in_arrow(column: Column) -> Column:
    kind = arrow_type(column.traits[TYPE])
    return replace(column, traits={**column.traits, TRAIT: kind})
