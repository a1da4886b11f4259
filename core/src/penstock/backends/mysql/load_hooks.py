"""The tables that runs load: the parts that only MySQL has, whose steps commit by themselves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace

from penstock.backends.api.execution.control import RunRow
from penstock.backends.api.execution.records import Kind, Row
from penstock.backends.mysql.catalog.indexes import read_indexes
from penstock.backends.mysql.catalog.tables import (
    creation_time,
    creation_times,
    table_columns,
)
from penstock.backends.mysql.dialect import old_table
from penstock.backends.mysql.load.batched_steps import (
    finish_batch,
    note_altered,
    note_altering,
    prepare_batch,
    table_of,
)
from penstock.backends.mysql.records import MySqlRecords
from penstock.backends.sql.definitions.column_changes import is_applied
from penstock.backends.sql.definitions.definition import SCHEMA
from penstock.backends.sql.definitions.foreign_keys import (
    REFER,
    RELINK,
    UNLINK,
    ForeignKeyChange,
)
from penstock.backends.sql.definitions.index_changes import IndexChange
from penstock.backends.sql.loads.load_plan import SWAP
from penstock.backends.sql.loads.load_steps import table_before
from penstock.backends.sql.loads.loaded_table import LoadedTable
from penstock.backends.sql.loads.night import DROP
from penstock.backends.sql.server.load_hooks import ServerLoadHooks
from penstock.errors import Interrupted, PenstockError, PermanentError
from penstock.model.drift import ColumnChange
from penstock.model.plans import LoadPlan, Step
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import stored_target
from penstock.spec.modes import Table, mode_of


class MySqlLoadHooks(ServerLoadHooks[MySqlRecords]):
    """See `ServerLoadHooks`."""

    # Many runs at once

    def prepare_at_once(self, loads: Mapping[str, LoadPlan]) -> frozenset[str]:
        if len(loads) < 2 or not self.store.joins(list(loads)):
            return frozenset()
        return self._joined_steps(lambda: prepare_batch(self, loads))

    def finish_at_once(self, steps: Mapping[str, Sequence[Step]]) -> frozenset[str]:
        joined = {
            run_id: steps_of_run
            for run_id, steps_of_run in steps.items()
            if not any(step.moves_watermark or step.urgent for step in steps_of_run)
        }
        if len(joined) < 2 or not self.store.joins(list(joined)):
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

    def doubtful(self, run_ids: Sequence[str]) -> Collection[str]:
        return run_ids if len(run_ids) < 2 else self.suspect(run_ids)

    def suspect(self, run_ids: Sequence[str]) -> set[str]:
        """Return the runs whose tables may have changed."""
        rows = self.store.read(
            Kind.RUN, {"run_id": tuple(run_ids)}, ("run_id", "loads", "made", "disturbed_by")
        )
        loads = {row["loads"]: table_of(row["loads"]) for row in rows if row["loads"]}
        created_at = creation_times(self.store.session, list(loads.values()))
        counted = self.store.noted_rows(list(loads))
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

    # Steps

    def after_preparing(self, run: RunRow, load: LoadPlan) -> Row:
        self._note_altered(load.table)
        return super().after_preparing(run, load)

    def do(self, run: RunRow, step: Step) -> None:
        target = stored_target(run.spec)
        if step.change is None:
            if step.kind == UNLINK and step.after:
                # What would refuse the exchange does so while the key is there.
                LoadedTable(self.store, target).check_loaded_since(run.run_id)
            super().do(run, step)
            return
        if step.after:
            self.check_rows(run)
        # Readers of the table continue, and no session queues behind this for long.
        with self.store.session.limited_lock_waits():
            self._alter(target, step.statement)

    def _is_changed(self, change: ColumnChange, table: TableRef) -> bool:
        """Whether a change of a table's columns has been made."""
        columns = table_columns(self.store.session, table)
        return is_applied(change, {column.name: column for column in columns})

    def perform(self, step: Step, table: TableRef) -> None:
        session = self.store.session
        if (indexes := IndexChange.of(step, table)) is not None:
            remaining = indexes.remaining(read_indexes(session, table))
            self._alter(table, remaining.statement(session.dialect))
        elif (link := ForeignKeyChange.of(step)) is not None:
            # The table whose key is dropped late has readers.
            with session.limited_lock_waits() if step.urgent else nullcontext():
                self._alter(link.table, step.statement)
        elif step.after and step.instead is not None:
            self._alter(table, step.statement)
        else:
            session.run(step.statement)

    def _alter(self, table: TableRef, statement: str) -> None:
        self._note_altering(table)
        # The statement ends the transaction: what was recorded stays, even if it fails.
        try:
            self.store.session.run(statement)
        except PermanentError:
            self._note_altered(table)
            raise
        self._note_altered(table)

    def _note_altering(self, table: TableRef) -> None:
        note_altering(self.store, creation_times(self.store.session, [table]))

    def _note_altered(self, table: TableRef) -> None:
        note_altered(self.store, [table])

    def after_step(self, run: RunRow, step: Step) -> None:
        super().after_step(run, step)
        # The process that altered the table may have ended before it recorded that.
        target = stored_target(run.spec)
        self._note_altered(table_before(step, run.plan.load, target))

    def is_done(self, run: RunRow, step: Step) -> bool:
        target = stored_target(run.spec)
        if step.change is not None:
            return self._is_changed(step.change, target)
        if table_before(step, run.plan.load, target) != run.plan.load.table and self._is_apart(run):
            return False  # what there is belongs to the old table
        if step.id == DROP:
            return creation_time(self.store.session, run.plan.load.table) is None
        if step.id == SCHEMA:
            # Creating an existing table would wait for all readers of it.
            ref = run.plan.load.table
            return (ref.schema,) in self.store.session.fetch(
                "SELECT schema_name FROM information_schema.schemata WHERE schema_name = %s",
                f"database {ref.schema}",
                [ref.schema],
            )
        if (indexes := IndexChange.of(step, run.plan.load.table)) is not None:
            return indexes.is_done(read_indexes(self.store.session, run.plan.load.table))
        if (link := ForeignKeyChange.of(step)) is not None:
            exists = link.exists(self.store.session)
            if link.kind == RELINK:
                return exists or self._is_recreated_without(link, run)
            return exists != (link.kind == UNLINK)
        if step.id != SWAP or self._is_apart(run):
            return False
        # It has replaced the table; the process that did so may not have dropped the old one.
        old = self.store.session.table(old_table(run.plan.load.table))
        self.store.session.run(f"DROP TABLE IF EXISTS {old}")
        return True

    def _is_apart(self, run: RunRow) -> bool:
        """Whether the table that a run builds beside the target's has not replaced it yet."""
        return creation_time(self.store.session, run.plan.load.table) is not None

    def _is_recreated_without(self, link: ForeignKeyChange, run: RunRow) -> bool:
        """Whether another table has been created since this run was planned, without the key.

        A run that has created the table makes its foreign keys itself.
        """
        if creation_time(self.store.session, link.table) is None:
            return True
        loads = {"loads": LoadedTable(self.store, link.table).id}
        times = ("run_id", "spec", "prepared_at", "finished_at")
        others = {
            row["run_id"]: row
            for row in self.store.read(Kind.RUN, loads, times)
            if mode_of(row["spec"]).table is Table.RECREATED
        }
        if not others:
            return False
        (row,) = self.store.read(Kind.RUN, {"run_id": run.run_id}, ("created_at",))
        done = self.ledger.steps_done(list(others))

        def has_created(run_id: str) -> bool:
            """Whether it may have created the table since: before its end, if by an exchange."""
            if SWAP not in done[run_id]:
                return bool((others[run_id]["prepared_at"] or "") > row["created_at"])
            finished_at = others[run_id]["finished_at"]
            return finished_at is None or bool(finished_at > row["created_at"])

        creating = list(filter(has_created, others))
        # A key that was made before will not be made again.
        made = replace(link, kind=REFER).id
        return bool(creating) and not any(made in done[run_id] for run_id in creating)
