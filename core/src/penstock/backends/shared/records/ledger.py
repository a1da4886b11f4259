"""The records of a target, with one object for each kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from penstock.backends.api.execution.records import Kind, RecordStore
from penstock.backends.shared.records.commit_records import CommitRecords
from penstock.backends.shared.records.journal_records import JournalRecords
from penstock.backends.shared.records.run_records import RunRecords
from penstock.backends.shared.records.watermark_records import WatermarkRecords

R_co = TypeVar("R_co", bound=RecordStore, covariant=True)


class Ledger(Generic[R_co]):
    """The records of a target, which the parts of a control store share.

    Args:
        store: where they are kept.
        commit_columns: columns of commit records that only this backend has.
        runs: the records of runs, if the backend has its own.
        watermarks: the watermarks, if the backend has its own.
    """

    def __init__(
        self,
        store: R_co,
        commit_columns: Sequence[str] = (),
        *,
        runs: RunRecords | None = None,
        watermarks: WatermarkRecords | None = None,
    ) -> None:
        self.store = store
        self.runs = runs or RunRecords(store)
        self.commits = CommitRecords(store, commit_columns)
        self.watermarks = watermarks or WatermarkRecords(store)
        self.journals = JournalRecords(store)

    def steps_done(self, run_ids: Sequence[str]) -> dict[str, frozenset[str]]:
        """Return the ids of recorded steps, by run."""
        rows_by_run = self.store.read_all(Kind.STEP, run_ids, ("step_id",))
        return {
            run_id: frozenset(row["step_id"] for row in rows)
            for run_id, rows in rows_by_run.items()
        }
