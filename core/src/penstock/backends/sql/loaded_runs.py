"""The control store of a database that does not tell who has loaded a row."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.backends.api.control import RunRow
from penstock.backends.api.records import Row
from penstock.backends.shared.control_store import RecordedRuns
from penstock.backends.sql.definition import SCHEMA
from penstock.backends.sql.load_plan import SWAP
from penstock.backends.sql.loaded_table import LoadedTable, LoadRecords
from penstock.backends.sql.making import MAKE, make
from penstock.errors import UsageError
from penstock.model.plans import LoadPlan, Step
from penstock.model.records import CommitRecord
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import CopySpec
from penstock.spec.modes import mode_of


class LoadedRuns(RecordedRuns):
    """`ControlStore`, but for who is at work at this moment."""

    def __init__(self, tables: LoadRecords) -> None:
        super().__init__(tables)
        self._tables = tables

    def check_target(self, run_id: str) -> None:
        with self._tables.reading() as found:
            run = self.load_run(run_id) if found else None
            # What becomes of the rows of a run that is done is not its matter.
            if run is None or run.prepared_at is None or run.status == "done":
                return
            if SWAP not in self.steps_done(run_id):
                table = LoadedTable(self._tables, run.plan.load.table)
                table.check(run_id, mode_of(run.spec), thoroughly=True)

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

    def do(self, run: RunRow, step: Step) -> None:
        if step.after:
            spec = CopySpec.from_stored(run.spec, "", "")
            LoadedTable(self._tables, run.plan.load.table).check(run.run_id, spec.load_mode)
            LoadedTable(self._tables, spec.target_ref).check_loaded_since(run.run_id)
        if step.id == MAKE:
            make(self._tables.session, step, run.plan.load.table)
        else:
            self._tables.session.run(step.statement)

    def do_all(self, steps: Sequence[tuple[RunRow, Step]]) -> None:
        made: set[str] = set()
        for run, step in steps:
            if step.id == SCHEMA:
                if step.statement in made:
                    continue
                made.add(step.statement)
            self.do(run, step)

    def after_step(self, run: RunRow, step: Step) -> None:
        swapped = LoadedTable(self._tables, CopySpec.from_stored(run.spec, "", "").target_ref)
        swapped.emptied(run.run_id)
        swapped.end()
        LoadedTable(self._tables, run.plan.load.table).end()

    # Partitions that are copied again

    def check_recopy(self, run_id: str) -> None:
        if SWAP in self.steps_done(run_id):
            raise UsageError(
                f"run {run_id}: its table has replaced the old one since, so single "
                "partitions cannot be copied into it again; start a new run"
            )

    def take_back(
        self, run: RunRow, records: Sequence[CommitRecord], rows_of: TableRef | None
    ) -> None:
        table = LoadedTable(self._tables, run.plan.load.table)
        if run.status == "done":
            table.begin(run.run_id)  # whatever has become of it since
        if rows_of is not None:
            loaded = LoadedTable(self._tables, rows_of)
            loaded.delete_partitions(run.run_id, mode_of(run.spec), records)
        table.end()
