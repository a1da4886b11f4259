"""The control store over a store of records: runs, their views, and what is committed.

A step of a load is repeatable, its record comes after it, and one that was interrupted is done
again. Where a database undoes a step together with its record, both are one transaction.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from penstock.backends.api.control import Outlook, RunningAttempt, RunRow, reading_run
from penstock.backends.api.records import NOW, Hold, Kind, RecordStore, Row
from penstock.backends.shared.refusals import load_lost, not_committed, superseded
from penstock.model.codec import from_json, to_json
from penstock.model.plans import LoadPlan, PartitionPlan, Step
from penstock.model.records import CommitRecord
from penstock.model.snapshots import Snapshot, SourceState
from penstock.model.tables import TableRef
from penstock.spec.worker_spec import Patience

T = TypeVar("T")

_RUN = (
    *("run_id", "generation", "spec", "plan", "source_state", "snapshots", "status"),
    *("created_at", "prepared_at", "finished_at", "failures", "snapshot_released_at"),
)
_COMMIT = (
    *("partition_id", "attempt", "rows", "bytes", "started_at", "committed_at"),
    *("inserted", "updated", "read_at"),
)


class RecordedRuns(ABC):
    """`ControlStore`, but for what a backend alone knows of the table that a run loads.

    Parameters:
        commit_columns: of commit records, those that only this backend has.
    """

    def __init__(self, records: RecordStore, commit_columns: Sequence[str] = ()) -> None:
        self._records = records
        self._commit_columns = (*_COMMIT, *commit_columns)

    # What a backend adds

    @abstractmethod
    def enter(
        self, run_id: str, table: TableRef, check: Callable[[Sequence[str]], None]
    ) -> None: ...

    @abstractmethod
    def check_target(self, run_id: str) -> None: ...

    @abstractmethod
    def check_recopy(self, run_id: str) -> None: ...

    @abstractmethod
    def running(self, run_id: str) -> tuple[RunningAttempt, ...]: ...

    def intact(self, run_id: str) -> bool:
        return True

    @abstractmethod
    def check_emptying(self, run: RunRow) -> None:
        """Before a run that starts over empties its table once more.

        Raises:
            TargetChanged: another run has loaded rows since, which would go.
        """

    def before_load(self, run: RunRow, load: LoadPlan) -> None:
        """Before the first step, in a transaction."""
        return

    @abstractmethod
    def after_preparing(self, run: RunRow, load: LoadPlan) -> Row:
        """What to keep in the run's record, so that the table can be recognised. In the transaction
        that notes that the run is prepared."""

    @abstractmethod
    def do(self, run: RunRow, step: Step) -> None:
        """Do a step; one after the last partition only where the table is still the run's.

        Raises:
            TargetChanged: it is not.
        """

    def is_done(self, run: RunRow, step: Step) -> bool:
        """Whether the table is as a step leaves it. Asked where steps and records are apart."""
        return False

    def after_step(self, run: RunRow, step: Step) -> None:
        """In the transaction that records a step after the last partition."""
        return

    @abstractmethod
    def take_back(
        self, run: RunRow, records: Sequence[CommitRecord], rows_of: TableRef | None
    ) -> None:
        """Delete the rows of partitions, see `ControlStore.forget`; in its transaction."""

    # Runs

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
            **_view(state, [snapshot] if snapshot else []),
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

    def release(self, run_id: str) -> bool:
        return self._set_released(run_id, released=True)

    def take_up(self, run_id: str) -> bool:
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

    def committed(self, run_id: str) -> tuple[CommitRecord, ...]:
        found = self._records.read(Kind.COMMIT, {"run_id": run_id}, self._commit_columns)
        return tuple(sorted(map(_record, found), key=lambda record: record.partition_id))

    def loaded(self, series: str) -> Mapping[str, tuple[str, CommitRecord]]:
        columns = ("run_id", *self._commit_columns)
        found = self._records.read(Kind.COMMIT, {"series": series}, columns)
        return {row["partition_id"]: (row["run_id"], _record(row)) for row in found}

    # Generations and views

    def start_over(
        self,
        run_id: str,
        generation: int,
        load: LoadPlan,
        state: SourceState,
        snapshot: Snapshot | None,
    ) -> int:
        view = _view(state, [snapshot] if snapshot else [])

        def start() -> None:
            run = self._check_generation(run_id, generation)
            if run.prepared_at is not None:
                self.check_emptying(run)
            for kind in (Kind.COMMIT, Kind.STEP):
                self._records.delete(kind, {"run_id": run_id})
            self._change(run_id, {**view, "generation": generation + 1, "prepared_at": None})
            if self._records.steps_with_records:
                self._prepare(run_id, load)

        with self._records.alone(run_id):
            self._records.transact(run_id, start, Hold.ALONE)
            # Where nobody comes to it, the run's next execution prepares it.
            if not self._records.steps_with_records:
                self._prepare(run_id, load)
        return generation + 1

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
        view = _view(state, snapshots)

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

    # Steps

    def prepare(self, run_id: str, load: LoadPlan) -> bool:
        row = self._read(run_id, ("prepared_at",))
        if row is None:
            return False
        if row["prepared_at"] is not None:
            if not self._records.steps_with_records:
                self._record_done(run_id)
            return False
        with self._records.alone(run_id):
            if self._records.steps_with_records:
                return self._records.transact(run_id, lambda: self._prepare(run_id, load))
            return self._prepare(run_id, load)

    def _prepare(self, run_id: str, load: LoadPlan) -> bool:
        """False where the run is prepared."""
        run = self.load_run(run_id)
        if run is None or run.prepared_at is not None:
            return False
        generation = run.generation

        def record() -> bool:
            changes = {"prepared_at": NOW, "status": "running", **self.after_preparing(run, load)}
            return self._change(run_id, changes, generation=generation)

        if self._records.steps_with_records:
            self.before_load(run, load)
            for step in load.before:
                self.do(run, step)
            return record()
        self._records.transact(run_id, lambda: self.before_load(run, load))
        for step in load.before:
            self._do_apart(run, step, Hold.CHANGE)
        return self._records.transact(run_id, record)

    def _record_done(self, run_id: str) -> None:
        """Record the steps after the last partition that somebody has done, and has not come to
        record."""
        run, done = self.load_run(run_id), self.steps_done(run_id)
        if run is None or len(run.plan.partitions) != len(self.committed(run_id)):
            return
        for step in run.plan.load.after:
            if step.id not in done and self.is_done(run, step):
                self.finish(run_id, step)

    def _do_apart(self, run: RunRow, step: Step, hold: Hold) -> None:
        def do() -> None:
            if not self.is_done(run, step):
                self.do(run, step)

        self._records.transact(run.run_id, do, hold)

    def finish(self, run_id: str, step: Step) -> bool:
        row = {"run_id": run_id, "step_id": step.id}

        def together() -> bool:
            run = self._check_finishing(run_id)
            # First: a second call waits for the first one's record, and then finds it.
            if not self._records.add(Kind.STEP, [row]):
                return False
            self.do(run, step)
            self.after_step(run, step)
            return True

        if self._records.steps_with_records:
            return self._records.transact(run_id, together, Hold.STEP)

        with self._records.alone(run_id, step.id):
            run = self._records.transact(run_id, lambda: self._check_finishing(run_id), Hold.STEP)
            if step.id in self.steps_done(run_id):
                return False
            self._do_apart(run, step, Hold.STEP)

            def record() -> bool:
                if self._check_finishing(run_id).generation != run.generation:
                    raise not_committed(run_id)
                self.after_step(run, step)
                return self._records.add(Kind.STEP, [row]) == 1

            return self._records.transact(run_id, record, Hold.STEP)

    def _check_finishing(self, run_id: str) -> RunRow:
        """
        Raises:
            LoadLost: a crash has emptied the table. TransientError: the run was started over.
        """
        run = self.load_run(run_id)
        committed = self._records.count(Kind.COMMIT, {"run_id": run_id})
        if run is None or committed != len(run.plan.partitions):
            raise not_committed(run_id)
        if run.plan.load.volatile and not self.intact(run_id):
            raise load_lost(run_id)
        return run

    def steps_done(self, run_id: str) -> frozenset[str]:
        found = self._records.read(Kind.STEP, {"run_id": run_id}, ("step_id",))
        return frozenset(row["step_id"] for row in found)

    # Requests to copy partitions again

    def recopied(self, run_id: str, request: str) -> frozenset[str]:
        asked = {"run_id": run_id, "request": request}
        found = self._records.read(Kind.RECOPY, asked, ("partition_id",))
        return frozenset(row["partition_id"] for row in found)

    def forget(
        self,
        run_id: str,
        partition_ids: Sequence[str],
        request: str,
        *,
        rows_of: TableRef | None,
        patience: float,
    ) -> frozenset[str]:
        asked = sorted(set(partition_ids))

        def take_back() -> frozenset[str]:
            seen = self.recopied(run_id, request)
            new = tuple(name for name in asked if name not in seen)
            row = {"run_id": run_id, "request": request}
            self._records.add(Kind.RECOPY, [{**row, "partition_id": name} for name in new])
            theirs = {"run_id": run_id, "partition_id": new}
            found = self._records.read(Kind.COMMIT, theirs, self._commit_columns)
            run = self.load_run(run_id)
            if not found or run is None:
                return frozenset()
            self.check_recopy(run_id)
            self.take_back(run, list(map(_record, found)), rows_of)
            self._records.delete(Kind.COMMIT, theirs)
            self._change(run_id, {"status": "running", "finished_at": None})
            return frozenset(row["partition_id"] for row in found)

        with self._records.alone(run_id):
            return self._records.transact(run_id, take_back, Hold.RECOPY, asked, patience)

    def _read(self, run_id: str, columns: Sequence[str]) -> Row | None:
        found = self._records.read(Kind.RUN, {"run_id": run_id}, columns)
        return found[0] if found else None

    def _change(self, run_id: str, changes: Row, **expected: Any) -> bool:
        return self._records.change(Kind.RUN, {"run_id": run_id, **expected}, changes) == 1


def _record(row: Row) -> CommitRecord:
    known = {name: row[name] for name in _COMMIT}
    return CommitRecord(**known, transaction=str(row.get("transaction") or ""))


def _view(state: SourceState, snapshots: Sequence[Snapshot]) -> dict[str, Any]:
    return {
        "source_state": to_json(state),
        "snapshots": to_json(snapshots),
    }
