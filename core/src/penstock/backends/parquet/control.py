"""The control store: the parts that only a dataset of Parquet files has, about its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from secrets import token_hex

from penstock.backends.api.execution.control import RunningAttempt, RunRow
from penstock.backends.api.execution.records import Kind, Row
from penstock.backends.parquet.load import manifest
from penstock.backends.parquet.load.fence import MANIFEST, Fence
from penstock.backends.parquet.load.steps import Steps
from penstock.backends.parquet.storage.storage import Storage
from penstock.backends.roll_forward.run_store import DocumentStore
from penstock.backends.roll_forward.runs import Runs
from penstock.backends.shared.records.control_store import RecordedRuns
from penstock.backends.shared.records.lasting_rows import Lasting, Seen
from penstock.errors import PermanentError, PlanningError, UsageError
from penstock.model.plans import LoadPlan, Step
from penstock.model.records import CommitRecord
from penstock.model.tables import TableRef


class ControlDocuments(RecordedRuns):
    """The control store of a dataset of files."""

    shows_before_last_steps = False

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.runs = Runs(storage.documents, storage.uploads)
        self._store = DocumentStore(storage.documents, self.runs)
        super().__init__(self._store, ["transaction", "files"])
        self._fence = Fence(storage, self.runs)
        self._presence = storage.presence()

    def create(self) -> None:
        """Check that documents can be written, and that the server supports conditional requests.

        One that does not would overwrite what it should reject.
        """
        documents, name = self._storage.documents, f"probe-{token_hex(8)}.json"
        try:
            is_safe = documents.create(name, b"1") and not documents.create(name, b"2")
            is_safe = is_safe and not documents.replace(name, b"3", '"another version"')
            documents.delete([name])
        except PermanentError as error:
            raise PlanningError(error.message, error.diagnosis) from error
        if not is_safe:
            raise PlanningError(
                f"target: {self._storage}: expected a server that supports conditional writes "
                "(If-None-Match, If-Match), without which nothing can be copied exactly once; "
                "found one that ignores them"
            )

    def enter(self, run_id: str, table: TableRef, check: Callable[[Sequence[str]], None]) -> None:
        # In a bucket, the checks of the runs themselves have to be enough.
        if self._presence is not None:
            self._presence.enter(run_id, "", check)

    def is_at_work(self, run_id: str, table: TableRef) -> bool | None:
        return None if self._presence is None else self._presence.executes(run_id, "")

    def leave(self) -> None:
        """Leave the runs that were entered."""
        if self._presence is not None:
            self._presence.leave()

    def running_attempts(self, run_id: str) -> tuple[RunningAttempt, ...]:
        return ()  # no lock of another process is visible

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
        document = self._store.find(run.run_id)
        if document is not None:
            self.runs.carry_out(run.run_id, document)
        self._fence.begin(run.run_id)

    def after_preparing(self, run: RunRow, load: LoadPlan) -> Row:
        return {"owner": self._fence.owner(run)}

    def check_not_shut_out(self, run: RunRow) -> None:
        document = self._store.find(run.run_id)
        if document is not None:
            self._fence.check_open(run.run_id, document)

    def do(self, run: RunRow, step: Step) -> None:
        self.steps(run).do(step)

    def steps(self, run: RunRow) -> Steps:
        return Steps(self._storage, self.runs, run)

    def finish(self, run_id: str, step: Step) -> bool:
        recorded = super().finish(run_id, step)
        if recorded and step.id == MANIFEST:
            self._fence.end(run_id)
        return recorded

    # Partitions that are copied again

    def check_recopy(self, run_id: str) -> None:
        run = self._store.find(run_id)
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
        if MANIFEST in self.steps_done(run.run_id):
            # Whatever has happened to the rest since it was done.
            owner = manifest.read(self._storage.documents).owner
            self._records.change(Kind.RUN, this, {"owner": owner})
        self._records.delete(Kind.STEP, this)
