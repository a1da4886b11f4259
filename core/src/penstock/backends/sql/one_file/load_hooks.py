"""The tables that runs load in one file, whose row counts show whether they were changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from penstock.backends.api.execution.control import RunRow
from penstock.backends.api.execution.records import NOW, Kind, Row
from penstock.backends.shared.records.lasting_rows import Lasting, Seen
from penstock.backends.shared.records.load_hooks import LoadHooks
from penstock.backends.sql.catalog.relations import read_columns
from penstock.backends.sql.definitions.column_changes import is_applied
from penstock.backends.sql.definitions.missing_table import MAKE, make
from penstock.backends.sql.loads.lasting_rows import see_again
from penstock.backends.sql.loads.load_plan import SWAP
from penstock.backends.sql.loads.load_steps import (
    check_unmoved,
    table_before,
    with_each_schema_once,
)
from penstock.backends.sql.loads.loaded_table import LoadedTable
from penstock.backends.sql.loads.loaded_tables import LoadedTables
from penstock.backends.sql.loads.merged_nights import drop_stages
from penstock.backends.sql.one_file.records import FileRecords
from penstock.model.drift import ColumnChange
from penstock.model.plans import MERGE_STEP, LoadPlan, Step
from penstock.model.records import CommitRecord
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import stored_target
from penstock.spec.modes import mode_of


class FileLoadHooks(LoadHooks[FileRecords]):
    """See `LoadHooks`."""

    exchanges_together = True

    def storage(self, table: TableRef) -> str:
        """Return a text that identifies a table across nights; empty if it does not exist."""
        raise NotImplementedError  # its capabilities list no mode that gathers rows

    # Whether a table is still the run's

    def _table(self, table: TableRef) -> LoadedTable:
        return LoadedTable(self.store, table)

    def check_target(self, run_id: str) -> None:
        with self.store.reading() as tables_exist:
            run = self.ledger.runs.find(run_id) if tables_exist else None
            # What happens to the rows of a finished run does not concern it.
            if run is None or run.prepared_at is None or run.status == "done":
                return
            if not self.ledger.steps_done([run_id])[run_id] & {SWAP, MERGE_STEP}:
                table = self._table(run.plan.load.table)
                table.check(run_id, mode_of(run.spec), thoroughly=True)

    def doubtful(self, run_ids: Sequence[str]) -> Collection[str]:
        if len(run_ids) < 2:
            return run_ids
        with self.store.reading() as tables_exist:
            return self._doubtful(run_ids) if tables_exist else ()

    def _doubtful(self, run_ids: Sequence[str]) -> set[str]:
        runs, done = self.ledger.runs.load(run_ids), self.ledger.steps_done(run_ids)
        due = {
            run_id: run
            for run_id, run in runs.items()
            if run.prepared_at is not None and run.status != "done" and SWAP not in done[run_id]
        }
        tables = LoadedTables(self.store, _tables(due.values()))
        modes = {run_id: mode_of(run.spec) for run_id, run in due.items()}
        # A table that cannot be read reports that itself.
        return tables.doubtful(modes) | set(run_ids).difference(runs)

    def check_rows(self, run: RunRow) -> None:
        """Check the rows of a run.

        Raises:
            TargetChanged: rows that the run has loaded are gone, or rows of others are in the
                table although the mode removes them.
        """
        self._table(run.plan.load.table).check(run.run_id, mode_of(run.spec))

    def see_again(self, runs: Sequence[Lasting]) -> Mapping[str, Seen]:
        with self.store.reading() as tables_exist:
            return see_again(self.store.session, runs) if tables_exist else {}

    # Before the first partition

    def drop_stages(self, stages: Sequence[TableRef]) -> None:
        drop_stages(self.store, stages)

    def check_emptying(self, run: RunRow) -> None:
        if mode_of(run.spec).starts_empty:
            self._table(run.plan.load.table).check_loaded_since(run.run_id)

    def before_load(self, run: RunRow, load: LoadPlan) -> None:
        self._table(load.table).begin(run.run_id)

    def before_loads(self, loads: Sequence[tuple[RunRow, LoadPlan]]) -> None:
        LoadedTables(self.store, _tables(run for run, _ in loads)).begin()

    def after_preparing(self, run: RunRow, load: LoadPlan) -> Row:
        table = self._table(load.table)
        if mode_of(run.spec).starts_empty:
            table.emptied(run.run_id)
        table.end()
        return {"loads": table.id, "disturbed_by": None}

    def note_prepared(self, prepared: Sequence[tuple[RunRow, LoadPlan]]) -> None:
        runs = [run for run, _ in prepared]
        tables = LoadedTables(self.store, _tables(runs))
        tables.emptied([run.run_id for run in runs if mode_of(run.spec).starts_empty])
        tables.end()
        noted = {"prepared_at": NOW, "status": "running", "disturbed_by": None}
        self.store.set_each(
            Kind.RUN,
            {
                run.run_id: {**noted, "loads": LoadedTable(self.store, load.table).id}
                for run, load in prepared
            },
        )

    # Steps

    def do(self, run: RunRow, step: Step) -> None:
        target = stored_target(run.spec)
        if step.after:
            loaded = self._table(table_before(step, run.plan.load, target))
            loaded.check(run.run_id, mode_of(run.spec))
        if step.id == SWAP:
            self._table(target).check_loaded_since(run.run_id)
        if step.change is not None and self._is_changed(step.change, target):
            return  # another run has changed it
        if step.id == MAKE:
            make(self.store.session, step, target)
        else:
            self.store.session.run(step.statement)

    def do_all(self, steps: Sequence[tuple[RunRow, Step]]) -> None:
        exchanges = [(run, step) for run, step in steps if step.id == SWAP]
        ranks = {run.run_id: step.rank for run, step in exchanges}
        late = [each for each in steps if each[1].rank > ranks.get(each[0].run_id, each[1].rank)]
        early = [each for each in steps if each not in late and each[1].id != SWAP]
        super().do_all(list(with_each_schema_once(early)))
        self._exchange(exchanges)
        super().do_all(late)

    def _exchange(self, exchanges: Sequence[tuple[RunRow, Step]]) -> None:
        if not exchanges:
            return
        runs = [run for run, _ in exchanges]
        modes = {run.run_id: mode_of(run.spec) for run in runs}
        doubtful = LoadedTables(self.store, _tables(runs)).doubtful(modes)
        for run in runs:
            if run.run_id in doubtful:
                self._table(run.plan.load.table).check(run.run_id, modes[run.run_id])
        targets = {r.run_id: stored_target(r.spec) for r in runs}
        replaced = LoadedTables(self.store, targets)
        replaced.check_loaded_since()
        for _, step in exchanges:
            self.store.session.run(step.statement)
        replaced.emptied(list(targets))
        replaced.end()
        loads = {run_id: {"loads": self._table(table).id} for run_id, table in targets.items()}
        self.store.set_each(Kind.RUN, loads)

    def _is_changed(self, change: ColumnChange, table: TableRef) -> bool:
        """Whether a change of a table's columns has been made."""
        columns = read_columns(self.store.session, table)
        return is_applied(change, {column.name: column for column in columns})

    def after_step(self, run: RunRow, step: Step) -> None:
        if step.id == MERGE_STEP:
            return  # it has already recorded everything
        if step.id == SWAP:
            swapped = self._table(stored_target(run.spec))
            swapped.emptied(run.run_id)
            swapped.end()
            self.store.change(Kind.RUN, {"run_id": run.run_id}, {"loads": swapped.id})
        self._table(run.plan.load.table).end()

    def after_steps(self, steps: Sequence[tuple[RunRow, Step]]) -> None:
        runs = [run for run, step in steps if step.id != MERGE_STEP]
        LoadedTables(self.store, _tables(runs)).end()

    # Partitions that are copied again

    def check_recopy(self, run_id: str) -> None:
        check_unmoved(run_id, self.ledger.steps_done([run_id])[run_id])

    def take_back(
        self, run: RunRow, records: Sequence[CommitRecord], rows_of: TableRef | None
    ) -> None:
        table = self._table(run.plan.load.table)
        if run.status == "done":
            table.begin(run.run_id)  # whatever has happened to it since
        if rows_of is not None:
            self._table(rows_of).delete_partitions(run.run_id, mode_of(run.spec), records)
        table.end()


def _tables(runs: Iterable[RunRow]) -> dict[str, TableRef]:
    return {run.run_id: run.plan.load.table for run in runs}
