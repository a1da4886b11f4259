"""The tables that runs load: the parts that only SQL Server has, about sessions and steps."""

from __future__ import annotations

from penstock.backends.api.execution.control import RunRow
from penstock.backends.mssql.catalog.tables import enabled_indexes
from penstock.backends.mssql.load.table_clone import set_identity
from penstock.backends.mssql.records import MssqlRecords
from penstock.backends.sql.definitions.definition import SCHEMA
from penstock.backends.sql.definitions.index_changes import IndexChange
from penstock.backends.sql.server.load_hooks import ServerLoadHooks
from penstock.model.plans import Step
from penstock.model.tables import TableRef


class MssqlLoadHooks(ServerLoadHooks[MssqlRecords]):
    """See `ServerLoadHooks`."""

    def keep_out(self, run_id: str, table: TableRef) -> None:
        # As each attempt does before it loads. Changing the rows of their runs instead would make
        # them and this transaction wait for each other.
        self.store.hold_loads(table, self.store.patience.stall_timeout)

    def make(self, step: Step, table: TableRef) -> None:
        self.store.hold_making(table)
        super().make(step, table)

    def perform(self, step: Step, table: TableRef) -> None:
        session = self.store.session
        if step.id == SCHEMA:
            self.store.hold_making(table)
        if (indexes := IndexChange.of(step, table)) is not None:
            if (remaining := indexes.remaining(enabled_indexes(session, table))).indexes:
                session.run(remaining.statement(session.dialect))
        elif step.sequence_of:
            set_identity(session, table, step.position)
        elif step.urgent:
            with self.store.limited_lock_waits():
                session.run(step.statement)
        else:
            session.run(step.statement)

    def is_done(self, run: RunRow, step: Step) -> bool:
        session, table = self.store.session, run.plan.load.table
        indexes = IndexChange.of(step, table)
        return indexes is not None and indexes.is_done(enabled_indexes(session, table))
