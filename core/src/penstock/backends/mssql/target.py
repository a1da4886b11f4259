"""The target's tables, checked before anything is changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.backends.api.facts import LoadRequest
from penstock.backends.mssql.capabilities import TARGET
from penstock.backends.mssql.catalog.native_parts import NativeParts
from penstock.backends.mssql.catalog.tables import DIALECT, IDENTITY, table_columns
from penstock.backends.mssql.connection import connect
from penstock.backends.mssql.load.exchange import with_temporary_names
from penstock.backends.mssql.load.table_clone import column_text, free_name_clause, identity_steps
from penstock.backends.mssql.load.tables import MssqlTables, text_type
from penstock.backends.mssql.load_hooks import MssqlLoadHooks
from penstock.backends.mssql.records import MssqlRecords
from penstock.backends.mssql.session import MssqlSession
from penstock.backends.mssql.types import TYPES
from penstock.backends.shared.records.ledger import Ledger
from penstock.backends.shared.values.arrow import arrow_type, is_list
from penstock.backends.sql.server.control import server_control
from penstock.backends.sql.server.presence import ServerPresence
from penstock.backends.sql.server.target import ServerTarget
from penstock.model.plans import LoadPlan
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, TableRef
from penstock.spec.modes import Table


class MssqlTarget(ServerTarget[MssqlSession]):
    """The catalog of a SQL Server target."""

    capabilities = TARGET
    tables = MssqlTables(DIALECT)
    types = TYPES

    def __init__(self, url: str, control_schema: str) -> None:
        super().__init__(MssqlSession(connect(url, "target")))
        records = MssqlRecords(self._session, control_schema)
        loads = MssqlLoadHooks(Ledger(records), records)
        self.control = server_control(loads, ServerPresence(records))

    def close(self) -> None:
        self._session.connection.interrupt()
        super().close()

    def table_columns(self, table: TableRef) -> tuple[Column, ...]:
        return table_columns(self._session, table)

    def cloned_columns(
        self, table: TableRef, definition: TableDefinition, columns: Sequence[Column]
    ) -> Mapping[str, Column]:
        native = definition.native
        if not isinstance(native, NativeParts):
            return {}
        name_clause = free_name_clause(self._session, table)
        models = definition.model.columns
        # If the columns are only a part, each has been specified.
        is_complete = {each.name for each in models} == {column.name for column in columns}
        return {
            each.name: Column(
                each.name,
                column_text(each, native, name_clause),
                each.nullable,
                generated=each.generated is not None,
            )
            for each in models
            if is_complete or each.generated is None
        }

    def translated_type(self, column: Column, definition: TableDefinition, type_: str) -> str:
        if type_ != TYPES.created.text or is_list(arrow_type(column)):
            return type_
        return text_type(column, definition) or type_

    def plan_load(self, request: LoadRequest) -> LoadPlan:
        plan = super().plan_load(request)
        columns = request.new_columns or self.columns(request.target)
        identities = [column.name for column in columns if column.traits.get(IDENTITY)]
        if request.mode.table is Table.BESIDE and identities:
            plan = replace(plan, steps=(*plan.steps, *identity_steps(request, identities)))
        recreates = request.mode.table is Table.RECREATED and plan.loads_beside
        if request.definition is not None and recreates:
            plan = with_temporary_names(self._session, plan, request.target, request.definition)
        notes = (f"loaded {note}" for note in self._session.connection.driver.notes)
        return replace(plan, warnings=(*plan.warnings, *notes))


open_target = MssqlTarget
