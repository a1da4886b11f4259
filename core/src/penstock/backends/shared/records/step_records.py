"""Steps around a load, and their records.

A step is repeatable, and recorded afterwards; an interrupted one is done again. If the database can
undo a step together with its record, both are in one transaction.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from penstock.backends.api.execution.control import GIVEN_UP, RunRow
from penstock.backends.api.execution.records import NOW, Hold, Kind, Row
from penstock.backends.shared.attempts.refusals import load_lost, not_committed
from penstock.backends.shared.bisection import bisected, halved, is_no_interruption
from penstock.backends.shared.records.run_records import RunRecords, view_columns
from penstock.errors import (
    Overtaken,
    PenstockError,
    PermanentError,
    TargetBusy,
    TargetChanged,
)
from penstock.model.awaited import during
from penstock.model.nights import Night, Watermark, check_epoch
from penstock.model.plans import (
    GONE_STEP,
    MERGE_STEP,
    OF_STOPPED,
    SWAP_STEP,
    WATERMARK_STEP,
    LoadPlan,
    Step,
    makes_foreign_key,
)
from penstock.model.records import CommitRecord
from penstock.model.snapshots import Snapshot, SourceState
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import CopySpec
from penstock.spec.modes import mode_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MergeCounts:
    """The row counts of a night's merge."""

    inserted: int
    updated: int
    deleted: int = 0
    rows: int | None = None
    """The current row count of the target's table; None if not counted."""
    target: str = ""
    """What identifies the target's table."""


