"""The control store: what of it Snowflake alone knows, of attempts and of the table that is
loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from penstock.backends.api.control import RunningAttempt, RunRow
from penstock.backends.snowflake.catalog import facts_of
from penstock.backends.snowflake.errors import translated
from penstock.backends.snowflake.loaded_table import check_loaded
from penstock.backends.snowflake.records import SnowflakeRecords
from penstock.backends.snowflake.stage import sweep
from penstock.backends.sql.definition import SCHEMA
from penstock.backends.sql.load_plan import SWAP
from penstock.backends.sql.relations import read_relations
from penstock.backends.sql.server.runs import ServerRuns
from penstock.errors import PenstockError
from penstock.model.plans import Step
from penstock.model.tables import TableRef


class SnowflakeRuns(ServerRuns):
    def __init__(self, records: SnowflakeRecords) -> None:
        super().__init__(records)
        self._tables: SnowflakeRecords = records

    def made_at(self, table: TableRef) -> str | None:
        found = facts_of(self._tables.session, table)
        return found[0] if found else None

    def check_loaded(self, run_id: str, table: TableRef, mode: str) -> None:
        check_loaded(self._tables, run_id, table, mode)

    def running(self, run_id: str) -> tuple[RunningAttempt, ...]:
        with translated("target", f"run {run_id}"):
            return tuple(
                RunningAttempt(partition_id, number, "loading", "", None)
                for partition_id, number, *_, lately in self._tables.owners(run_id)
                if lately
            )

    def set_status(self, run_id: str, status: str, failures: Sequence[Mapping[str, Any]]) -> None:
        super().set_status(run_id, status, failures)
        if status not in ("running", "created"):
            with suppress(PenstockError):
                sweep(self._tables)

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
        # The table has taken another one's place.
        return step.id == SWAP and table not in read_relations(session)
