"""The control store: what of it MySQL alone knows, of sessions and of the table that is loaded."""

from __future__ import annotations

from penstock.backends.api.control import RunningAttempt, RunRow
from penstock.backends.api.records import Kind, Row
from penstock.backends.mysql.catalog.indexes import read_indexes
from penstock.backends.mysql.catalog.tables import made_at
from penstock.backends.mysql.dialect import replaced
from penstock.backends.mysql.errors import translated
from penstock.backends.mysql.loaded_table import ALTERING, check_loaded
from penstock.backends.mysql.records import MySqlRecords
from penstock.backends.sql.definition import SCHEMA
from penstock.backends.sql.foreign_keys import RELINK, UNLINK, ForeignKeyChange
from penstock.backends.sql.index_changes import IndexChange
from penstock.backends.sql.load_plan import SWAP
from penstock.backends.sql.loaded_table import LoadedTable
from penstock.backends.sql.server.runs import ServerRuns
from penstock.errors import PermanentError
from penstock.model.plans import LoadPlan, Step
from penstock.model.tables import TableRef
from penstock.spec.modes import mode_of


class MySqlRuns(ServerRuns):
    def __init__(self, records: MySqlRecords) -> None:
        super().__init__(records)
        self._tables: MySqlRecords = records

    def made_at(self, table: TableRef) -> str | None:
        return made_at(self._tables.session, table)

    def check_loaded(self, run_id: str, table: TableRef, mode: str) -> None:
        check_loaded(self._tables, run_id, table, mode)

    def running(self, run_id: str) -> tuple[RunningAttempt, ...]:
        with translated("target", f"run {run_id}"):
            found = self._tables.open_attempts(run_id)
        return tuple(RunningAttempt(partition_id, 0, "loading", "", None) for partition_id in found)

    # Steps

    def after_preparing(self, run: RunRow, load: LoadPlan) -> Row:
        self._note_altered(load.table)
        return super().after_preparing(run, load)

    def perform(self, step: Step, table: TableRef) -> None:
        session = self._tables.session
        if (indexes := IndexChange.of(step, table)) is not None:
            left = indexes.left(read_indexes(session, table))
            self._alter(table, left.statement(session.dialect))
        elif (link := ForeignKeyChange.of(step)) is not None:
            self._alter(link.table, step.statement)
        else:
            session.run(step.statement)

    def _alter(self, table: TableRef, statement: str) -> None:
        self._note_altering(table)
        # It ends the transaction: what was noted stays, also where it fails.
        try:
            self._tables.session.run(statement)
        except PermanentError:
            self._note_altered(table)
            raise
        self._note_altered(table)

    def _note_altering(self, table: TableRef) -> None:
        made, loads = made_at(self._tables.session, table), LoadedTable(self._tables, table).id
        known = {"loads": loads, "made": made}
        self._tables.change(Kind.RUN, known, {"made": f"{made}{ALTERING}"})

    def _note_altered(self, table: TableRef) -> None:
        """The table is the one that runs were loading, though it says that it was made later."""
        made, loads = made_at(self._tables.session, table), LoadedTable(self._tables, table).id
        for row in self._tables.read(Kind.RUN, {"loads": loads}, ("run_id", "made")):
            if row["made"] and row["made"].endswith(ALTERING):
                self._tables.change(Kind.RUN, {"run_id": row["run_id"]}, {"made": made})

    def after_step(self, run: RunRow, step: Step) -> None:
        # Whoever has altered the table may not have come to note it.
        self._note_altered(run.plan.load.table)

    def is_done(self, run: RunRow, step: Step) -> bool:
        if step.id == SCHEMA:
            # To create one that is there would wait for all that is read in it.
            ref = run.plan.load.table
            return (ref.schema,) in self._tables.session.fetch(
                "SELECT schema_name FROM information_schema.schemata WHERE schema_name = %s",
                f"database {ref.schema}",
                [ref.schema],
            )
        if (indexes := IndexChange.of(step, run.plan.load.table)) is not None:
            return indexes.is_done(read_indexes(self._tables.session, run.plan.load.table))
        if (link := ForeignKeyChange.of(step)) is not None:
            there = link.is_there(self._tables.session)
            if link.kind == RELINK:
                return there or self._is_made_again(run, link.table)
            return there != (link.kind == UNLINK)
        if step.id != SWAP or made_at(self._tables.session, run.plan.load.table) is not None:
            return False
        # It has taken its place; whoever did that may not have come to drop the old one.
        old = self._tables.session.table(replaced(run.plan.load.table))
        self._tables.session.run(f"DROP TABLE IF EXISTS {old}")
        return True

    def _is_made_again(self, run: RunRow, table: TableRef) -> bool:
        """Whether a run has made another table since this run was planned."""
        (mine,) = self._tables.read(Kind.RUN, {"run_id": run.run_id}, ("created_at",))
        return made_at(self._tables.session, table) is None or any(
            mode_of(other["spec"]).recreates and (other["prepared_at"] or "") > mine["created_at"]
            for other in self._tables.read(
                Kind.RUN, {"loads": LoadedTable(self._tables, table).id}, ("spec", "prepared_at")
            )
        )
