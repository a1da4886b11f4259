"""Steps around a load, their records, and the steps that stopped runs have left undone.

A step is repeatable, and recorded afterwards; an interrupted one is done again. If the database can
undo a step together with its record, both are in one transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from penstock.backends.api.execution.control import GIVEN_UP, RunRow
from penstock.backends.api.execution.records import Hold, Kind, RecordStore, Row
from penstock.backends.shared.attempts.refusals import not_committed
from penstock.backends.shared.attempts.run_presence import RunPresence
from penstock.backends.shared.bisection import halved, is_no_interruption
from penstock.backends.shared.records.ledger import Ledger
from penstock.backends.shared.records.load_hooks import LoadHooks, check_finishing
from penstock.backends.shared.records.night_records import NightRecords
from penstock.errors import PenstockError, PermanentError
from penstock.model.awaited import during
from penstock.model.nights import check_epoch
from penstock.model.plans import (
    GONE_STEP,
    MERGE_STEP,
    SWAP_STEP,
    WATERMARK_STEP,
    LoadPlan,
    Step,
    makes_foreign_key,
)
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import CopySpec, stored_target
from penstock.spec.modes import Table, mode_of


class StepRecords:
    """See `Steps`."""

    def __init__(
        self,
        ledger: Ledger[Any],
        hooks: LoadHooks[Any],
        pending: PendingSteps,
        nights: NightRecords,
    ) -> None:
        self._ledger = ledger
        self._store: RecordStore = ledger.store
        self._runs = ledger.runs
        self._hooks = hooks
        self._nights = nights
        self.done = ledger.steps_done
        self.pending = pending.of

    def are_joined(self, run_ids: Sequence[str]) -> bool:
        """Whether one transaction may do and record steps of these runs."""
        return self._store.steps_with_records and self._store.joins(run_ids)

    @during("doing the steps after the load")
    def finish_together(self, steps: Mapping[str, Sequence[Step]]) -> frozenset[str]:
        def finish(run_ids: Sequence[str]) -> Mapping[str, bool]:
            return self._finish_together({run_id: steps[run_id] for run_id in run_ids})

        if not self._store.steps_with_records:
            return self._hooks.finish_at_once(steps)
        done, _ = halved(sorted(steps), finish, PenstockError, is_no_interruption)
        return frozenset(done)

    def _finish_together(self, steps: Mapping[str, Sequence[Step]]) -> Mapping[str, bool]:
        """Finish runs in one transaction; return which are, none if they cannot be joined."""
        run_ids = sorted(steps)
        if len(run_ids) < 2 or not self.are_joined(run_ids):
            return {}
        merging = any(step.id == MERGE_STEP for run_id in run_ids for step in steps[run_id])
        if merging and not self._nights.merge_together:
            return {}
        exchanging = any(step.id == SWAP_STEP for run_id in run_ids for step in steps[run_id])
        if exchanging and not self._hooks.exchanges_together:
            return {}
        self._store.transact_all(run_ids, lambda: self._finish_all(steps), Hold.STEP)
        return dict.fromkeys(run_ids, True)

    def _finish_all(self, steps: Mapping[str, Sequence[Step]]) -> None:
        """Finish runs in one transaction; raises if one must be examined separately."""
        run_ids = sorted(steps)
        runs, committed = self._runs.load(run_ids), self._store.tally(run_ids)
        for run_id in steps:
            run = runs.get(run_id)
            if run is None or committed.get(run_id, (0, 0))[0] != len(run.plan.partitions):
                raise not_committed(run_id)
        rows = [
            {"run_id": run_id, "step_id": step.id} for run_id in steps for step in steps[run_id]
        ]
        if self._store.add(Kind.STEP, rows) != len(rows):
            raise not_committed(rows[0]["run_id"])  # another execution has done one of them
        pending = [(runs[run_id], step) for run_id in steps for step in steps[run_id]]
        if merging := [run for run, step in pending if step.id == MERGE_STEP]:
            self._nights.merge_runs(merging)
        separate_steps = (MERGE_STEP, WATERMARK_STEP)
        self._hooks.do_all(
            [
                (run, step)
                for run, step in pending
                if step.id not in separate_steps and not step.with_merge
            ]
        )
        self._hooks.after_steps([each for each in pending if each[1].id != WATERMARK_STEP])
        for run, step in pending:
            if step.id == WATERMARK_STEP:
                self._nights.set_watermark(run)

    def finish(self, run_id: str, step: Step) -> bool:
        with during(f"doing a step: {step.name}"):
            recorded = self._finish(run_id, step)
            if recorded:
                self._hooks.after_record(run_id, step)
            return recorded

    def _finish(self, run_id: str, step: Step) -> bool:
        row = {"run_id": run_id, "step_id": step.id}

        def do_steps() -> bool:
            run = check_finishing(self._ledger, self._hooks, run_id)
            # Inserted first: a second call waits for this record, and then finds it.
            if not self._store.add(Kind.STEP, [row]):
                return False
            if step.with_merge:
                raise not_committed(run_id)  # the merge comes first, and records it
            if step.id == GONE_STEP:
                raise PermanentError(f"run {run_id} has not looked for deleted rows yet; resume it")
            if step.id == MERGE_STEP:
                self._nights.merge_runs([run])
            elif step.id == WATERMARK_STEP:
                self._nights.set_watermark(run)
                return True
            elif step.moves_watermark:
                self._nights.set_watermark(run, step)
            else:
                self._hooks.do(run, step)
            self._hooks.after_step(run, step)
            return True

        with_record = step.id in (GONE_STEP, MERGE_STEP, WATERMARK_STEP)
        if self._store.steps_with_records or with_record:
            return self._store.transact(run_id, do_steps, Hold.STEP)

        def look() -> tuple[RunRow, frozenset[str]]:
            return check_finishing(self._ledger, self._hooks, run_id), self.done([run_id])[run_id]

        with self._store.exclusive(run_id, step.id):
            run, done = self._store.transact(run_id, look, Hold.STEP)
            if step.id in done:
                return False
            self.do_in_transaction(run, step, Hold.STEP)

            def record() -> bool:
                if check_finishing(self._ledger, self._hooks, run_id).generation != run.generation:
                    raise not_committed(run_id)
                self._hooks.after_step(run, step)
                return self._store.add(Kind.STEP, [row]) == 1

            return self._store.transact(run_id, record, Hold.STEP)

    def do_in_transaction(self, run: RunRow, step: Step, hold: Hold) -> None:
        """Do a step, unless it is done already, where steps and records are separate."""

        def do() -> None:
            if self._hooks.is_done(run, step):
                return
            if step.id == SWAP_STEP and (night := run.plan.night):
                latest = self._ledger.watermarks.latest([night.name])
                check_epoch(run.run_id, night, latest.get(night.name))
            try:
                self._hooks.do(run, step)
            except PermanentError:
                # Another execution of the run may have been faster, or may have finished long ago.
                if (
                    not self._hooks.is_done(run, step)
                    and step.id not in self.done([run.run_id])[run.run_id]
                ):
                    raise

        self._store.transact(run.run_id, do, hold)

    def in_effect(self, run_id: str) -> frozenset[str]:
        unrecorded = self.unrecorded(run_id)
        return self.done([run_id])[run_id].union(step.id for step in unrecorded)

    def unrecorded(self, run_id: str) -> list[Step]:
        """Return the steps after the last partition that are done but not recorded."""
        if self._store.steps_with_records:
            return []
        run, done = self._runs.find(run_id), self.done([run_id])[run_id]
        if run is None or run.prepared_at is None:
            return []
        unrecorded = [
            s for s in run.plan.load.after if s.id not in done and self._hooks.is_done(run, s)
        ]
        # Before that, the objects a step would create may exist, and must be dropped first.
        return (
            unrecorded
            if unrecorded and self._ledger.commits.are_complete(run_id, len(run.plan.partitions))
            else []
        )


class PendingSteps:
    """See `Steps.pending`."""

    def __init__(self, ledger: Ledger[Any], hooks: LoadHooks[Any], presence: RunPresence) -> None:
        self._ledger = ledger
        self._store: RecordStore = ledger.store
        self._runs = ledger.runs
        self._hooks = hooks
        self._presence = presence

    def of(self, tables: Sequence[TableRef]) -> Mapping[TableRef, tuple[tuple[str, Step], ...]]:
        pending: dict[TableRef, tuple[tuple[str, Step], ...]] = dict.fromkeys(tables, ())
        stopped = ["running", "failed", "interrupted", "partial", GIVEN_UP]
        if not self._store.steps_with_records:
            # Its first steps may be done without a record that the run is prepared.
            stopped.append("created")
        rows = _runs_in_place(self._ledger, pending, *stopped)
        prepared_ids = [
            row["run_id"]
            for row in rows
            if row["prepared_at"] is not None or not self._store.steps_with_records
        ]
        if not prepared_ids:
            return pending
        runs, done = self._runs.load(prepared_ids), self._ledger.steps_done(prepared_ids)
        for run_id in prepared_ids:
            run = runs.get(run_id)
            if run is not None and (table := run.plan.load.table) in pending:
                undone = self._undone(run, done[run_id])
                pending[table] += tuple((run_id, step) for step in undone)
        return pending

    def _undone(self, run: RunRow, done: Collection[str]) -> Sequence[Step]:
        load = run.plan.load
        dropped: tuple[Step, ...] = ()
        if run.spec.get("data_only"):
            dropped = tuple(filter(makes_foreign_key, load.links))
        after = [
            step
            for step in (*load.after, *dropped)
            if step.id not in done and not step.sequence_of and step.id != WATERMARK_STEP
        ]
        undone = [step for step in after if not self._hooks.is_done(run, step)]
        if not undone or self._presence.is_executed(run.run_id, run.plan.load.table):
            return ()
        return () if done_by_another(self._ledger, run) else undone


def done_by_another(ledger: Ledger[Any], run: RunRow) -> bool:
    """Whether another run has done the steps that a stopped one left undone."""
    for row in _runs_in_place(ledger, [run.plan.load.table], "done"):
        spec = CopySpec.from_stored(row["spec"], "", "")
        alters = spec.alters_table or spec.data_only
        if row["created_at"] > run.created_at and alters:
            other_run = ledger.runs.find(row["run_id"])
            load = other_run.plan.load if other_run else LoadPlan(run.plan.load.table)
            steps = (*load.after, *load.links)
            if any(step.left_by == run.run_id for step in steps):
                return True
    return False


def _runs_in_place(ledger: Ledger[Any], tables: Collection[TableRef], *status: str) -> list[Row]:
    """Return runs, by status, that load one of these tables directly."""
    fields = ("run_id", "spec", "created_at", "prepared_at")
    rows = ledger.store.read(Kind.RUN, {"status": status}, fields)
    return [row for row in rows if _loads_in_place(row["spec"], tables)]


def _loads_in_place(spec: Mapping[str, Any], tables: Collection[TableRef]) -> bool:
    if mode_of(spec).table is not Table.TARGET:
        return False
    return stored_target(spec) in tables
