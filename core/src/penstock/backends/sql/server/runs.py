"""The control store of a server, without what each server knows about its tables and attempts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from penstock.backends.api.execution.control import GIVEN_UP, RunningAttempt, RunRow
from penstock.backends.api.execution.records import Kind, Row
from penstock.backends.sql.definitions.missing_table import MAKE, make
from penstock.backends.sql.loads.load_plan import SWAP
from penstock.backends.sql.loads.loaded_runs import LoadedRuns
from penstock.backends.sql.loads.loaded_table import LoadedTable
from penstock.backends.sql.server.records import ServerRecords
from penstock.backends.sql.server.stages import StageRecords
from penstock.errors import PenstockError
from penstock.model.plans import MERGE_STEP, LoadPlan, Step
from penstock.model.records import CommitRecord
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import CopySpec
from penstock.spec.modes import mode_of

# Concurrent executions of a run; any more are invisible to other runs.
EXECUTIONS = 8
# Lock names per question.
MOST_NAMES = 1_000
UNFINISHED = ("created", "running", "failed", "interrupted", "partial", GIVEN_UP)


class ServerRuns(LoadedRuns):
    """The control store of a server.

    Rows are not counted, which would read the whole table. Instead the column `made` of the runs
    that load a table records when it was created or emptied.
    """

    def __init__(self, records: ServerRecords) -> None:
        super().__init__(records)
        self._tables: ServerRecords = records

    @abstractmethod
    def creation_mark(self, table: TableRef) -> str | None:
        """Return when a table was created; None if it does not exist."""

    @abstractmethod
    def check_loaded(self, run_id: str, table: TableRef, mode: str) -> None:
        """Check the rows of a run.

        Args:
            run_id: the id of the run.
            table: the table.
            mode: the name of the mode.

        Raises:
            TargetChanged: rows that the run has loaded are gone, as far as the server can tell.
        """

    @abstractmethod
    def perform(self, step: Step, table: TableRef) -> None:
        """Do a step.

        Args:
            step: the step.
            table: the table being loaded.
        """

    def check_target(self, run_id: str) -> None:
        run = self.load_run(run_id)
        if run is None or run.prepared_at is None or run.status == "done":
            return
        if not self.steps_done(run_id) & {SWAP, MERGE_STEP}:
            self.check_loaded(run_id, run.plan.load.table, run.spec["mode"])

    def sweep(self) -> None:
        """Remove what dead attempts have left behind, if possible."""
        return

    def set_statuses(self, statuses: Mapping[str, tuple[str, Sequence[Mapping[str, Any]]]]) -> None:
        super().set_statuses(statuses)
        self._sweep_after([status for status, _ in statuses.values()])

    def _sweep_after(self, statuses: Sequence[str]) -> None:
        if not {"running", "created"}.issuperset(statuses):
            with suppress(PenstockError):
                self.sweep()

    # Active runs

    def enter(self, run_id: str, table: TableRef, check: Callable[[Sequence[str]], None]) -> None:
        records, what = self._tables, f"table {table}"
        gate = records.lock(f"penstock:table:{table}")
        with records.session.translated(what), records.holding(gate, what):
            other_runs = self._executed(self._runs_on(table) - {run_id}, table)
            if other_runs:
                check(other_runs)
            self.keep_presence(run_id)

    def keep_presence(self, run_id: str) -> None:
        """Take one of the locks for a run's executions."""
        for name in self._presences(run_id):
            if self._tables.keep(name):
                break

    def _runs_on(self, table: TableRef) -> set[str]:
        """Return all runs with this target.

        A run that loads another table first, or is not prepared yet, is detected only by what was
        requested.
        """
        return self.runs_on([table])

    def runs_on(self, tables: Collection[TableRef]) -> set[str]:
        """Return the runs with any of these targets."""
        return set().union(*self.runs_by_table(tables).values())

    def runs_by_table(self, tables: Collection[TableRef]) -> Mapping[TableRef, set[str]]:
        """Return the runs by target."""
        runs: dict[TableRef, set[str]] = {table: set() for table in tables}
        if not runs:
            return runs
        by_id = {LoadedTable(self._tables, table).id: table for table in runs}
        for row in self._tables.read(Kind.RUN, {"loads": tuple(by_id)}, ("run_id", "loads")):
            runs[by_id[row["loads"]]].add(row["run_id"])
        for row in self._tables.read(Kind.RUN, {"status": UNFINISHED}, ("run_id", "spec")):
            table = CopySpec.from_stored(row["spec"], "", "").target_ref
            if table in runs:
                runs[table].add(row["run_id"])
        return runs

    def _executed(self, run_ids: Collection[str], table: TableRef) -> list[str]:
        # There may be hundreds, nearly always with no active run, which one question establishes.
        names = [name for run_id in run_ids for name in self._presences(run_id)]
        some = (names[start : start + MOST_NAMES] for start in range(0, len(names), MOST_NAMES))
        if not any(map(self._tables.is_held, some)):
            return []
        return [run_id for run_id in sorted(run_ids) if self.is_executed(run_id, table)]

    def _presences(self, run_id: str) -> list[str]:
        """Return a run's locks, of which each execution takes one exclusively."""
        return [self._tables.lock(f"penstock:run:{run_id}:{n}") for n in range(EXECUTIONS)]

    def is_executed(self, run_id: str, table: TableRef) -> bool:
        return self._tables.is_held(self._presences(run_id))

    def is_at_work(self, run_id: str, table: TableRef) -> bool:
        return self.is_executed(run_id, table)

    # Steps

    def before_load(self, run: RunRow, load: LoadPlan) -> None:
        """Do nothing: no rows are counted."""

    def after_preparing(self, run: RunRow, load: LoadPlan) -> Row:
        table = LoadedTable(self._tables, load.table)
        if mode_of(run.spec).starts_empty:
            table.emptied(run.run_id)
        return {"loads": table.id, "disturbed_by": None, "made": self.creation_mark(load.table)}

    counts_rows = False

    def storage(self, table: TableRef) -> str:
        return self.creation_mark(table) or ""

    def check_rows(self, run: RunRow) -> None:
        self.check_loaded(run.run_id, run.plan.load.table, run.spec["mode"])

    def do(self, run: RunRow, step: Step) -> None:
        table, target = run.plan.load.table, CopySpec.from_stored(run.spec, "", "").target_ref
        if step.after:
            self.check_rows(run)
            if step.id == SWAP:
                self._swap(run, step, target)
                return
        if step.id == MAKE:
            self.make(step, target)
        else:
            self.perform(step, table)

    def make(self, step: Step, table: TableRef) -> None:
        """Create a table; see `making`."""
        make(self._tables.session, step, table)

    def _swap(self, run: RunRow, step: Step, target: TableRef) -> None:
        """Exchange the table.

        It may have to wait for a lock, and rows committed in the meantime would go with the old
        table.
        """
        other_loads = LoadedTable(self._tables, target)
        self.keep_out(run.run_id, target)
        other_loads.check_loaded_since(run.run_id)
        try:
            self.perform(step, run.plan.load.table)
        except PenstockError:
            # If the statement ended the transaction, what the runs were told has been committed.
            if not self._tables.steps_with_records:
                other_loads.let_in(run.run_id)
            raise

    def keep_out(self, run_id: str, table: TableRef) -> None:
        """Keep attempts of other runs from committing rows into a table until the transaction ends.

        If it ends before the table is locked, the protection ends with it.
        """
        LoadedTable(self._tables, table).keep_out(run_id)

    def check_emptying(self, run: RunRow) -> None:
        if mode_of(run.spec).starts_empty:
            self.keep_out(run.run_id, run.plan.load.table)
        super().check_emptying(run)

    def after_step(self, run: RunRow, step: Step) -> None:
        """Do nothing: nothing has to be recorded."""

    # Partitions that are copied again

    def take_back(
        self, run: RunRow, records: Sequence[CommitRecord], rows_of: TableRef | None
    ) -> None:
        if rows_of is not None:
            loaded = LoadedTable(self._tables, rows_of)
            loaded.delete_partitions(run.run_id, mode_of(run.spec), records)


class StagedRuns(ServerRuns):
    """The control store of a server whose attempts have stages."""

    def __init__(self, records: StageRecords[Any]) -> None:
        super().__init__(records)
        self._tables: StageRecords[Any] = records

    def creation_mark(self, table: TableRef) -> str | None:
        return self._tables.creation_mark(table)

    def check_loaded(self, run_id: str, table: TableRef, mode: str) -> None:
        self._tables.check_loaded(run_id, table, mode)

    def running_attempts(self, run_id: str) -> tuple[RunningAttempt, ...]:
        with self._tables.session.translated(f"run {run_id}"):
            return tuple(
                RunningAttempt(stage.partition_id, stage.attempt, "loading", "", None)
                for stage in self._tables.owners({"run_id": run_id})
                if self._tables.is_heard(stage)
            )

    def sweep(self) -> None:
        self._tables.sweep()
