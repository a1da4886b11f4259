"""The control store of a dataset of files: its documents, and the runs that are executed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from secrets import token_hex

from penstock.backends.parquet.load.steps import Steps
from penstock.backends.parquet.load_hooks import FolderLoadHooks, OpenSteps
from penstock.backends.parquet.storage.storage import Storage
from penstock.backends.roll_forward.run_store import DocumentStore
from penstock.backends.roll_forward.runs import Runs
from penstock.backends.roll_forward.turns import Turns
from penstock.backends.shared.attempts.run_presence import RunPresence
from penstock.backends.shared.records.control_store import RecordedRuns
from penstock.backends.shared.records.ledger import Ledger
from penstock.errors import PenstockError, PermanentError, PlanningError
from penstock.model.tables import TableRef


class FolderStore(DocumentStore):
    """Records that are documents next to a dataset."""

    def __init__(self, storage: Storage, runs: Runs) -> None:
        super().__init__(storage.documents, runs)
        self._storage = storage

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


class FolderPresence(RunPresence):
    """See `RunPresence`: locked files in a local folder; in a bucket, turns are leases."""

    turns: Turns
    """The turns in a bucket."""

    def __init__(self, storage: Storage) -> None:
        self._presence = storage.presence()

    def enter(
        self, tables: Mapping[str, TableRef], check: Callable[[str, Sequence[str]], None]
    ) -> dict[str, PenstockError]:
        # In a bucket, the checks of the runs themselves have to be enough.
        if self._presence is None:
            return {}
        return self._presence.enter(dict.fromkeys(tables, ""), check)

    def leave(self, tables: Mapping[str, TableRef]) -> None:
        if self._presence is None:
            self.turns.leave(tables)

    def is_at_work(self, run_id: str, table: TableRef) -> bool | None:
        return None if self._presence is None else self._presence.executes(run_id, "")

    def take_turns(self, names: Sequence[str]) -> frozenset[str]:
        turns = self.turns.take if self._presence is None else self._presence.take_turns
        return turns(names)

    def end_turns(self, names: Sequence[str]) -> None:
        end = self.turns.end if self._presence is None else self._presence.end_turns
        end(names)

    def close(self) -> None:
        """Leave the runs that were entered, and give back turns."""
        if self._presence is not None:
            self._presence.leave()
        else:
            self.turns.close()


def folder_control(
    storage: Storage, presence: FolderPresence, steps: OpenSteps = Steps
) -> RecordedRuns:
    """Return the control store of a dataset.

    Args:
        storage: the dataset.
        presence: which runs are executed.
        steps: returns the steps of a run.
    """
    runs = Runs(storage.documents, storage.uploads)
    store = FolderStore(storage, runs)
    presence.turns = Turns(storage.documents, store)
    ledger = Ledger(store, ["transaction", "files"])
    return RecordedRuns(ledger, FolderLoadHooks(ledger, storage, runs, steps), presence)
