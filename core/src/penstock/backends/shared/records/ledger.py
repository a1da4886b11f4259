"""The records of a target, with one object for each kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from penstock.backends.api.execution.control import reading_run
from penstock.backends.api.execution.records import Kind, RecordStore, Row
from penstock.backends.shared.records.run_records import RunRecords
from penstock.backends.shared.records.watermark_records import WatermarkRecords
from penstock.model.codec import from_json, to_json
from penstock.model.journal import Journal
from penstock.model.records import CommitRecord, Spent

R_co = TypeVar("R_co", bound=RecordStore, covariant=True)
_COMMIT_COLUMNS = (
    *("partition_id", "attempt", "rows", "bytes", "started_at", "committed_at"),
    *("inserted", "updated", "read_at", "spent"),
)


class CommitRecords:
    """See `Commits`.

    Args:
        more_columns: columns of commit records that only this backend has.
    """

    def __init__(self, records: RecordStore, more_columns: Sequence[str] = ()) -> None:
        self._records = records
        self._columns = (*_COMMIT_COLUMNS, *more_columns)

    def of(self, run_ids: Sequence[str]) -> dict[str, tuple[CommitRecord, ...]]:
        rows_by_run = self._records.read_all(Kind.COMMIT, run_ids, self._columns)
        return {
            run_id: tuple(sorted(map(_commit_record, rows), key=lambda record: record.partition_id))
            for run_id, rows in rows_by_run.items()
        }

    def ids(self, run_ids: Sequence[str]) -> dict[str, frozenset[str]]:
        rows_by_run = self._records.read_all(Kind.COMMIT, run_ids, ("partition_id",))
        return {
            run_id: frozenset(row["partition_id"] for row in rows)
            for run_id, rows in rows_by_run.items()
        }

    def of_partitions(self, run_id: str, partition_ids: Sequence[str]) -> list[CommitRecord]:
        """Return the records of some partitions of a run."""
        where: Row = {"run_id": run_id, "partition_id": tuple(partition_ids)}
        return list(map(_commit_record, self._records.read(Kind.COMMIT, where, self._columns)))

    def in_series(self, series: str) -> Mapping[str, tuple[str, CommitRecord]]:
        columns = ("run_id", *self._columns)
        rows = self._records.read(Kind.COMMIT, {"series": series}, columns)
        return {row["partition_id"]: (row["run_id"], _commit_record(row)) for row in rows}

    def are_complete(self, run_id: str, partitions: int) -> bool:
        """Whether a run has committed all of its partitions."""
        return self._records.count(Kind.COMMIT, {"run_id": run_id}) == partitions


def _commit_record(row: Row) -> CommitRecord:
    fields = {name: row[name] for name in _COMMIT_COLUMNS}
    # Not by the codec: a run of 10,000 partitions has as many of them.
    fields["spent"] = Spent(**row["spent"]) if row["spent"] else None
    transaction, files = str(row.get("transaction") or ""), tuple(row.get("files") or ())
    return CommitRecord(**fields, transaction=transaction, files=files)


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
