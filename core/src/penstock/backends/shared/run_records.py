"""Runs as records: what was asked for, the views that rows are read with, and what is committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.backends.api.control import Outlook, RunHead, RunLine, RunRow, reading_run
from penstock.backends.api.records import NOW, Hold, Kind, RecordStore, Row
from penstock.backends.shared.refusals import superseded
from penstock.model.codec import from_json, to_json
from penstock.model.journal import Journal
from penstock.model.plans import PartitionPlan
from penstock.model.records import CommitRecord, Spent
from penstock.model.snapshots import Snapshot, SourceState
from penstock.model.tables import TableRef
from penstock.spec.worker_spec import Patience

_RUN = (
    *("run_id", "generation", "spec", "plan", "source_state", "snapshots", "status"),
    *("created_at", "prepared_at", "finished_at", "failures", "snapshot_released_at"),
)
_COMMIT = (
    *("partition_id", "attempt", "rows", "bytes", "started_at", "committed_at"),
    *("inserted", "updated", "read_at"),
)


class RunRecords:
    """What a `ControlStore` keeps of runs, whatever they load.

    Parameters:
        commit_columns: of commit records, those that only this backend has.
    """

    def __init__(self, records: RecordStore, commit_columns: Sequence[str] = ()) -> None:
        self._records = records
        self._commit_columns = (*_COMMIT, *commit_columns)

    def intact(self, run_id: str) -> bool:
        """See `ControlStore`; where there are volatile loads, a backend says how they fared."""
        return True

    @property
    def records(self) -> RecordStore:
        """Where they are kept."""
        return self._records

    @property
    def patience(self) -> Patience:
        return self._records.patience

    @patience.setter
    def patience(self, patience: Patience) -> None:
        self._records.patience = patience

    def create(self) -> None:
        self._records.create()

    def create_run(
        self,
        run_id: str,
        spec: Mapping[str, Any],
        plan: PartitionPlan,
        state: SourceState,
        snapshot: Snapshot | None,
    ) -> bool:
        row = {
            "run_id": run_id,
            "spec": dict(spec),
            "plan": to_json(plan),
            "partitions": len(plan.partitions),
            "fingerprint": plan.fingerprint,
            **view_columns(state, [snapshot] if snapshot else []),
            "generation": 1,
            "status": "created",
            "created_at": NOW,
            "failures": [],
        }
        return self._records.add(Kind.RUN, [row]) == 1

    def load_run(self, run_id: str) -> RunRow | None:
        with reading_run(run_id):
            row = self._read(run_id, _RUN)
            if row is None:
                return None
            return RunRow(
                run_id=row["run_id"],
                generation=row["generation"],
                spec=dict(row["spec"]),
                plan=from_json(PartitionPlan, row["plan"]),
                source_state=from_json(SourceState, row["source_state"]),
                snapshots=from_json(tuple[Snapshot, ...], row["snapshots"]),
                status=row["status"],
                created_at=row["created_at"],
                prepared_at=row["prepared_at"],
                finished_at=row["finished_at"],
                failures=tuple(dict(failure) for failure in row["failures"]),
                released_at=row["snapshot_released_at"],
            )

    def heads(self) -> tuple[RunHead, ...]:
        columns = ("run_id", "status", "created_at", "finished_at")
        rows = self._records.read(Kind.RUN, {}, columns)
        found = [RunHead(**{name: row[name] for name in columns}) for row in rows]
        return tuple(sorted(found, key=lambda head: (head.created_at, head.run_id), reverse=True))

    def lines(self, heads: Sequence[RunHead]) -> tuple[RunLine, ...]:
        ids = tuple(head.run_id for head in heads)
        if not ids:
            return ()
        rows = self._records.read(Kind.RUN, {"run_id": ids}, ("run_id", "spec", "partitions"))
        known = {row["run_id"]: row for row in rows}
        tally = self._records.tally(ids)
        return tuple(
            RunLine(
                head,
                dict(known[head.run_id]["spec"]),
                known[head.run_id]["partitions"],
                *tally.get(head.run_id, (0, 0)),
            )
            for head in heads
            if head.run_id in known
        )

    def is_at_work(self, run_id: str, table: TableRef) -> bool | None:
        return None

    def set_status(self, run_id: str, status: str, failures: Sequence[Mapping[str, Any]]) -> None:
        changes = {
            "status": status,
            "failures": [dict(failure) for failure in failures],
            "finished_at": None if status in ("running", "created") else NOW,
        }

        def change() -> None:
            released = status == "done" and self._is_released(run_id) is False
            self._change(run_id, {**changes, **({"snapshot_released_at": NOW} if released else {})})

        self._records.transact(run_id, change)

    def release_snapshot(self, run_id: str) -> bool:
        return self._set_released(run_id, released=True)

    def require_snapshot(self, run_id: str) -> bool:
        return self._set_released(run_id, released=False)

    def _set_released(self, run_id: str, *, released: bool) -> bool:
        if self._is_released(run_id) is None:
            return False

        def change() -> bool:
            was = self._is_released(run_id)
            if was is not released and was is not None:
                self._change(run_id, {"snapshot_released_at": NOW if released else None})
            return was is not None

        return self._records.transact(run_id, change)

    def _is_released(self, run_id: str) -> bool | None:
        """None where there is no such run."""
        row = self._read(run_id, ("snapshot_released_at",))
        return None if row is None else row["snapshot_released_at"] is not None

    def outlook(self, run_id: str) -> Outlook | None:
        columns = ("status", "generation", "snapshots", "partitions", "snapshot_released_at")
        row = self._read(run_id, columns)
        if row is None:
            return None
        taken = row["snapshots"]
        return Outlook(
            row["status"],
            row["generation"],
            from_json(Snapshot, taken[-1]) if taken else None,
            row["partitions"] - self._records.count(Kind.COMMIT, {"run_id": run_id}),
            row["snapshot_released_at"] is not None,
        )

    @property
    def keeps_figures(self) -> bool:
        return self._records.keeps_figures

    def put_journal(self, run_id: str, journal: Journal) -> None:
        if self.keeps_figures:
            row = {"run_id": run_id, "execution_id": journal.execution_id}
            self._records.put_journal({**row, "content": to_json(journal)})

    def journals(self, run_id: str) -> tuple[Journal, ...]:
        if not self.keeps_figures:
            return ()
        with reading_run(run_id):
            rows = self._records.read(Kind.JOURNAL, {"run_id": run_id}, ("content",))
            found = [from_json(Journal, row["content"]) for row in rows]
        return tuple(sorted(found, key=lambda journal: journal.started_at))

    def committed(self, run_id: str) -> tuple[CommitRecord, ...]:
        found = self._commit_records({"run_id": run_id})
        return tuple(sorted(found, key=lambda record: record.partition_id))

    def committed_in_series(self, series: str) -> Mapping[str, tuple[str, CommitRecord]]:
        columns = ("run_id", *self._read_of_commits())
        found = self._records.read(Kind.COMMIT, {"series": series}, columns)
        return {row["partition_id"]: (row["run_id"], _record(row)) for row in found}

    # Views

    def set_view(
        self,
        run_id: str,
        generation: int,
        before: Sequence[Snapshot],
        state: SourceState,
        snapshots: Sequence[Snapshot],
        *,
        nothing_committed: bool,
    ) -> int:
        following = generation + nothing_committed
        view = view_columns(state, snapshots)

        def change() -> None:
            run = self._check_generation(run_id, generation)
            if run.snapshots != tuple(before):
                raise superseded(run_id)
            committed = nothing_committed and self._records.count(Kind.COMMIT, {"run_id": run_id})
            # No matter what was, where a crash has taken it since.
            if committed and (not run.plan.load.volatile or self.intact(run_id)):
                raise superseded(run_id)
            self._change(run_id, {**view, "generation": following})

        self._records.transact(run_id, change, Hold.ALONE if nothing_committed else Hold.CHANGE)
        return following

    def _check_generation(self, run_id: str, generation: int) -> RunRow:
        """
        Raises:
            Superseded: the run has another one by now.
        """
        run = self.load_run(run_id)
        if run is None or run.generation != generation:
            raise superseded(run_id)
        return run

    def _read(self, run_id: str, columns: Sequence[str]) -> Row | None:
        found = self._records.read(Kind.RUN, {"run_id": run_id}, columns)
        return found[0] if found else None

    def _change(self, run_id: str, changes: Row) -> None:
        self._records.change(Kind.RUN, {"run_id": run_id}, changes)

    def _commit_records(self, where: Row) -> list[CommitRecord]:
        found = self._records.read(Kind.COMMIT, where, self._read_of_commits())
        return [_record(row) for row in found]

    def _read_of_commits(self) -> tuple[str, ...]:
        return (*self._commit_columns, *(["spent"] if self.keeps_figures else []))


def _record(row: Row) -> CommitRecord:
    known = {name: row[name] for name in _COMMIT}
    transaction, files = str(row.get("transaction") or ""), tuple(row.get("files") or ())
    spent = from_json(Spent, row["spent"]) if row.get("spent") else None
    return CommitRecord(**known, transaction=transaction, files=files, spent=spent)


def view_columns(state: SourceState, snapshots: Sequence[Snapshot]) -> dict[str, Any]:
    """What the rows of a run are read with, as its record has it."""
    return {"source_state": to_json(state), "snapshots": to_json(snapshots)}
