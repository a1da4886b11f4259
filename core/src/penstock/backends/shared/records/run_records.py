"""Runs as records: the request, the plan, the snapshot, and how the run ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from penstock.backends.api.execution.control import (
    GIVEN_UP,
    BegunRun,
    NewRun,
    Outlook,
    RunHead,
    RunLine,
    RunRow,
    RunView,
    reading_run,
)
from penstock.backends.api.execution.records import NOW, Hold, Kind, RecordStore, Row
from penstock.backends.shared.attempts.refusals import superseded
from penstock.backends.shared.native import VERSION
from penstock.errors import PenstockError, PermanentError
from penstock.model.awaited import during
from penstock.model.codec import from_json, to_json
from penstock.model.plans import PartitionPlan
from penstock.model.snapshots import Snapshot, SourceState

BEGUN = ("running", "failed", "interrupted", "partial", GIVEN_UP)
"""The statuses of runs that may have begun, and are not done."""
_RUN = (
    *("run_id", "generation", "spec", "plan", "source_state", "snapshots", "status"),
    *("created_at", "prepared_at", "finished_at", "failures", "snapshot_released_at"),
)
_VIEW = ("generation", "source_state", "snapshots", "snapshot_released_at")


class RunRecords:
    """See `Runs`."""

    def __init__(self, records: RecordStore) -> None:
        self._records = records

    @during("storing the runs")
    def create(self, runs: Sequence[NewRun]) -> frozenset[str]:
        if len(runs) > 1 and self._records.joins([run.run_id for run in runs]):
            if self._records.add(Kind.RUN, list(map(new_row, runs))) == len(runs):
                return frozenset(run.run_id for run in runs)
            # Another process is creating them now. Snapshots belong to an execution, and without
            # one it does not matter which of two equal runs is used.
            stored = self.load([run.run_id for run in runs])
            return frozenset(run.run_id for run in runs if _is_stored(run, stored))
        return frozenset(
            run.run_id for run in runs if self._records.add(Kind.RUN, [new_row(run)]) == 1
        )

    def begun(self) -> tuple[BegunRun, ...]:
        columns = ("run_id", "spec", "status", "prepared_at", "finished_at")
        rows = self._records.read(Kind.RUN, {"status": BEGUN}, columns)
        return tuple(
            BegunRun(
                row["run_id"],
                row["spec"],
                max(row["prepared_at"], row["finished_at"] or ""),
                row["status"] == GIVEN_UP,
            )
            for row in rows
            if row["prepared_at"] is not None
        )

    def find(self, run_id: str) -> RunRow | None:
        with reading_run(run_id):
            row = self.row(run_id, _RUN)
            return None if row is None else _run_row(row)

    def view(self, run_id: str) -> RunView | None:
        with reading_run(run_id):
            row = self.row(run_id, _VIEW)
            if row is None:
                return None
            return RunView(
                generation=row["generation"],
                source_state=from_json(SourceState, row["source_state"]),
                snapshots=from_json(tuple[Snapshot, ...], row["snapshots"]),
                released_at=row["snapshot_released_at"],
            )

    def load(self, run_ids: Sequence[str]) -> dict[str, RunRow]:
        rows_by_run = self._records.read_all(Kind.RUN, run_ids, _RUN)
        loaded: dict[str, RunRow] = {}
        for run_id, rows in rows_by_run.items():
            # A run that cannot be read is left out; `find` reports why.
            with suppress(PermanentError), reading_run(run_id):
                for row in rows:
                    loaded[run_id] = _run_row(row)
        return loaded

    def statuses(self, run_ids: Sequence[str]) -> dict[str, str]:
        rows_by_run = self._records.read_all(Kind.RUN, run_ids, ("status",))
        return {run_id: row["status"] for run_id, rows in rows_by_run.items() for row in rows}

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

    def _set_status(self, run_id: str, status: str, failures: Sequence[Mapping[str, Any]]) -> None:
        changes = _ended(status, failures)

        def change() -> None:
            released = status == "done" and self._is_released(run_id) is False
            self.change(run_id, {**changes, **({"snapshot_released_at": NOW} if released else {})})

        self._records.transact(run_id, change, Hold.NOTE)

    @during("storing how the runs ended")
    def set_statuses(self, statuses: Mapping[str, tuple[str, Sequence[Mapping[str, Any]]]]) -> None:
        self._set_statuses(statuses)
        if not {"running", "created"}.issuperset(status for status, _ in statuses.values()):
            with suppress(PenstockError):
                self._records.sweep()

    def _set_statuses(
        self, statuses: Mapping[str, tuple[str, Sequence[Mapping[str, Any]]]]
    ) -> None:
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
                    self.change(run_id, _ended(status, failures))
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
                self.change(run_id, {"snapshot_released_at": NOW if released else None})
            return was is not None

        return self._records.transact(run_id, change, Hold.NOTE)

    def _is_released(self, run_id: str) -> bool | None:
        """Whether a run is released; None if it does not exist."""
        row = self.row(run_id, ("snapshot_released_at",))
        return None if row is None else row["snapshot_released_at"] is not None

    def outlook(self, run_id: str) -> Outlook | None:
        return self.outlooks([run_id]).get(run_id)

    def outlooks(self, run_ids: Sequence[str]) -> dict[str, Outlook]:
        columns = ("status", "generation", "snapshots", "partitions", "snapshot_released_at")
        rows_by_run = self._records.read_all(Kind.RUN, run_ids, columns)
        tally = self._records.tally([run_id for run_id in run_ids if rows_by_run[run_id]])
        return {
            run_id: Outlook(
                row["status"],
                row["generation"],
                from_json(Snapshot, row["snapshots"][-1]) if row["snapshots"] else None,
                row["partitions"] - tally.get(run_id, (0, 0))[0],
                row["snapshot_released_at"] is not None,
            )
            for run_id, rows in rows_by_run.items()
            for row in rows
        }

    def check_generation(self, run_id: str, generation: int) -> tuple[Snapshot, ...]:
        """Check that a run still has the generation; return its snapshots.

        Raises:
            Superseded: it has a newer one.
        """
        row = self.row(run_id, ("generation", "snapshots"))
        if row is None or row["generation"] != generation:
            raise superseded(run_id)
        return from_json(tuple[Snapshot, ...], row["snapshots"])

    def row(self, run_id: str, columns: Sequence[str]) -> Row | None:
        """Return columns of a run's record; None if the run does not exist."""
        rows = self._records.read(Kind.RUN, {"run_id": run_id}, columns)
        return rows[0] if rows else None

    def change(self, run_id: str, changes: Row) -> None:
        """Change columns of a run's record, within its transaction."""
        self._records.change(Kind.RUN, {"run_id": run_id}, changes)


def new_row(run: NewRun) -> Row:
    """Return the record of a run to be stored."""
    return {
        "run_id": run.run_id,
        "spec": dict(run.spec),
        "plan": to_json(replace(run.plan, written_by=VERSION)),
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


def view_columns(state: SourceState, snapshots: Sequence[Snapshot]) -> dict[str, Any]:
    """Return the columns of a run's record that hold its views."""
    return {"source_state": to_json(state), "snapshots": to_json(snapshots)}
