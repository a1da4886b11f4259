"""The datasets that runs load, whose files show whether they were changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.backends.api.execution.control import RunRow
from penstock.backends.api.execution.records import Kind, Row
from penstock.backends.parquet.load import manifest
from penstock.backends.parquet.load.fence import MANIFEST, Fence
from penstock.backends.parquet.load.steps import Steps
from penstock.backends.parquet.storage.storage import Storage
from penstock.backends.roll_forward.run_store import DocumentStore
from penstock.backends.roll_forward.runs import Runs
from penstock.backends.shared.records.lasting_rows import Lasting, Seen
from penstock.backends.shared.records.ledger import Ledger
from penstock.backends.shared.records.load_hooks import LoadHooks
from penstock.errors import UsageError
from penstock.model.plans import LoadPlan, Step
from penstock.model.records import CommitRecord
from penstock.model.tables import TableRef

OpenSteps = Callable[[Any, Runs, RunRow], Steps]


class FolderLoadHooks(LoadHooks[DocumentStore]):
    """See `LoadHooks`.

    Args:
        ledger: the target's records.
        storage: the dataset.
        runs: the documents of runs.
        steps: returns the steps of a run.
    """

    shows_before_last_steps = False

    def __init__(
        self,
        ledger: Ledger[DocumentStore],
        storage: Storage,
        runs: Runs,
        steps: OpenSteps = Steps,
    ) -> None:
        super().__init__(ledger)
        self._storage = storage
        self.runs = runs
        self._steps = steps
        self._fence = Fence(storage, runs)

    def check_target(self, run_id: str) -> None:
        self._fence.check(run_id)

    def see_again(self, runs: Sequence[Lasting]) -> Mapping[str, Seen]:
        visible = self._storage.uploads.visible()
        leaving = set(manifest.read(self._storage.documents).leaving)
        seen: dict[str, Seen] = {}
        for run in runs:
            missing = [
                path
                for record in run.records
                for path in record.files
                if path not in visible or path in leaving
            ]
            rows = sum(r.rows for r in run.records if not set(r.files).intersection(missing))
            change = ""
            if rows == 0:
                change = f"has none of the run's files, such as {missing[0]}" if missing else ""
            seen[run.run_id] = Seen(rows, change, emptied=rows == 0)
        return seen

    # Steps

    def check_emptying(self, run: RunRow) -> None:
        self._fence.check_loaded_since(run.run_id)

    def before_load(self, run: RunRow, load: LoadPlan) -> None:
        document = self.store.find(run.run_id)
        if document is not None:
            self.runs.carry_out(run.run_id, document)
        self._fence.begin(run.run_id)

    def after_preparing(self, run: RunRow, load: LoadPlan) -> Row:
        return {"owner": self._fence.owner(run)}

    def check_not_shut_out(self, run: RunRow) -> None:
        document = self.store.find(run.run_id)
        if document is not None:
            self._fence.check_open(run.run_id, document)

    def do(self, run: RunRow, step: Step) -> None:
        self._steps(self._storage, self.runs, run).do(step)

    def after_record(self, run_id: str, step: Step) -> None:
        if step.id == MANIFEST:
            self._fence.end(run_id)

    # Partitions that are copied again

    def check_recopy(self, run_id: str) -> None:
        run = self.store.find(run_id)
        assert run is not None
        sizes = self._fence.committed_files(run_id, run)
        visible = dict(self._storage.uploads.visible())
        for path in manifest.read(self._storage.documents).leaving:
            visible.pop(path, None)
        missing = [path for path, size in sizes.items() if visible.get(path) != size]
        if missing:
            raise UsageError(
                f"run {run_id}: {len(missing):,} of its files are missing or changed, such as "
                f"{missing[0]}, so single partitions cannot be copied again; start a new run"
            )

    def take_back(
        self, run: RunRow, records: Sequence[CommitRecord], rows_of: TableRef | None
    ) -> None:
        """Take back commits.

        The rows stay until the next attempt commits, which removes them, so that a kill in between
        loses none. The steps after the last partition are done again.

        Args:
            run: the run whose partitions are copied again.
            records: the records of these partitions.
            rows_of: the table with their rows, of which files have none.
        """
        self._fence.begin(run.run_id)
        this = {"run_id": run.run_id}
        if MANIFEST in self.ledger.steps_done([run.run_id])[run.run_id]:
            # Whatever has happened to the rest since it was done.
            owner = manifest.read(self._storage.documents).owner
            self.store.change(Kind.RUN, this, {"owner": owner})
        self.store.delete(Kind.STEP, this)
