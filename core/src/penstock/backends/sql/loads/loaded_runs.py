"""The control store of a database that does not record who loaded a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from penstock.backends.api.execution.control import RunRow
from penstock.backends.api.execution.records import Row
from penstock.backends.shared.records.control_store import RecordedRuns
from penstock.backends.shared.records.lasting_rows import Lasting, Seen
from penstock.backends.shared.records.step_records import MergeCounts
from penstock.backends.sql.catalog.relations import read_columns, read_relations
from penstock.backends.sql.definitions.column_changes import is_applied
from penstock.backends.sql.definitions.definition import SCHEMA
from penstock.backends.sql.definitions.missing_table import MAKE, make
from penstock.backends.sql.dialect import CatalogDialect
from penstock.backends.sql.loads.deleted_keys import TargetKeys
from penstock.backends.sql.loads.lasting_rows import see_again
from penstock.backends.sql.loads.load_plan import SWAP
from penstock.backends.sql.loads.loaded_table import LoadedTable, LoadRecords
from penstock.backends.sql.loads.night import follow, merge, stage_tables
from penstock.backends.sql.rows.conditions import condition
from penstock.errors import PenstockError, UsageError
from penstock.model.drift import ColumnChange
from penstock.model.plans import MERGE_STEP, LoadPlan, Step
from penstock.model.records import CommitRecord
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import CopySpec
from penstock.spec.modes import Entry, mode_of


class LoadedRuns(RecordedRuns):
    """A `ControlStore`, except for which runs are active."""

    def __init__(self, tables: LoadRecords) -> None:
        super().__init__(tables)
        self._tables = tables

    def check_target(self, run_id: str) -> None:
        with self._tables.reading() as tables_exist:
            run = self.load_run(run_id) if tables_exist else None
            # What happens to the rows of a finished run does not concern it.
            if run is None or run.prepared_at is None or run.status == "done":
                return
            if not self.steps_done(run_id) & {SWAP, MERGE_STEP}:
                table = LoadedTable(self._tables, run.plan.load.table)
                table.check(run_id, mode_of(run.spec), thoroughly=True)

    def see_again(self, runs: Sequence[Lasting]) -> Mapping[str, Seen]:
        with self._tables.reading() as tables_exist:
            return see_again(self._tables.session, runs) if tables_exist else {}

    # Steps

    def check_emptying(self, run: RunRow) -> None:
        if mode_of(run.spec).starts_empty:
            LoadedTable(self._tables, run.plan.load.table).check_loaded_since(run.run_id)

    def before_load(self, run: RunRow, load: LoadPlan) -> None:
        LoadedTable(self._tables, load.table).begin(run.run_id)

    def after_preparing(self, run: RunRow, load: LoadPlan) -> Row:
        table = LoadedTable(self._tables, load.table)
        if mode_of(run.spec).starts_empty:
            table.emptied(run.run_id)
        table.end()
        return {"loads": table.id, "disturbed_by": None}

    def check_rows(self, run: RunRow) -> None:
        """Check the rows of a run.

        Raises:
            TargetChanged: rows that the run has loaded are gone, or rows of others are in the
                table although the mode removes them.
        """
        LoadedTable(self._tables, run.plan.load.table).check(run.run_id, mode_of(run.spec))

    def do(self, run: RunRow, step: Step) -> None:
        target = CopySpec.from_stored(run.spec, "", "").target_ref
        if step.after:
            self.check_rows(run)
            LoadedTable(self._tables, target).check_loaded_since(run.run_id)
        if step.change is not None and self.is_changed(step.change, target):
            return  # another run has changed it
        if step.id == MAKE:
            make(self._tables.session, step, target)
        else:
            self._tables.session.run(step.statement)

    def is_changed(self, change: ColumnChange, table: TableRef) -> bool:
        """Whether a change of a table's columns has been made."""
        columns = read_columns(self._tables.session, table)
        return is_applied(change, {column.name: column for column in columns})

    def do_all(self, steps: Sequence[tuple[RunRow, Step]]) -> None:
        executed: set[str] = set()
        for run, step in steps:
            if step.id == SCHEMA:
                if step.statement in executed:
                    continue
                executed.add(step.statement)
            self.do(run, step)

    def after_step(self, run: RunRow, step: Step) -> None:
        if step.id == MERGE_STEP:
            return  # it has already recorded everything
        swapped = LoadedTable(self._tables, CopySpec.from_stored(run.spec, "", "").target_ref)
        swapped.emptied(run.run_id)
        swapped.end()
        LoadedTable(self._tables, run.plan.load.table).end()

    # Nights

    counts_rows = True
    """Whether the rows of loaded tables are counted."""

    def dialect(self, table: TableRef, key: Sequence[str]) -> CatalogDialect:
        """Return the dialect for finding a table's rows by a key."""
        return self._tables.session.dialect

    def merge(self, nights: Sequence[tuple[RunRow, Sequence[CommitRecord]]]) -> list[MergeCounts]:
        return [self._merged(*night) for night in nights]

    def _merged(self, run: RunRow, records: Sequence[CommitRecord]) -> MergeCounts:
        self.check_rows(run)
        ref = CopySpec.from_stored(run.spec, "", "").target_ref
        target = LoadedTable(self._tables, ref)
        if self.counts_rows:
            target.begin(run.run_id)
        follow(self._tables.session, self._tables.session.dialect, run)
        dialect = self.dialect(ref, run.plan.load.conflict_columns)
        rows = sum(record.rows for record in records)
        if mode_of(run.spec).entry is Entry.REPLACE:
            for partition in run.plan.partitions:
                selected = condition(dialect, run.spec["where"], partition.extent)
                target.replace(run.run_id, selected)
        merged = merge(self._tables.session, dialect, run, rows)
        if merged.deleted:
            target.thinned(run.run_id)
        if self.counts_rows:
            target.end()
            LoadedTable(self._tables, run.plan.load.table).end()
        return replace(merged, target=self.storage(ref))

    def record_deleted_digests(
        self, run_id: str, digests: Sequence[int], check: Callable[[int], None]
    ) -> bool:
        """Store the keys with these digests; see `FindsDeletedRows.record_deleted_keys`.

        Args:
            run_id: the id of the run.
            digests: the digests of the keys.
            check: called with the number of matching rows, before anything is recorded.
        """

        def keep(run: RunRow) -> None:
            check(TargetKeys(self._tables.session, run).keep(digests) if digests else 0)

        return self.record_deleted_keys(run_id, keep)

    def drop_stages(self, stages: Sequence[TableRef]) -> None:
        tables = [table for stage in stages for table in stage_tables(stage)]
        with self._tables.reading() as tables_exist:
            relations = read_relations(self._tables.session) if tables_exist else {}
        for table in tables:
            if table in relations:
                with suppress(PenstockError):
                    self._tables.drop(table)

    # Partitions that are copied again

    def check_recopy(self, run_id: str) -> None:
        done = self.steps_done(run_id)
        if SWAP in done:
            raise UsageError(
                f"run {run_id}: its table has replaced the old one since, so single "
                "partitions cannot be copied into it again; start a new run"
            )
        if MERGE_STEP in done:
            raise UsageError(
                f"run {run_id}: its rows have been merged into the target since, so single "
                "partitions cannot be copied again; start a new run"
            )

    def take_back(
        self, run: RunRow, records: Sequence[CommitRecord], rows_of: TableRef | None
    ) -> None:
        table = LoadedTable(self._tables, run.plan.load.table)
        if run.status == "done":
            table.begin(run.run_id)  # whatever has happened to it since
        if rows_of is not None:
            loaded = LoadedTable(self._tables, rows_of)
            loaded.delete_partitions(run.run_id, mode_of(run.spec), records)
        table.end()
