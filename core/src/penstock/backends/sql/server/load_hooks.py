"""The tables that runs load on a server, which records when they were created."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from penstock.backends.api.execution.control import RunRow
from penstock.backends.api.execution.records import Kind, Row
from penstock.backends.shared.records.lasting_rows import Lasting, Seen
from penstock.backends.shared.records.ledger import Ledger
from penstock.backends.shared.records.load_hooks import LoadHooks
from penstock.backends.sql.definitions.missing_table import MAKE, make
from penstock.backends.sql.loads.lasting_rows import see_again
from penstock.backends.sql.loads.load_plan import SWAP
from penstock.backends.sql.loads.load_steps import (
    check_unmoved,
    table_before,
    with_each_schema_once,
)
from penstock.backends.sql.loads.loaded_table import LoadedTable
from penstock.backends.sql.loads.merged_nights import drop_stages
from penstock.backends.sql.server.records import ServerRecords
from penstock.errors import PenstockError
from penstock.model.plans import MERGE_STEP, LoadPlan, Step
from penstock.model.records import CommitRecord
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import stored_target
from penstock.spec.modes import mode_of

R = TypeVar("R", bound=ServerRecords)


class CreationMarks(Protocol):
    """What a server tells about a table that a run loads."""

    def creation_mark(self, table: TableRef) -> str | None:
        """Return when a table was created; None if it does not exist."""
        ...

    def check_loaded(self, run_id: str, table: TableRef, mode: str) -> None:
        """Check the rows of a run.

        Args:
            run_id: the id of the run.
            table: the table.
            mode: the name of the mode.

        Raises:
            TargetChanged: rows that the run has loaded are gone, as far as the server can tell.
        """
        ...


class ServerLoadHooks(LoadHooks[R]):
    """See `LoadHooks`.

    Rows are not counted, which would read the whole table. Instead the column `made` of the runs
    that load a table records when it was created or emptied.

    Args:
        ledger: the target's records.
        marks: what the server tells about tables.
    """

    def __init__(self, ledger: Ledger[R], marks: CreationMarks) -> None:
        super().__init__(ledger)
        self._marks = marks

    @abstractmethod
    def perform(self, step: Step, table: TableRef) -> None:
        """Do a step.

        Args:
            step: the step.
            table: the table being loaded.
        """

    def storage(self, table: TableRef) -> str:
        """Return a text that identifies a table across nights; empty if it does not exist."""
        return self._marks.creation_mark(table) or ""

    # Whether a table is still the run's

    def check_target(self, run_id: str) -> None:
        run = self.ledger.runs.find(run_id)
        if run is None or run.prepared_at is None or run.status == "done":
            return
        if not self.ledger.steps_done([run_id])[run_id] & {SWAP, MERGE_STEP}:
            self.check_rows(run)

    def check_rows(self, run: RunRow) -> None:
        self._marks.check_loaded(run.run_id, run.plan.load.table, run.spec["mode"])

    def see_again(self, runs: Sequence[Lasting]) -> Mapping[str, Seen]:
        with self.store.reading() as tables_exist:
            return see_again(self.store.session, runs) if tables_exist else {}

    # Before the first partition

    def drop_stages(self, stages: Sequence[TableRef]) -> None:
        drop_stages(self.store, stages)

    def check_emptying(self, run: RunRow) -> None:
        if mode_of(run.spec).starts_empty:
            table = run.plan.load.table
            self.keep_out(run.run_id, table)
            LoadedTable(self.store, table).check_loaded_since(run.run_id)

    def after_preparing(self, run: RunRow, load: LoadPlan) -> Row:
        table = LoadedTable(self.store, load.table)
        if mode_of(run.spec).starts_empty:
            table.emptied(run.run_id)
        made = self._marks.creation_mark(load.table)
        return {"loads": table.id, "disturbed_by": None, "made": made}

    # Steps

    def do(self, run: RunRow, step: Step) -> None:
        target = stored_target(run.spec)
        table = table_before(step, run.plan.load, target)
        if step.after:
            self._marks.check_loaded(run.run_id, table, run.spec["mode"])
            if step.id == SWAP:
                self._swap(run, step, target)
                return
        if step.id == MAKE:
            self.make(step, target)
        else:
            self.perform(step, table)

    def do_all(self, steps: Sequence[tuple[RunRow, Step]]) -> None:
        super().do_all(list(with_each_schema_once(steps)))

    def after_step(self, run: RunRow, step: Step) -> None:
        if step.id != SWAP:
            return
        target = stored_target(run.spec)
        made = self._marks.creation_mark(target)
        loads = LoadedTable(self.store, target).id
        self.store.change(Kind.RUN, {"run_id": run.run_id}, {"loads": loads, "made": made})

    def make(self, step: Step, table: TableRef) -> None:
        """Create a table; see `making`."""
        make(self.store.session, step, table)

    def _swap(self, run: RunRow, step: Step, target: TableRef) -> None:
        """Exchange the table.

        It may have to wait for a lock, and rows committed in the meantime would go with the old
        table.
        """
        other_loads = LoadedTable(self.store, target)
        self.keep_out(run.run_id, target)
        other_loads.check_loaded_since(run.run_id)
        try:
            self.perform(step, run.plan.load.table)
        except PenstockError:
            # If the statement ended the transaction, what the runs were told has been committed.
            if not self.store.steps_with_records:
                other_loads.let_in(run.run_id)
            raise

    def keep_out(self, run_id: str, table: TableRef) -> None:
        """Keep attempts of other runs from committing rows into a table until the transaction ends.

        If it ends before the table is locked, the protection ends with it.
        """
        LoadedTable(self.store, table).keep_out(run_id)

    # Partitions that are copied again

    def check_recopy(self, run_id: str) -> None:
        check_unmoved(run_id, self.ledger.steps_done([run_id])[run_id])

    def take_back(
        self, run: RunRow, records: Sequence[CommitRecord], rows_of: TableRef | None
    ) -> None:
        if rows_of is not None:
            loaded = LoadedTable(self.store, rows_of)
            loaded.delete_partitions(run.run_id, mode_of(run.spec), records)
