"""The end of a night: its merge and its watermark, in one transaction with their records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.backends.api.execution.control import GIVEN_UP, RunRow
from penstock.backends.api.execution.records import Hold, Kind, RecordStore
from penstock.backends.shared.attempts.refusals import not_committed
from penstock.backends.shared.records.ledger import Ledger
from penstock.backends.shared.records.load_hooks import LoadHooks, NightHooks, check_finishing
from penstock.errors import PermanentError
from penstock.model.plans import GONE_STEP, MERGE_STEP, Step
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import stored_target


class NightRecords:
    """See `Nights`.

    Args:
        ledger: the target's records.
        hooks: what the backend knows about the loaded tables.
        night_hooks: how the backend merges; None for one that does not.
    """

    def __init__(
        self, ledger: Ledger[Any], hooks: LoadHooks[Any], night_hooks: NightHooks | None
    ) -> None:
        self._ledger = ledger
        self._store: RecordStore = ledger.store
        self._runs = ledger.runs
        self._hooks = hooks
        self._merging = night_hooks

    def _night_hooks(self) -> NightHooks:
        assert self._merging is not None, "its capabilities list no mode that gathers rows"
        return self._merging

    @property
    def merge_together(self) -> bool:
        """Whether several runs can be merged in one transaction."""
        return self._merging is not None and self._merging.merges_together

    def storages(self, tables: Sequence[TableRef]) -> Mapping[TableRef, str]:
        return self._night_hooks().storages(tables)

    def merge(self, run_ids: Sequence[str]) -> None:
        row = [{"run_id": run_id, "step_id": MERGE_STEP} for run_id in run_ids]

        def do_steps() -> None:
            runs = [check_finishing(self._ledger, self._hooks, run_id) for run_id in run_ids]
            if self._store.add(Kind.STEP, row) != len(row):
                raise not_committed(run_ids[0])  # another execution has done some
            self.merge_runs(runs)

        if len(run_ids) > 1 and not self._store.joins(run_ids):
            raise PermanentError(
                "--atomic batch: this target cannot merge several tables in one transaction; use "
                "--atomic table"
            )
        if len(run_ids) > 1:
            self._store.transact_all(run_ids, do_steps, Hold.STEP)
        else:
            self._store.transact(run_ids[0], do_steps, Hold.STEP)

    def merge_runs(self, runs: Sequence[RunRow]) -> None:
        """Merge runs, in the transaction that records it."""
        run_ids = [run.run_id for run in runs]
        done, committed = self._ledger.steps_done(run_ids), self._ledger.commits.of(run_ids)
        for run in runs:
            planned = {step.id for step in run.plan.load.after}
            if GONE_STEP in planned and GONE_STEP not in done[run.run_id]:
                raise not_committed(run.run_id)
        nights = [(run, committed[run.run_id]) for run in runs]
        mine = [(run, run.plan.night, records) for run, records in nights if run.plan.night]
        marks = {mark.run_id: mark for mark in self._ledger.watermarks.take_epochs(mine)}
        merged = self._night_hooks().merge(nights)
        self._note_merged(runs)
        self._store.change(Kind.COMMIT, {"run_id": tuple(run_ids)}, {"inserted": 0, "updated": 0})
        for (run, records), merge_counts in zip(nights, merged, strict=True):
            # A merge shared by all partitions is counted for the first one, so that sums are right.
            if records and (merge_counts.inserted or merge_counts.updated):
                first = {"run_id": run.run_id, "partition_id": records[0].partition_id}
                counts = {"inserted": merge_counts.inserted, "updated": merge_counts.updated}
                self._store.change(Kind.COMMIT, first, counts)
            if mark := marks.get(run.run_id):
                self._ledger.watermarks.complete(
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
            self._store.add(Kind.STEP, rows)

    def set_watermark(self, run: RunRow, swap: Step | None = None) -> None:
        """Set the watermark at the end of a load of all rows, in the transaction that records it.

        Args:
            run: the record of the run.
            swap: the step that puts the table in place; None if it is there.

        Raises:
            Overtaken: another night has ended since the run was planned.
        """
        night = run.plan.night
        assert night is not None, "its plan has such a step"
        records = self._ledger.commits.of([run.run_id])[run.run_id]
        (mark,) = self._ledger.watermarks.take_epochs([(run, night, records)])
        deleted = 0
        if swap is not None:
            if any(step.id == GONE_STEP for step in run.plan.load.after):
                if GONE_STEP not in self._ledger.steps_done([run.run_id])[run.run_id]:
                    raise not_committed(run.run_id)
                deleted = self._night_hooks().take_deleted(run)
            self._hooks.do(run, swap)
        elif not run.plan.load.loads_beside:
            self._hooks.check_rows(run)
        rows = sum(record.rows for record in records)
        target = stored_target(run.spec)
        self._ledger.watermarks.complete(
            replace(
                mark,
                target=self.storages([target])[target],
                # For a part of the table, as for a merge.
                rows=None if run.spec["where"] else rows,
                inserted=rows,
                deleted=deleted,
            )
        )

    def drop_overtaken(self, run_ids: Sequence[str]) -> None:
        nights = (run.plan.night for run in self._runs.load(run_ids).values())
        mine = {night.name: night.epoch for night in nights if night is not None}
        if not mine:
            return
        stopped = ("created", "running", "failed", "interrupted", "partial", GIVEN_UP)
        rows = self._store.read(Kind.RUN, {"status": stopped}, ("run_id",))
        other_runs = self._runs.load(
            [row["run_id"] for row in rows if row["run_id"] not in run_ids]
        )
        stages = [
            other_run.plan.load.table
            for other_run in other_runs.values()
            for night in (other_run.plan.night,)
            # Other runs have loaded the target itself.
            if other_run.plan.load.loads_beside
            if night and night.epoch <= mine.get(night.name, -1)
        ]
        if stages:
            self._hooks.drop_stages(stages)

    def record_deleted_keys(self, run_id: str, keep: Callable[[RunRow], None]) -> bool:
        """Record the keys that the source has no longer; see `FindsDeletedRows`.

        Args:
            run_id: the id of the run.
            keep: stores the keys, in the transaction.
        """

        def note() -> bool:
            run = check_finishing(self._ledger, self._hooks, run_id)
            if not self._store.add(Kind.STEP, [{"run_id": run_id, "step_id": GONE_STEP}]):
                return False
            keep(run)
            return True

        return self._store.transact(run_id, note, Hold.STEP)
