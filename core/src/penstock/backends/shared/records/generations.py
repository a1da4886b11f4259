"""The generations of a run: prepared, ended, and read with which snapshots."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from penstock.backends.api.execution.control import NewRun
from penstock.backends.api.execution.records import NOW, Hold, Kind, RecordStore
from penstock.backends.shared.attempts.refusals import superseded
from penstock.backends.shared.bisection import bisected
from penstock.backends.shared.records.ledger import Ledger
from penstock.backends.shared.records.load_hooks import LoadHooks
from penstock.backends.shared.records.run_records import new_row, view_columns
from penstock.backends.shared.records.step_records import StepRecords
from penstock.errors import PenstockError
from penstock.model.awaited import during
from penstock.model.codec import from_json, to_json
from penstock.model.plans import LoadPlan
from penstock.model.snapshots import Snapshot, SourceState

T = TypeVar("T")

# Other sessions that hold a run's snapshot, as stored: the newest ones.
MOST_HOLDERS = 32


class Generations:
    """See `api.execution.control.Generations`."""

    def __init__(self, ledger: Ledger[Any], hooks: LoadHooks[Any], steps: StepRecords) -> None:
        self._ledger = ledger
        self._store: RecordStore = ledger.store
        self._runs = ledger.runs
        self._hooks = hooks
        self._steps = steps

    # Before the first partition

    @during("preparing the target")
    def prepare(self, loads: Mapping[str, LoadPlan]) -> dict[str, bool | PenstockError]:
        done = self._hooks.prepare_at_once(loads)
        outcomes: dict[str, bool | PenstockError] = dict.fromkeys(done, True)

        def do_several(run_ids: Sequence[str]) -> Mapping[str, bool]:
            return self._store.transact_all(
                run_ids,
                lambda: self._prepare_all({run_id: loads[run_id] for run_id in run_ids}),
                Hold.CHANGE,
            )

        def do_one(run_id: str) -> bool:
            return self._prepare_alone(run_id, loads[run_id])

        remaining = sorted(loads.keys() - done)
        if len(remaining) > 1 and self._steps.are_joined(remaining):
            return outcomes | bisected(remaining, do_several, do_one)
        for run_id in remaining:
            outcomes |= bisected([run_id], do_several, do_one)
        return outcomes

    def _prepare_all(self, loads: Mapping[str, LoadPlan]) -> dict[str, bool]:
        """Prepare runs in one transaction, which undoes both steps and records."""
        runs = self._runs.load(list(loads))
        due = {run_id: run for run_id, run in runs.items() if run.prepared_at is None}
        self._hooks.before_loads([(run, loads[run_id]) for run_id, run in due.items()])
        self._hooks.do_all(
            [(run, step) for run_id, run in due.items() for step in loads[run_id].before]
        )
        self._hooks.note_prepared([(run, loads[run_id]) for run_id, run in due.items()])
        return {run_id: run_id in due for run_id in loads}

    def _prepare_alone(self, run_id: str, load: LoadPlan) -> bool:
        row = self._runs.row(run_id, ("prepared_at",))
        if row is None:
            return False
        if row["prepared_at"] is not None:
            for step in self._steps.unrecorded(run_id):
                self._steps.finish(run_id, step)
            return False
        with self._store.exclusive(run_id):
            if self._store.steps_with_records:
                return self._store.transact(run_id, lambda: self._prepare(run_id, load))
            return self._prepare(run_id, load)

    def _prepare(self, run_id: str, load: LoadPlan) -> bool:
        """Prepare a run; return False if it already is prepared."""
        run = self._runs.find(run_id)
        if run is None or run.prepared_at is not None:
            return False

        def record() -> bool:
            row = self._runs.row(run_id, ("generation", "prepared_at"))
            if row is None or row["prepared_at"] or row["generation"] != run.generation:
                return False
            changes = self._hooks.after_preparing(run, load)
            self._runs.change(run_id, {"prepared_at": NOW, "status": "running", **changes})
            return True

        if self._store.steps_with_records:
            self._hooks.before_load(run, load)
            for step in load.before:
                self._hooks.do(run, step)
            return record()
        self._store.transact(run_id, lambda: self._hooks.before_load(run, load))
        for step in load.before:
            self._steps.do_in_transaction(run, step, Hold.CHANGE)
        return self._store.transact(run_id, record)

    # Its end

    def start_over(
        self,
        run_id: str,
        generation: int,
        load: LoadPlan,
        state: SourceState,
        snapshot: Snapshot | None,
    ) -> int:
        view = view_columns(state, [snapshot] if snapshot else [])

        def start() -> None:
            self._runs.check_generation(run_id, generation)
            run = self._runs.find(run_id)
            if run is not None and run.prepared_at is not None:
                self._hooks.check_emptying(run)
            for kind in (Kind.COMMIT, Kind.STEP):
                self._store.delete(kind, {"run_id": run_id})
            self._runs.change(run_id, {**view, "generation": generation + 1, "prepared_at": None})
            if self._store.steps_with_records:
                self._prepare(run_id, load)

        with self._store.exclusive(run_id):
            self._store.transact(run_id, start, Hold.ALONE)
            # If no process gets to it, the run's next execution prepares it.
            if not self._store.steps_with_records:
                self._prepare(run_id, load)
        return generation + 1

    def replan(self, run: NewRun, generation: int) -> None:
        self._hooks.check_replanning(run.run_id)
        row = new_row(run)
        kept = {
            name: row[name]
            for name in ("spec", "plan", "partitions", "fingerprint", "source_state", "snapshots")
        }
        begun: dict[str, Any] = {
            "status": "created",
            "prepared_at": None,
            "finished_at": None,
            "failures": [],
        }

        def change() -> None:
            self._runs.check_generation(run.run_id, generation)
            for kind in (Kind.COMMIT, Kind.STEP, Kind.RECOPY):
                self._store.delete(kind, {"run_id": run.run_id})
            changes = {**kept, **begun, "generation": generation + 1, "snapshot_released_at": None}
            self._runs.change(run.run_id, changes)

        with self._store.exclusive(run.run_id):
            self._store.transact(run.run_id, change, Hold.ALONE)

    # Views

    def add_holder(
        self,
        run_id: str,
        generation: int,
        snapshot: Snapshot,
        token: str,
        gone: Collection[str] = (),
    ) -> None:
        def change() -> None:
            row = self._runs.row(run_id, ("generation", "snapshots"))
            stored = from_json(tuple[Snapshot, ...], row["snapshots"]) if row else ()
            if not row or row["generation"] != generation or stored[-1:] != (snapshot,):
                return
            held = [each for each in stored[-1].also if each not in gone]
            also = (*held, token)[-MOST_HOLDERS:]
            snapshots = (*stored[:-1], replace(stored[-1], also=also))
            self._runs.change(run_id, {"snapshots": to_json(snapshots)})

        self._store.transact(run_id, change, Hold.NOTE)

    def set_view(
        self,
        run_id: str,
        generation: int,
        expected_snapshots: Sequence[Snapshot],
        state: SourceState,
        snapshots: Sequence[Snapshot],
        *,
        nothing_committed: bool,
    ) -> int:
        following = generation + nothing_committed
        view = view_columns(state, snapshots)

        def check() -> None:
            if self._runs.check_generation(run_id, generation) != tuple(expected_snapshots):
                raise superseded(run_id)

        def are_lost() -> bool:
            """Whether a crash has removed the rows of earlier commits, which then do not matter."""
            run = self._runs.find(run_id)
            return run is not None and run.plan.load.volatile and not self._hooks.is_intact(run_id)

        def change() -> None:
            check()
            committed = nothing_committed and self._store.count(Kind.COMMIT, {"run_id": run_id})
            if committed and not are_lost():
                raise superseded(run_id)
            self._runs.change(run_id, {**view, "generation": following})

        if nothing_committed:
            check()  # before attempts of the execution that was faster are ended
        self._store.transact(run_id, change, Hold.ALONE if nothing_committed else Hold.CHANGE)
        return following
