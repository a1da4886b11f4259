"""Steps that stopped runs have left undone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from penstock.backends.api.execution.control import GIVEN_UP, RunRow
from penstock.backends.api.execution.records import Kind, RecordStore, Row
from penstock.backends.shared.attempts.run_presence import RunPresence
from penstock.backends.shared.records.ledger import Ledger
from penstock.backends.shared.records.load_hooks import LoadHooks
from penstock.model.plans import WATERMARK_STEP, LoadPlan, Step, makes_foreign_key
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import CopySpec
from penstock.spec.modes import Table, mode_of


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
    return CopySpec.from_stored(spec, "", "").target_ref in tables
