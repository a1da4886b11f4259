"""Runs as records: the request, the views that rows are read with, and what is committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from penstock.backends.api.execution.control import (
    BegunRun,
    NewRun,
    Outlook,
    RunHead,
    RunLine,
    RunRow,
    reading_run,
)
from penstock.backends.api.execution.records import NOW, Hold, Kind, RecordStore, Row
from penstock.backends.shared.attempts.refusals import superseded
from penstock.backends.shared.records.journal_records import JournalRecords
from penstock.backends.shared.records.watermark_records import WatermarkRecords
from penstock.errors import PermanentError
from penstock.model.awaited import during
from penstock.model.codec import from_json, to_json
from penstock.model.plans import PartitionPlan
from penstock.model.records import CommitRecord, Spent
from penstock.model.snapshots import Snapshot, SourceState
from penstock.model.tables import TableRef
from penstock.spec.worker_spec import Patience

BEGUN = ("running", "failed", "interrupted", "partial")
"""The statuses of runs that may have begun, and are neither done nor given up."""
_RUN = (
    *("run_id", "generation", "spec", "plan", "source_state", "snapshots", "status"),
    *("created_at", "prepared_at", "finished_at", "failures", "snapshot_released_at"),
)
_COMMIT = (
    *("partition_id", "attempt", "rows", "bytes", "started_at", "committed_at"),
    *("inserted", "updated", "read_at", "spent"),
)


class RunRecords:
    """The part of a `ControlStore` that keeps runs, whatever they load.

    Args:
        commit_columns: columns of commit records that only this backend has.
    """

    closable_during_calls = False

    def __init__(self, records: RecordStore, commit_columns: Sequence[str] = ()) -> None:
        self._records = records
        self.watermarks = WatermarkRecords(records)
        self.journals = JournalRecords(records)
        self._commit_columns = (*_COMMIT, *commit_columns)

    def is_intact(self, run_id: str) -> bool:
        """Whether a load is intact; see `ControlStore`.

        Overridden where loads can be volatile.
        """
        return True

    @property
    def records(self) -> RecordStore:
        """The store that holds the records."""
        return self._records

    @property
    def patience(self) -> Patience:
        return self._records.patience

    @patience.setter
    def patience(self, patience: Patience) -> None:
        self._records.patience = patience

    @property
    def batch_id(self) -> str:
        return self._records.batch_id

    @batch_id.setter
    def batch_id(self, batch_id: str) -> None:
        self._records.batch_id = batch_id

    @during("creating the control tables")
    def create(self) -> None:
        self._records.create()

    @during("storing the runs")
    def create_runs(self, runs: Sequence[NewRun]) -> frozenset[str]:
        if len(runs) > 1 and self._records.joins([run.run_id for run in runs]):
            if self._records.add(Kind.RUN, list(map(_new_row, runs))) == len(runs):
                return frozenset(run.run_id for run in runs)
            # Another process is creating them now. Snapshots belong to an execution, and without
            # one it does not matter which of two equal runs is used.
            stored = self.load_runs([run.run_id for run in runs])
            return frozenset(run.run_id for run in runs if _is_stored(run, stored))
        return frozenset(
            run.run_id for run in runs if self._records.add(Kind.RUN, [_new_row(run)]) == 1
        )

    def replan(self, run: NewRun, generation: int) -> None:
        row = _new_row(run)
        kept = {
            name: row[name]
            for name in ("spec", "plan", "partitions", "fingerprint", "source_state", "snapshots")
        }
        begun: dict[str, Any] = {
            "status": "created",
            "prepared_at": None,
            "finished_at": None,
            "failures": [],
        }

        def change() -> None:
            self._check_generation(run.run_id, generation)
            for kind in (Kind.COMMIT, Kind.STEP, Kind.RECOPY):
                self._records.delete(kind, {"run_id": run.run_id})
            changes = {**kept, **begun, "generation": generation + 1, "snapshot_released_at": None}
            self._change(run.run_id, changes)

        with self._records.exclusive(run.run_id):
            self._records.transact(run.run_id, change, Hold.ALONE)

    def begun_runs(self) -> tuple[BegunRun, ...]:
        columns = ("run_id", "spec", "prepared_at", "finished_at")
        rows = self._records.read(Kind.RUN, {"status": BEGUN}, columns)
        return tuple(
            BegunRun(row["run_id"], row["spec"], max(row["prepared_at"], row["finished_at"] or ""))
            for row in rows
            if row["prepared_at"] is not None
        )

    def load_run(self, run_id: str) -> RunRow | None:
        with reading_run(run_id):
            row = self._read(run_id, _RUN)
            return None if row is None else _run_row(row)

    def load_runs(self, run_ids: Sequence[str]) -> dict[str, RunRow]:
        rows_by_run = self._records.read_all(Kind.RUN, run_ids, _RUN)
        loaded: dict[str, RunRow] = {}
        for run_id, rows in rows_by_run.items():
            # A run that cannot be read is left out; `load_run` reports why.
            with suppress(PermanentError), reading_run(run_id):
                for row in rows:
                    loaded[run_id] = _run_row(row)
        return loaded

    def heads(self) -> tuple[RunHead, ...]:
        columns = ("run_id", "status", "created_at", "finished_at")
        rows = self._records.read(Kind.RUN, {}, columns)
        heads = [RunHead(**{name: row[name] for name in columns}) for row in rows]
        return tuple(sorted(heads, key=lambda head: (head.created_at, head.run_id), reverse=True))

    def lines(self, heads: Sequence[RunHead]) -> tuple[RunLine, ...]:
        ids = tuple(head.run_id for head in heads)
        if not ids:
            return ()
        rows = self._records.read(Kind.RUN, {"run_id": ids}, ("run_id", "spec", "partitions"))
        rows_by_id = {row["run_id"]: row for row in rows}
        tally = self._records.tally(ids)
        return tuple(
            RunLine(
                head,
                dict(rows_by_id[head.run_id]["spec"]),
                rows_by_id[head.run_id]["partitions"],
                *tally.get(head.run_id, (0, 0)),
            )
            for head in heads
            if head.run_id in rows_by_id
        )

    def is_at_work(self, run_id: str, table: TableRef) -> bool | None:
        return None

    def _set_status(self, run_id: str, status: str, failures: Sequence[Mapping[str, Any]]) -> None:
        changes = _ended(status, failures)

        def change() -> None:
            released = status == "done" and self._is_released(run_id) is False
            self._change(run_id, {**changes, **({"snapshot_released_at": NOW} if released else {})})

        self._records.transact(run_id, change)

    @during("storing how the runs ended")
    def set_statuses(self, statuses: Mapping[str, tuple[str, Sequence[Mapping[str, Any]]]]) -> None:
        run_ids = sorted(statuses)
        if len(run_ids) < 2 or not self._records.joins(run_ids):
            for run_id in run_ids:
                self._set_status(run_id, *statuses[run_id])
            return

        def change() -> None:
            released = self._records.read_all(Kind.RUN, run_ids, ("snapshot_released_at",))
            run_ids_by_change: dict[tuple[str, bool], list[str]] = {}
            for run_id in run_ids:
                status, failures = statuses[run_id]
                if failures:
                    self._change(run_id, _ended(status, failures))
                else:
                    holds_snapshot = any(
                        row["snapshot_released_at"] is None for row in released[run_id]
                    )
                    run_ids_by_change.setdefault(
                        (status, status == "done" and holds_snapshot), []
                    ).append(run_id)
            for (status, releases), some in run_ids_by_change.items():
                changes = {
                    **_ended(status, ()),
                    **({"snapshot_released_at": NOW} if releases else {}),
                }
                self._records.change(Kind.RUN, {"run_id": tuple(some)}, changes)

        self._records.transact_all(run_ids, change, Hold.CHANGE)

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
        """Whether a run is released; None if it does not exist."""
        row = self._read(run_id, ("snapshot_released_at",))
        return None if row is None else row["snapshot_released_at"] is not None

    def outlook(self, run_id: str) -> Outlook | None:
        columns = ("status", "generation", "snapshots", "partitions", "snapshot_released_at")
        row = self._read(run_id, columns)
        if row is None:
            return None
        snapshots = row["snapshots"]
        return Outlook(
            row["status"],
            row["generation"],
            from_json(Snapshot, snapshots[-1]) if snapshots else None,
            row["partitions"] - self._records.count(Kind.COMMIT, {"run_id": run_id}),
            row["snapshot_released_at"] is not None,
        )

    def committed(self, run_id: str) -> tuple[CommitRecord, ...]:
        commits = self._commit_records({"run_id": run_id})
        return tuple(sorted(commits, key=lambda record: record.partition_id))

    def committed_of(self, run_ids: Sequence[str]) -> dict[str, tuple[CommitRecord, ...]]:
        rows_by_run = self._records.read_all(Kind.COMMIT, run_ids, self._commit_columns)
        return {
            run_id: tuple(sorted(map(_record, rows), key=lambda record: record.partition_id))
            for run_id, rows in rows_by_run.items()
        }

    def committed_in_series(self, series: str) -> Mapping[str, tuple[str, CommitRecord]]:
        columns = ("run_id", *self._commit_columns)
        rows = self._records.read(Kind.COMMIT, {"series": series}, columns)
        return {row["partition_id"]: (row["run_id"], _record(row)) for row in rows}

    # Views

    def set_view(
        self,
        run_id: str,
        generation: int,
        expected_snapshots: Sequence[Snapshot],
        state: SourceState,
        snapshots: Sequence[Snapshot],
        *,
        nothing_committed: bool,
    ) -> int:
        following = generation + nothing_committed
        view = view_columns(state, snapshots)

        def check() -> RunRow:
            run = self._check_generation(run_id, generation)
            if run.snapshots != tuple(expected_snapshots):
                raise superseded(run_id)
            return run

        def change() -> None:
            run = check()
            committed = nothing_committed and self._records.count(Kind.COMMIT, {"run_id": run_id})
            # Earlier commits do not matter if a crash has removed their rows.
            if committed and (not run.plan.load.volatile or self.is_intact(run_id)):
                raise superseded(run_id)
            self._change(run_id, {**view, "generation": following})

        if nothing_committed:
            check()  # before attempts of the execution that was faster are ended
        self._records.transact(run_id, change, Hold.ALONE if nothing_committed else Hold.CHANGE)
        return following

    def _check_generation(self, run_id: str, generation: int) -> RunRow:
        """Check that a run still has the generation.

        Raises:
            Superseded: it has a newer one.
        """
        run = self.load_run(run_id)
        if run is None or run.generation != generation:
            raise superseded(run_id)
        return run

    def _read(self, run_id: str, columns: Sequence[str]) -> Row | None:
        rows = self._records.read(Kind.RUN, {"run_id": run_id}, columns)
        return rows[0] if rows else None

    def _change(self, run_id: str, changes: Row) -> None:
        self._records.change(Kind.RUN, {"run_id": run_id}, changes)

    def _commit_records(self, where: Row) -> list[CommitRecord]:
        rows = self._records.read(Kind.COMMIT, where, self._commit_columns)
        return [_record(row) for row in rows]


def _new_row(run: NewRun) -> Row:
    return {
        "run_id": run.run_id,
        "spec": dict(run.spec),
        "plan": to_json(run.plan),
        "partitions": len(run.plan.partitions),
        "fingerprint": run.plan.fingerprint,
        **view_columns(run.state, [run.snapshot] if run.snapshot else []),
        "generation": 1,
        "status": "created",
        "created_at": NOW,
        "failures": [],
    }


def _is_stored(run: NewRun, stored: Mapping[str, RunRow]) -> bool:
    existing = stored.get(run.run_id)
    snapshots = (run.snapshot,) if run.snapshot else ()
    return (
        existing is not None
        and existing.snapshots == snapshots
        and existing.plan.fingerprint == run.plan.fingerprint
    )


def _run_row(row: Row) -> RunRow:
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


def _ended(status: str, failures: Sequence[Mapping[str, Any]]) -> Row:
    return {
        "status": status,
        "failures": [dict(failure) for failure in failures],
        "finished_at": None if status in ("running", "created") else NOW,
    }


def _record(row: Row) -> CommitRecord:
    fields = {name: row[name] for name in _COMMIT}
    fields["spent"] = from_json(Spent, row["spent"]) if row["spent"] else None
    transaction, files = str(row.get("transaction") or ""), tuple(row.get("files") or ())
    return CommitRecord(**fields, transaction=transaction, files=files)


def view_columns(state: SourceState, snapshots: Sequence[Snapshot]) -> dict[str, Any]:
    """Return the columns of a run's record that hold its views."""
    return {"source_state": to_json(state), "snapshots": to_json(snapshots)}