class StepRecords(RunRecords, ABC):
    """The part of a `ControlStore` that does the steps of a load; a backend adds how."""

    # Added by a backend

    merges_together = False
    """Whether `merge` accepts several runs."""

    @abstractmethod
    def check_emptying(self, run: RunRow) -> None:
        """Check before a restarted run empties its table again.

        Raises:
            TargetChanged: another run has loaded rows since, which would be lost.
        """

    def before_load(self, run: RunRow, load: LoadPlan) -> None:
        """Run before the first step, in a transaction."""
        return

    def before_loads(self, loads: Sequence[tuple[RunRow, LoadPlan]]) -> None:
        """Run `before_load` for several runs, in one transaction."""
        for run, load in loads:
            self.before_load(run, load)

    @abstractmethod
    def after_preparing(self, run: RunRow, load: LoadPlan) -> Row:
        """Return what to keep in the run's record to recognize the table later.

        Called in the transaction that marks the run as prepared.
        """

    def check_not_shut_out(self, run: RunRow) -> None:
        """Check, before a step after the last partition, that the run's commits still count.

        Raises:
            TargetChanged: another run has voided them.
        """
        return

    def check_rows(self, run: RunRow) -> None:
        """Check the rows, before the watermark claims that a table loaded in place is complete.

        Raises:
            TargetChanged: the table is no longer the run's.
        """
        return

    @abstractmethod
    def do(self, run: RunRow, step: Step) -> None:
        """Do a step; one after the last partition, only if the table is still the run's.

        Raises:
            TargetChanged: it is not.
        """

    def is_executed(self, run_id: str, table: TableRef) -> bool:
        """Whether a run is known to be active on a table."""
        return False

    def is_done(self, run: RunRow, step: Step) -> bool:
        """Whether the table is in the state after a step.

        Asked if steps and records are separate, and about steps that a stopped run has not done.
        """
        return False

    def after_step(self, run: RunRow, step: Step) -> None:
        """Run in the transaction that records a step after the last partition."""
        return

    def pending_steps(
        self, tables: Sequence[TableRef]
    ) -> Mapping[TableRef, tuple[tuple[str, Step], ...]]:
        pending: dict[TableRef, tuple[tuple[str, Step], ...]] = dict.fromkeys(tables, ())
        stopped = ["running", "failed", "interrupted", "partial", GIVEN_UP]
        if not self._records.steps_with_records:
            # Its first steps may be done without a record that the run is prepared.
            stopped.append("created")
        rows = self._runs_in_place(pending, *stopped)
        prepared_ids = [
            row["run_id"]
            for row in rows
            if row["prepared_at"] is not None or not self._records.steps_with_records
        ]
        if not prepared_ids:
            return pending
        runs, done = self.load_runs(prepared_ids), self.steps_done_of(prepared_ids)
        for run_id in prepared_ids:
            run = runs.get(run_id)
            if run is not None and (table := run.plan.load.table) in pending:
                undone = self._unfinished_steps(run, done[run_id])
                pending[table] += tuple((run_id, step) for step in undone)
        return pending

    def _unfinished_steps(self, run: RunRow, done: Collection[str]) -> Sequence[Step]:
        load = run.plan.load
        dropped: tuple[Step, ...] = ()
        if run.spec.get("data_only"):
            dropped = tuple(filter(makes_foreign_key, load.links))
        after = [
            step
            for step in (*load.after, *dropped)
            if step.id not in done and not step.sequence_of and step.id != WATERMARK_STEP
        ]
        undone = [step for step in after if not self.is_done(run, step)]
        if not undone or self.is_executed(run.run_id, run.plan.load.table):
            return ()
        return () if self.done_by_another(run) else undone

    def done_by_another(self, run: RunRow) -> bool:
        """Whether another run has done the steps that a stopped one left undone."""
        for row in self._runs_in_place([run.plan.load.table], "done"):
            spec = CopySpec.from_stored(row["spec"], "", "")
            alters = spec.alters_table or spec.data_only
            if row["created_at"] > run.created_at and alters:
                other_run = self.load_run(row["run_id"])
                load = other_run.plan.load if other_run else LoadPlan(run.plan.load.table)
                steps = (*load.after, *load.links)
                if any(step.id.endswith(f"{OF_STOPPED}{run.run_id}") for step in steps):
                    return True
        return False

    def _runs_in_place(self, tables: Collection[TableRef], *status: str) -> list[Row]:
        """Return runs, by status, that load one of these tables directly."""
        fields = ("run_id", "spec", "created_at", "prepared_at")
        rows = self._records.read(Kind.RUN, {"status": status}, fields)
        return [row for row in rows if _loads_in_place(row["spec"], tables)]

    # Before the first partition

    def enter_all(
        self,
        tables: Mapping[str, TableRef],
        check: Callable[[str, Sequence[str]], None],
    ) -> dict[str, PenstockError]:
        failed: dict[str, PenstockError] = {}
        for run_id, table in tables.items():
            try:
                self.enter(run_id, table, partial(check, run_id))
            except TargetBusy as error:
                failed[run_id] = error
        return failed

    @abstractmethod
    def enter(
        self, run_id: str, table: TableRef, check: Callable[[Sequence[str]], None]
    ) -> None: ...

    def leave_all(self, tables: Mapping[str, TableRef]) -> None:
        """Do nothing: runs leave when the catalog closes."""

    def check_targets(self, run_ids: Sequence[str]) -> dict[str, PenstockError]:
        failed: dict[str, PenstockError] = {}
        for run_id in run_ids:
            try:
                self.check_target(run_id)
            except TargetChanged as error:
                failed[run_id] = self._overtaking(run_id) or error
        return failed

    def _overtaking(self, run_id: str) -> Overtaken | None:
        """Return why another night dropped the run's stage; None if none did."""
        run = self.load_run(run_id)
        if run is None or run.plan.night is None:
            return None
        if run.plan.load.night_step in self.steps_done(run_id):
            return None
        try:
            check_epoch(run_id, run.plan.night, self._latest_of(run.plan.night))
        except Overtaken as error:
            return error
        return None

    @abstractmethod
    def check_target(self, run_id: str) -> None: ...

    @during("preparing the target")
    def prepare_all(self, loads: Mapping[str, LoadPlan]) -> dict[str, bool | PenstockError]:
        def do_one(run_id: str) -> bool:
            return self.prepare(run_id, loads[run_id])

        def do_several(run_ids: Sequence[str]) -> Mapping[str, bool]:
            return self._records.transact_all(
                run_ids,
                lambda: self._prepare_all({run_id: loads[run_id] for run_id in run_ids}),
                Hold.CHANGE,
            )

        return self._joined(sorted(loads), do_several, do_one)

    def _joined(
        self,
        run_ids: Sequence[str],
        do_several: Callable[[Sequence[str]], Mapping[str, T]],
        do_one: Callable[[str], T],
    ) -> dict[str, T | PenstockError]:
        if len(run_ids) > 1 and self._joins_steps(run_ids):
            return bisected(run_ids, do_several, do_one)
        return {
            name: outcome
            for run_id in run_ids
            for name, outcome in bisected([run_id], do_several, do_one).items()
        }

    def _joins_steps(self, run_ids: Sequence[str]) -> bool:
        """Whether one transaction may do and record steps of these runs."""
        return self._records.steps_with_records and self._records.joins(run_ids)

    def _prepare_all(self, loads: Mapping[str, LoadPlan]) -> dict[str, bool]:
        """Prepare runs in one transaction, which undoes both steps and records."""
        runs = self.load_runs(list(loads))
        due = {run_id: run for run_id, run in runs.items() if run.prepared_at is None}
        self.before_loads([(run, loads[run_id]) for run_id, run in due.items()])
        self.do_all([(run, step) for run_id, run in due.items() for step in loads[run_id].before])
        self.note_prepared([(run, loads[run_id]) for run_id, run in due.items()])
        return {run_id: run_id in due for run_id in loads}

    def do_all(self, steps: Sequence[tuple[RunRow, Step]]) -> None:
        """Do steps of several runs, in one transaction."""
        for run, step in steps:
            self.do(run, step)

    def note_prepared(self, prepared: Sequence[tuple[RunRow, LoadPlan]]) -> None:
        """Mark runs as prepared, in this transaction, with what identifies their tables."""
        for run, load in prepared:
            changes = self.after_preparing(run, load)
            self._change(run.run_id, {"prepared_at": NOW, "status": "running", **changes})

    @during("preparing the target")
    def prepare(self, run_id: str, load: LoadPlan) -> bool:
        row = self._read(run_id, ("prepared_at",))
        if row is None:
            return False
        if row["prepared_at"] is not None:
            for step in self._unrecorded_steps(run_id):
                self.finish(run_id, step)
            return False
        with self._records.exclusive(run_id):
            if self._records.steps_with_records:
                return self._records.transact(run_id, lambda: self._prepare(run_id, load))
            return self._prepare(run_id, load)

    def _prepare(self, run_id: str, load: LoadPlan) -> bool:
        """Prepare a run; return False if it already is prepared."""
        run = self.load_run(run_id)
        if run is None or run.prepared_at is not None:
            return False

        def record() -> bool:
            row = self._read(run_id, ("generation", "prepared_at"))
            if row is None or row["prepared_at"] or row["generation"] != run.generation:
                return False
            changes = self.after_preparing(run, load)
            self._change(run_id, {"prepared_at": NOW, "status": "running", **changes})
            return True

        if self._records.steps_with_records:
            self.before_load(run, load)
            for step in load.before:
                self.do(run, step)
            return record()
        self._records.transact(run_id, lambda: self.before_load(run, load))
        for step in load.before:
            self._do_in_transaction(run, step, Hold.CHANGE)
        return self._records.transact(run_id, record)

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
            run = self._check_generation(run_id, generation)
            if run.prepared_at is not None:
                self.check_emptying(run)
            for kind in (Kind.COMMIT, Kind.STEP):
                self._records.delete(kind, {"run_id": run_id})
            self._change(run_id, {**view, "generation": generation + 1, "prepared_at": None})
            if self._records.steps_with_records:
                self._prepare(run_id, load)

        with self._records.exclusive(run_id):
            self._records.transact(run_id, start, Hold.ALONE)
            # If no process gets to it, the run's next execution prepares it.
            if not self._records.steps_with_records:
                self._prepare(run_id, load)
        return generation + 1

    # After the last partition

    @during("doing the steps after the load")
    def finish_all(self, steps: Mapping[str, Sequence[Step]]) -> frozenset[str]:
        def finish(run_ids: Sequence[str]) -> Mapping[str, bool]:
            return self._finish_together({run_id: steps[run_id] for run_id in run_ids})

        done, _ = halved(sorted(steps), finish, PenstockError, is_no_interruption)
        return frozenset(done)

    def _finish_together(self, steps: Mapping[str, Sequence[Step]]) -> Mapping[str, bool]:
        """Finish runs in one transaction; return which are, none if they cannot be joined."""
        run_ids = sorted(steps)
        if len(run_ids) < 2 or not self._joins_steps(run_ids):
            return {}
        merging = any(step.id == MERGE_STEP for run_id in run_ids for step in steps[run_id])
        if merging and not self.merges_together:
            return {}
        self._records.transact_all(run_ids, lambda: self._finish_all(steps), Hold.STEP)
        return dict.fromkeys(run_ids, True)

    def _finish_all(self, steps: Mapping[str, Sequence[Step]]) -> None:
        """Finish runs in one transaction; raises if one must be examined separately."""
        run_ids = sorted(steps)
        runs, committed = self.load_runs(run_ids), self._records.tally(run_ids)
        for run_id in steps:
            run = runs.get(run_id)
            if run is None or committed.get(run_id, (0, 0))[0] != len(run.plan.partitions):
                raise not_committed(run_id)
        rows = [
            {"run_id": run_id, "step_id": step.id} for run_id in steps for step in steps[run_id]
        ]
        if self._records.add(Kind.STEP, rows) != len(rows):
            raise not_committed(rows[0]["run_id"])  # another execution has done one of them
        pending = [(runs[run_id], step) for run_id in steps for step in steps[run_id]]
        if merging := [run for run, step in pending if step.id == MERGE_STEP]:
            self._merge(merging)
        separate_steps = (MERGE_STEP, WATERMARK_STEP)
        self.do_all(
            [
                (run, step)
                for run, step in pending
                if step.id not in separate_steps and not step.with_merge
            ]
        )
        for run, step in pending:
            if step.id == WATERMARK_STEP:
                self._set_watermark(run)
            else:
                self.after_step(run, step)

    def finish(self, run_id: str, step: Step) -> bool:
        with during(f"doing a step: {step.name}"):
            return self._finish(run_id, step)

    def _finish(self, run_id: str, step: Step) -> bool:
        row = {"run_id": run_id, "step_id": step.id}

        def do_steps() -> bool:
            run = self._check_finishing(run_id)
            # Inserted first: a second call waits for this record, and then finds it.
            if not self._records.add(Kind.STEP, [row]):
                return False
            if step.with_merge:
                raise not_committed(run_id)  # the merge comes first, and records it
            if step.id == GONE_STEP:
                raise PermanentError(f"run {run_id} has not looked for deleted rows yet; resume it")
            if step.id == MERGE_STEP:
                self._merge([run])
            elif step.id == WATERMARK_STEP:
                self._set_watermark(run)
                return True
            elif step.moves_watermark:
                self._set_watermark(run, step)
            else:
                self.do(run, step)
            self.after_step(run, step)
            return True

        with_record = step.id in (GONE_STEP, MERGE_STEP, WATERMARK_STEP)
        if self._records.steps_with_records or with_record:
            return self._records.transact(run_id, do_steps, Hold.STEP)

        def look() -> tuple[RunRow, frozenset[str]]:
            return self._check_finishing(run_id), self.steps_done(run_id)

        with self._records.exclusive(run_id, step.id):
            run, done = self._records.transact(run_id, look, Hold.STEP)
            if step.id in done:
                return False
            self._do_in_transaction(run, step, Hold.STEP)

            def record() -> bool:
                if self._check_finishing(run_id).generation != run.generation:
                    raise not_committed(run_id)
                self.after_step(run, step)
                return self._records.add(Kind.STEP, [row]) == 1

            return self._records.transact(run_id, record, Hold.STEP)

    def merge_all(self, run_ids: Sequence[str]) -> None:
        row = [{"run_id": run_id, "step_id": MERGE_STEP} for run_id in run_ids]

        def do_steps() -> None:
            runs = [self._check_finishing(run_id) for run_id in run_ids]
            if self._records.add(Kind.STEP, row) != len(row):
                raise not_committed(run_ids[0])  # another execution has done some
            self._merge(runs)

        if len(run_ids) > 1 and not self._records.joins(run_ids):
            raise PermanentError(
                "--atomic batch: this target cannot merge several tables in one transaction; use "
                "--atomic table"
            )
        if len(run_ids) > 1:
            self._records.transact_all(run_ids, do_steps, Hold.STEP)
        else:
            self._records.transact(run_ids[0], do_steps, Hold.STEP)

    def _merge(self, runs: Sequence[RunRow]) -> None:
        """Merge runs, in the transaction that records it."""
        run_ids = [run.run_id for run in runs]
        done, committed = self.steps_done_of(run_ids), self.committed_of(run_ids)
        for run in runs:
            planned = {step.id for step in run.plan.load.after}
            if GONE_STEP in planned and GONE_STEP not in done[run.run_id]:
                raise not_committed(run.run_id)
        nights = [(run, committed[run.run_id]) for run in runs]
        mine = [(run, run.plan.night, records) for run, records in nights if run.plan.night]
        marks = {mark.run_id: mark for mark in self.watermarks.take_epochs(mine)}
        merged = self.merge(nights)
        self._note_merged(runs)
        self._records.change(Kind.COMMIT, {"run_id": tuple(run_ids)}, {"inserted": 0, "updated": 0})
        for (run, records), merge_counts in zip(nights, merged, strict=True):
            # A merge shared by all partitions is counted for the first one, so that sums are right.
            if records and (merge_counts.inserted or merge_counts.updated):
                first = {"run_id": run.run_id, "partition_id": records[0].partition_id}
                counts = {"inserted": merge_counts.inserted, "updated": merge_counts.updated}
                self._records.change(Kind.COMMIT, first, counts)
            if mark := marks.get(run.run_id):
                self.watermarks.complete(
                    replace(
                        mark,
                        target=merge_counts.target,
                        # For a part of the table, other watermarks may cover the rest.
                        rows=None if run.spec["where"] else merge_counts.rows,
                        inserted=merge_counts.inserted,
                        updated=merge_counts.updated,
                        deleted=merge_counts.deleted,
                    )
                )

    def _note_merged(self, runs: Sequence[RunRow]) -> None:
        """Record the steps that were done with the merge."""
        rows = [
            {"run_id": run.run_id, "step_id": step.id}
            for run in runs
            for step in (*run.plan.load.steps, *run.plan.load.links)
            if step.with_merge
        ]
        if rows:
            self._records.add(Kind.STEP, rows)

    def _set_watermark(self, run: RunRow, swap: Step | None = None) -> None:
        """Set the watermark at the end of a load of all rows, in the transaction that records it.

        Args:
            run: the record of the run.
            swap: the step that puts the table in place; None if it is there.

        Raises:
            Overtaken: another night has ended since the run was planned.
        """
        night = run.plan.night
        assert night is not None, "its plan has such a step"
        records = self.committed(run.run_id)
        (mark,) = self.watermarks.take_epochs([(run, night, records)])
        deleted = 0
        if swap is not None:
            if any(step.id == GONE_STEP for step in run.plan.load.after):
                if GONE_STEP not in self.steps_done(run.run_id):
                    raise not_committed(run.run_id)
                deleted = self.take_deleted(run)
            self.do(run, swap)
        elif not mode_of(run.spec).builds_beside:
            self.check_rows(run)
        rows = sum(record.rows for record in records)
        target = CopySpec.from_stored(run.spec, "", "").target_ref
        self.watermarks.complete(
            replace(
                mark,
                target=self.storages([target])[target],
                # For a part of the table, as for a merge.
                rows=None if run.spec["where"] else rows,
                inserted=rows,
                deleted=deleted,
            )
        )

    def take_deleted(self, run: RunRow) -> int:
        """Forget the keys from `record_deleted_keys`; return their number.

        Their rows go with the replaced table.
        """
        raise NotImplementedError  # it builds no nights

    def drop_overtaken(self, run_ids: Sequence[str]) -> None:
        nights = (run.plan.night for run in self.load_runs(run_ids).values())
        mine = {night.name: night.epoch for night in nights if night is not None}
        if not mine:
            return
        stopped = ("created", "running", "failed", "interrupted", "partial", GIVEN_UP)
        rows = self._records.read(Kind.RUN, {"status": stopped}, ("run_id",))
        other_runs = self.load_runs([row["run_id"] for row in rows if row["run_id"] not in run_ids])
        stages = [
            other_run.plan.load.table
            for other_run in other_runs.values()
            for night in (other_run.plan.night,)
            # Other runs have loaded the target itself.
            if mode_of(other_run.spec).builds_beside
            if night and night.epoch <= mine.get(night.name, -1)
        ]
        if stages:
            self.drop_stages(stages)

    def drop_stages(self, stages: Sequence[TableRef]) -> None:
        """Drop stages that no run will merge any more, as far as possible at once."""
        raise NotImplementedError  # as for `merge`

    def storages(self, tables: Sequence[TableRef]) -> Mapping[TableRef, str]:
        return {table: self.storage(table) for table in tables}

    def storage(self, table: TableRef) -> str:
        raise NotImplementedError  # as for `merge`

    def record_deleted_keys(self, run_id: str, keep: Callable[[RunRow], None]) -> bool:
        """See `FindsDeletedRows`.

        Args:
            run_id: the id of the run.
            keep: stores the keys, in the transaction.
        """

        def note() -> bool:
            run = self._check_finishing(run_id)
            if not self._records.add(Kind.STEP, [{"run_id": run_id, "step_id": GONE_STEP}]):
                return False
            keep(run)
            return True

        return self._records.transact(run_id, note, Hold.STEP)

    def merge(self, nights: Sequence[tuple[RunRow, Sequence[CommitRecord]]]) -> list[MergeCounts]:
        """Merge the stages of runs into their tables, in the transaction that records it.

        Args:
            nights: the runs, each with its commit records; several if `joins` allows it.
        """
        raise NotImplementedError  # its capabilities list no mode that gathers rows

    def _do_in_transaction(self, run: RunRow, step: Step, hold: Hold) -> None:
        def do() -> None:
            if self.is_done(run, step):
                return
            if step.id == SWAP_STEP and (night := run.plan.night):
                check_epoch(run.run_id, night, self._latest_of(night))
            try:
                self.do(run, step)
            except PermanentError:
                # Another execution of the run may have been faster, or may have finished long ago.
                if not self.is_done(run, step) and step.id not in self.steps_done(run.run_id):
                    raise

        self._records.transact(run.run_id, do, hold)

    def _latest_of(self, night: Night) -> Watermark | None:
        return self.watermarks.latest([night.name]).get(night.name)

    def _check_finishing(self, run_id: str) -> RunRow:
        """Check that a run may finish.

        Raises:
            TargetChanged: another run has shut this one out.
            LoadLost: a crash has emptied the table. TransientError: the run was restarted.
        """
        run = self.load_run(run_id)
        if run is not None:
            self.check_not_shut_out(run)
        if run is None or not self._all_committed(run):
            raise not_committed(run_id)
        if run.plan.load.volatile and not self.is_intact(run_id):
            raise load_lost(run_id)
        return run

    def _all_committed(self, run: RunRow) -> bool:
        count = self._records.count(Kind.COMMIT, {"run_id": run.run_id})
        return count == len(run.plan.partitions)

    def steps_done(self, run_id: str) -> frozenset[str]:
        rows = self._records.read(Kind.STEP, {"run_id": run_id}, ("step_id",))
        return frozenset(row["step_id"] for row in rows)

    def steps_done_of(self, run_ids: Sequence[str]) -> dict[str, frozenset[str]]:
        rows_by_run = self._records.read_all(Kind.STEP, run_ids, ("step_id",))
        return {
            run_id: frozenset(row["step_id"] for row in rows)
            for run_id, rows in rows_by_run.items()
        }

    def steps_in_effect(self, run_id: str) -> frozenset[str]:
        unrecorded = self._unrecorded_steps(run_id)
        return self.steps_done(run_id).union(step.id for step in unrecorded)

    def _unrecorded_steps(self, run_id: str) -> list[Step]:
        """Return the steps after the last partition that are done but not recorded."""
        if self._records.steps_with_records:
            return []
        run, done = self.load_run(run_id), self.steps_done(run_id)
        if run is None or run.prepared_at is None:
            return []
        unrecorded = [s for s in run.plan.load.after if s.id not in done and self.is_done(run, s)]
        # Before that, the objects a step would create may exist, and must be dropped first.
        return unrecorded if unrecorded and self._all_committed(run) else []


def _loads_in_place(spec: Mapping[str, Any], tables: Collection[TableRef]) -> bool:
    if mode_of(spec).loads_new_table:
        return False
    return CopySpec.from_stored(spec, "", "").target_ref in tables
