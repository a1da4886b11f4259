"""The tables that runs load: the parts that only Snowflake has, about steps."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.backends.api.execution.control import RunRow
from penstock.backends.snowflake.catalog.table_model import foreign_keys
from penstock.backends.snowflake.records import SnowflakeRecords
from penstock.backends.sql.catalog.relations import read_relations
from penstock.backends.sql.definitions.definition import SCHEMA
from penstock.backends.sql.definitions.foreign_keys import ForeignKeyChange
from penstock.backends.sql.loads.load_plan import SWAP
from penstock.backends.sql.loads.load_steps import table_before
from penstock.backends.sql.server.load_hooks import ServerLoadHooks
from penstock.backends.sql.session import keeping
from penstock.errors import TargetChanged
from penstock.model.plans import Step
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import stored_target


class SnowflakeLoadHooks(ServerLoadHooks[SnowflakeRecords]):
    """See `ServerLoadHooks`."""

    def changes(self, run_ids: Sequence[str]) -> dict[str, TargetChanged]:
        # The catalog is asked about all of the tables.
        tables = [run.plan.load.table for run in self.ledger.runs.load(run_ids).values()]
        with keeping(self.store.session, tables):
            return super().changes(run_ids)

    def perform(self, step: Step, table: TableRef) -> None:
        self.store.session.run(step.statement)

    def is_done(self, run: RunRow, step: Step) -> bool:
        session, table = self.store.session, run.plan.load.table
        target = stored_target(run.spec)
        if table_before(step, run.plan.load, target) != table and table in read_relations(session):
            return False  # what there is belongs to the old table
        if step.id == SCHEMA:
            return bool(
                session.fetch(
                    "SELECT 1 FROM information_schema.schemata WHERE catalog_name = ?"
                    f" AND {session.dialect.literal(session.dialect.ident(table.schema)[1:-1])}"
                    " = schema_name",
                    f"schema {table.schema}",
                    [session.catalog],
                )
            )
        if (link := ForeignKeyChange.of(step)) is not None:
            keys = foreign_keys(session, link.table)
            return link.name in (key.name for key in keys)
        # The table has replaced another one.
        return step.id == SWAP and table not in read_relations(session)
