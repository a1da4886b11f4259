"""The target's tables, checked before anything is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.backends.api.facts import Fit, LoadRequest
from penstock.backends.clickhouse.capabilities import TARGET
from penstock.backends.clickhouse.connection import connect
from penstock.backends.clickhouse.control import clickhouse_control
from penstock.backends.clickhouse.load import tables as made
from penstock.backends.clickhouse.load.appending_runs import CLEAN
from penstock.backends.clickhouse.load.steps import CREATE, SWAP
from penstock.backends.clickhouse.session import ClickHouseSession
from penstock.backends.clickhouse.source import DIALECT
from penstock.backends.clickhouse.types import TYPES
from penstock.backends.sql.catalog.relations import replacement_table
from penstock.backends.sql.definitions.definition import SCHEMA
from penstock.backends.sql.loads.load_plan import TargetTables
from penstock.backends.sql.server.target import ServerTarget
from penstock.model.plans import LoadPlan, Step
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, NotCopied, TableRef
from penstock.spec.modes import Mode, Table


class ClickHouseTarget(ServerTarget[ClickHouseSession]):
    """The catalog of a ClickHouse target."""

    capabilities = TARGET
    tables = TargetTables(DIALECT)
    types = TYPES

    def __init__(self, url: str, control_schema: str) -> None:
        super().__init__(ClickHouseSession(connect(url, "target")))
        self.control, self._presence = clickhouse_control(self._session, control_schema)

    def close(self) -> None:
        self._presence.close()
        super().close()

    def identity(self, table: TableRef) -> str:
        return self._session.cached_uuid(table)

    def defined_columns(
        self,
        table: TableRef,
        definition: TableDefinition,
        columns: Sequence[Column],
        types: Mapping[str, str],
    ) -> tuple[Column, ...]:
        for name, text in types.items():
            self._session.resolve_type(TYPES.requested_type(name, text), f"--types: column {name}")
        if definition.dialect == DIALECT:
            columns = list(map(made.bare, columns))
        return super().defined_columns(table, definition, columns, types)

    def fit(self, source: Sequence[Column], target: Sequence[Column]) -> list[Fit]:
        return [made.fit(mine, theirs) for mine, theirs in zip(source, target, strict=True)]

    def check_writable(self, table: TableRef, mode: Mode, columns: Sequence[str]) -> None:
        super().check_writable(table, mode, columns)
        made.check_takes_parts(self._session, table, mode)

    def plan_load(self, request: LoadRequest) -> LoadPlan:
        session, target, mode = self._session, request.target, request.mode
        made.check_database(session, target.schema, may_lack=request.definition is not None)
        table = target if mode.only_adds else replacement_table(request.run_id, target)
        warnings: list[str] = []
        omitted: tuple[NotCopied, ...] = ()
        steps: list[Step] = []
        if made.is_there(session, target) and mode.table is not Table.RECREATED:
            warnings = made.check_takes_parts(session, target, mode)
        if request.definition is not None:
            columns = request.new_columns
            schema = session.dialect.schema_statements(target.schema)[0]
            steps.append(Step(SCHEMA, f"create database {target.schema}", schema))
            more = made.rendered(session, request)
            omitted, warnings = tuple(more.omitted), [*warnings, *more.warnings]
            create = made.create_statement(session, table, request, more)
            steps.append(Step(CREATE, f"create {table}", create))
        else:
            columns = self.columns(target)
            if not mode.only_adds:
                name, like = session.dialect.table(table), session.dialect.table(target)
                create = f"CREATE TABLE IF NOT EXISTS {name} AS {like}"
                steps.append(Step(CREATE, f"create {table} beside {target}", create))
        if not mode.only_adds:
            what = f"replace {target} by {table}"
            steps.append(Step(SWAP, what, SWAP, after=True, rank=1))
        steps.append(Step(CLEAN, "drop leftovers", CLEAN, after=True, rank=2))
        schema_text = made.insert_schema(session, request, columns)
        return LoadPlan(
            table,
            tuple(steps),
            warnings=tuple(warnings),
            schema=schema_text,
            not_copied=omitted,
        )


open_target = ClickHouseTarget
