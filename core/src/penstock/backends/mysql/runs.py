"""The control store: the parts that only MySQL has, about sessions and the loaded table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from penstock.backends.api.execution.control import RunningAttempt, RunRow
from penstock.backends.api.execution.records import Kind, Row
from penstock.backends.mysql.catalog.indexes import read_indexes
from penstock.backends.mysql.catalog.tables import (
    creation_time,
    creation_times,
    dialect_for_key,
    table_columns,
)
from penstock.backends.mysql.dialect import MySqlDialect, old_table
from penstock.backends.mysql.errors import translated
from penstock.backends.mysql.load.batched_steps import (
    finish_batch,
    note_altered,
    note_altering,
    prepare_batch,
    table_of,
)
from penstock.backends.mysql.load.loaded_table import check_loaded
from penstock.backends.mysql.load.presence import MySqlPresence
from penstock.backends.mysql.records import MySqlRecords
from penstock.backends.sql.definitions.column_changes import is_applied
from penstock.backends.sql.definitions.definition import SCHEMA
from penstock.backends.sql.definitions.foreign_keys import RELINK, UNLINK, ForeignKeyChange
from penstock.backends.sql.definitions.index_changes import IndexChange
from penstock.backends.sql.loads.load_plan import SWAP
from penstock.backends.sql.loads.loaded_table import LoadedTable
from penstock.backends.sql.loads.night import DROP
from penstock.backends.sql.server.runs import EXECUTIONS, ServerRuns
from penstock.errors import Interrupted, PenstockError, PermanentError
from penstock.model.drift import ColumnChange
from penstock.model.plans import LoadPlan, Step
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import CopySpec
from penstock.spec.modes import Table, mode_of


class MySqlRuns(ServerRuns):
    """See `ServerRuns`."""

    def __init__(self, records: MySqlRecords) -> None:
        super().__init__(records)
        self._tables: MySqlRecords = records
        self._presence = MySqlPresence(records, self.runs_by_table)

    @property
    def tables(self) -> MySqlRecords:
        """The control tables, and the tables they are about."""
        return self._tables

    def creation_mark(self, table: TableRef) -> str | None:
        return creation_time(self._tables.session, table)

    def check_loaded(self, run_id: str, table: TableRef, mode: str) -> None:
        check_loaded(self._tables, run_id, table, mode)

    def running_attempts(self, run_id: str) -> tuple[RunningAttempt, ...]:
        with translated("target", f"run {run_id}"):
            attempts = self._tables.open_attempts(run_id)
        return tuple(
            RunningAttempt(partition_id, 0, "loading", "", None) for partition_id in attempts
        )

    # Active runs

    def enter_all(
        self,
        tables: Mapping[str, TableRef],
        check: Callable[[str, Sequence[str]], None],
    ) -> dict[str, PenstockError]:
        if len(tables) < 2 or not self._tables.joins(list(tables)):
            return super().enter_all(tables, check)
        with translated("target"):
            contested = self._presence.enter_all(tables, EXECUTIONS)
        return super().enter_all({run_id: tables[run_id] for run_id in contested}, check)

    def keep_presence(self, run_id: str) -> None:
        any(self._presence.keep(run_id, number) for number in range(EXECUTIONS))

    def leave_all(self, tables: Mapping[str, TableRef]) -> None:
        with translated("target"):
            self._presence.leave_all(tables)

    # Many runs at once

    def prepare_all(self, loads: Mapping[str, LoadPlan]) -> dict[str, bool | PenstockError]:
        done: frozenset[str] = frozenset()
        if len(loads) > 1 and self._tables.joins(list(loads)):
            done = self._joined_steps(lambda: prepare_batch(self, loads))
        remaining = {run_id: load for run_id, load in loads.items() if run_id not in done}
        outcomes: dict[str, bool | PenstockError] = dict.fromkeys(done, True)
        for run_id, load in remaining.items():
            outcomes |= super().prepare_all({run_id: load})
        return outcomes

    def finish_all(self, steps: Mapping[str, Sequence[Step]]) -> frozenset[str]:
        joined = {
            run_id: steps_of_run
            for run_id, steps_of_run in steps.items()
            if not any(step.moves_watermark for step in steps_of_run)
        }
        if len(joined) < 2 or not self._tables.joins(list(joined)):
            return frozenset()
        return self._joined_steps(lambda: finish_batch(self, joined))

    @staticmethod
    def _joined_steps(call: Callable[[], frozenset[str]]) -> frozenset[str]:
        try:
            return call()
        except Interrupted:
            raise
        except PenstockError:
            return frozenset()  # done alone, each run reports what is wrong

    def check_targets(self, run_ids: Sequence[str]) -> dict[str, PenstockError]:
        if len(run_ids) < 2:
            return super().check_targets(run_ids)
        doubtful = self.doubtful(run_ids)
        return super().check_targets([run_id for run_id in run_ids if run_id in doubtful])

    def doubtful(self, run_ids: Sequence[str]) -> set[str]:
        """Return the runs whose tables may have changed."""
        rows = self._tables.read(
            Kind.RUN, {"run_id": tuple(run_ids)}, ("run_id", "loads", "made", "disturbed_by")
        )
        loads = {row["loads"]: table_of(row["loads"]) for row in rows if row["loads"]}
        created_at = creation_times(self._tables.session, list(loads.values()))
        counted = self._tables.noted_rows(list(loads))
        sound = {
            row["run_id"]
            for row in rows
            if row["loads"]
            and row["made"]
            and row["disturbed_by"] is None
            and row["loads"] not in counted
            and created_at[loads[row["loads"]]] == row["made"]
        }
        return set(run_ids) - sound

    def dialect(self, table: TableRef, key: Sequence[str]) -> MySqlDialect:
        return dialect_for_key(self._tables.session, table, key)

    # Steps

    def after_preparing(self, run: RunRow, load: LoadPlan) -> Row:
        self._note_altered(load.table)
        return super().after_preparing(run, load)

    def do(self, run: RunRow, step: Step) -> None:
        if step.change is None:
            super().do(run, step)
            return
        target = CopySpec.from_stored(run.spec, "", "").target_ref
        if step.after:
            self.check_rows(run)
        # Readers of the table continue, and no session queues behind this for long.
        with self._tables.session.limited_lock_waits():
            self._alter(target, step.statement)

    def is_changed(self, change: ColumnChange, table: TableRef) -> bool:
        columns = table_columns(self._tables.session, table)
        return is_applied(change, {column.name: column for column in columns})

    def perform(self, step: Step, table: TableRef) -> None:
        session = self._tables.session
        if (indexes := IndexChange.of(step, table)) is not None:
            remaining = indexes.remaining(read_indexes(session, table))
            self._alter(table, remaining.statement(session.dialect))
        elif (link := ForeignKeyChange.of(step)) is not None:
            self._alter(link.table, step.statement)
        elif step.after and step.instead is not None:
            self._alter(table, step.statement)
        else:
            session.run(step.statement)

    def _alter(self, table: TableRef, statement: str) -> None:
        self._note_altering(table)
        # The statement ends the transaction: what was recorded stays, even if it fails.
        try:
            self._tables.session.run(statement)
        except PermanentError:
            self._note_altered(table)
            raise
        self._note_altered(table)

    def _note_altering(self, table: TableRef) -> None:
        note_altering(self._tables, creation_times(self._tables.session, [table]))

    def _note_altered(self, table: TableRef) -> None:
        note_altered(self._tables, [table])

    def after_step(self, run: RunRow, step: Step) -> None:
        # The process that altered the table may have ended before it recorded that.
        self._note_altered(run.plan.load.table)

    def is_done(self, run: RunRow, step: Step) -> bool:
        if step.change is not None:
            target = CopySpec.from_stored(run.spec, "", "").target_ref
            return self.is_changed(step.change, target)
        if step.id == DROP:
            return creation_time(self._tables.session, run.plan.load.table) is None
        if step.id == SCHEMA:
            # Creating an existing table would wait for all readers of it.
            ref = run.plan.load.table
            return (ref.schema,) in self._tables.session.fetch(
                "SELECT schema_name FROM information_schema.schemata WHERE schema_name = %s",
                f"database {ref.schema}",
                [ref.schema],
            )
        if (indexes := IndexChange.of(step, run.plan.load.table)) is not None:
            return indexes.is_done(read_indexes(self._tables.session, run.plan.load.table))
        if (link := ForeignKeyChange.of(step)) is not None:
            exists = link.exists(self._tables.session)
            if link.kind == RELINK:
                return exists or self._is_recreated(run, link.table)
            return exists != (link.kind == UNLINK)
        if step.id != SWAP or creation_time(self._tables.session, run.plan.load.table) is not None:
            return False
        # It has replaced the table; the process that did so may not have dropped the old one.
        old = self._tables.session.table(old_table(run.plan.load.table))
        self._tables.session.run(f"DROP TABLE IF EXISTS {old}")
        return True

    def _is_recreated(self, run: RunRow, table: TableRef) -> bool:
        """Whether a run has created another table since this run was planned."""
        (row,) = self._tables.read(Kind.RUN, {"run_id": run.run_id}, ("created_at",))
        return creation_time(self._tables.session, table) is None or any(
            mode_of(other["spec"]).table is Table.RECREATED
            and (other["prepared_at"] or "") > row["created_at"]
            for other in self._tables.read(
                Kind.RUN, {"loads": LoadedTable(self._tables, table).id}, ("spec", "prepared_at")
            )
        )
