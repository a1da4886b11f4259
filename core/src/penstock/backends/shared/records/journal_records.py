"""Journals as records: how executions spent their time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.backends.api.execution.control import reading_run
from penstock.backends.api.execution.records import Kind, RecordStore
from penstock.model.codec import from_json, to_json
from penstock.model.journal import Journal


class JournalRecords:
    """See `Journals`."""

    def __init__(self, records: RecordStore) -> None:
        self._records = records

    def put(self, journals: Mapping[str, Journal]) -> None:
        if journals:
            self._records.put_journals(
                [
                    {
                        "run_id": run_id,
                        "execution_id": journal.execution_id,
                        "content": to_json(journal),
                    }
                    for run_id, journal in journals.items()
                ]
            )

    def of(self, run_ids: Sequence[str]) -> dict[str, tuple[Journal, ...]]:
        journals: dict[str, tuple[Journal, ...]] = {}
        for run_id, rows in self._records.read_all(Kind.JOURNAL, run_ids, ("content",)).items():
            with reading_run(run_id):
                journals_of_run = [from_json(Journal, row["content"]) for row in rows]
            journals[run_id] = tuple(
                sorted(journals_of_run, key=lambda journal: journal.started_at)
            )
        return journals
