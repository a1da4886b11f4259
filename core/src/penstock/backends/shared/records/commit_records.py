"""Commit records: which partitions are done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.backends.api.execution.records import Kind, RecordStore, Row
from penstock.model.codec import from_json
from penstock.model.records import CommitRecord, Spent

_COLUMNS = (
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
        self._columns = (*_COLUMNS, *more_columns)

    def of(self, run_ids: Sequence[str]) -> dict[str, tuple[CommitRecord, ...]]:
        rows_by_run = self._records.read_all(Kind.COMMIT, run_ids, self._columns)
        return {
            run_id: tuple(sorted(map(_record, rows), key=lambda record: record.partition_id))
            for run_id, rows in rows_by_run.items()
        }

    def of_partitions(self, run_id: str, partition_ids: Sequence[str]) -> list[CommitRecord]:
        """Return the records of some partitions of a run."""
        where: Row = {"run_id": run_id, "partition_id": tuple(partition_ids)}
        return list(map(_record, self._records.read(Kind.COMMIT, where, self._columns)))

    def in_series(self, series: str) -> Mapping[str, tuple[str, CommitRecord]]:
        columns = ("run_id", *self._columns)
        rows = self._records.read(Kind.COMMIT, {"series": series}, columns)
        return {row["partition_id"]: (row["run_id"], _record(row)) for row in rows}

    def are_complete(self, run_id: str, partitions: int) -> bool:
        """Whether a run has committed all of its partitions."""
        return self._records.count(Kind.COMMIT, {"run_id": run_id}) == partitions


def _record(row: Row) -> CommitRecord:
    fields = {name: row[name] for name in _COLUMNS}
    fields["spent"] = from_json(Spent, row["spent"]) if row["spent"] else None
    transaction, files = str(row.get("transaction") or ""), tuple(row.get("files") or ())
    return CommitRecord(**fields, transaction=transaction, files=files)
