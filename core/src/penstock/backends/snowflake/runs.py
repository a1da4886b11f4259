"""The control store: the parts that only Snowflake has, about attempts and the loaded table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from penstock.backends.api.execution.control import RunRow
from penstock.backends.snowflake.catalog.table_model import foreign_keys
from penstock.backends.snowflake.errors import translated
from penstock.backends.snowflake.records import SnowflakeRecords
from penstock.backends.sql.catalog.relations import read_relations
from penstock.backends.sql.definitions.definition import SCHEMA
from penstock.backends.sql.definitions.foreign_keys import ForeignKeyChange
from penstock.backends.sql.loads.load_plan import SWAP
from penstock.backends.sql.server.runs import MOST_NAMES, StagedRuns
from penstock.backends.sql.session import keeping
from penstock.errors import PenstockError
from penstock.model.plans import Step
from penstock.model.tables import TableRef


class SnowflakeRuns(StagedRuns):
    """The control store of a Snowflake target."""

    def __init__(self, records: SnowflakeRecords) -> None:
        super().__init__(records)
        self._tables: SnowflakeRecords = records

    def enter_all(
        self,
        tables: Mapping[str, TableRef],
        check: Callable[[str, Sequence[str]], None],
    ) -> dict[str, PenstockError]:
        """Enter with one turn at the control tables, if no other run is active on the tables."""
        if len(tables) < 2 or len(set(tables.values())) < len(tables):
            return super().enter_all(tables, check)
        records = self._tables
        with translated("target", "tables"), records.guarded():
            run_ids = self.runs_on(set(tables.values())) | set(tables)
            names = [name for run_id in run_ids for name in self._presences(run_id)]
            mine = [self._presences(run_id)[0] for run_id in tables]
            chunks = (
                names[start : start + MOST_NAMES] for start in range(0, len(names), MOST_NAMES)
            )
            if not any(map(records.is_held, chunks)) and records.leases.take_all(mine):
                return {}
        return super().enter_all(tables, check)

    def check_targets(self, run_ids: Sequence[str]) -> dict[str, PenstockError]:
        # The catalog is asked about all of the tables.
        tables = [run.plan.load.table for run in self.load_runs(run_ids).values()]
        with keeping(self._tables.session, tables):
            return super().check_targets(run_ids)

    # Steps

    def perform(self, step: Step, table: TableRef) -> None:
        self._tables.session.run(step.statement)

    def is_done(self, run: RunRow, step: Step) -> bool:
        session, table = self._tables.session, run.plan.load.table
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
