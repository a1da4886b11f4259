"""The control store: runs and commit records as documents beside the data."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from secrets import token_hex
from typing import Any

from penstock.backends.api.control import Outlook, RunningAttempt, RunRow
from penstock.backends.parquet.load import manifest
from penstock.backends.parquet.load.fence import MANIFEST, Fence
from penstock.backends.parquet.load.steps import Steps, disturbed
from penstock.backends.parquet.records import series as claims
from penstock.backends.parquet.records.records import commit_record, now, records_of
from penstock.backends.parquet.records.runs import Runs, State
from penstock.backends.parquet.storage.storage import Storage
from penstock.backends.roll_forward.records import Records
from penstock.backends.roll_forward.states import Record
from penstock.backends.shared.presence import Presence
from penstock.backends.shared.refusals import superseded
from penstock.errors import PermanentError, PlanningError, UsageError
from penstock.model.codec import from_json, to_json
from penstock.model.plans import LoadPlan, PartitionPlan, Step
from penstock.model.records import CommitRecord
from penstock.model.snapshots import Snapshot, SourceState
from penstock.model.tables import TableRef
from penstock.spec.worker_spec import Patience


class ControlDocuments:
    patience = Patience()

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.runs = Runs(storage)
        self._fence = Fence(storage, self.runs)
        self._presence = (
            Presence(os.path.join(storage.hidden, "entered")) if storage.hidden else None
        )
        self._records: dict[str, Records] = {}

    def records(self, run_id: str) -> Records:
        return self._records.setdefault(run_id, records_of(self._storage, run_id))

    def create(self) -> None:
        """Sees that documents can be written, and that the server keeps to conditions: one that
        does not know them would overwrite what it should refuse."""
        documents, name = self._storage.documents, f"probe-{token_hex(8)}.json"
        try:
            kept = documents.create(name, b"1") and not documents.create(name, b"2")
            kept = kept and not documents.replace(name, b"3", '"another version"')
            documents.delete([name])
        except PermanentError as error:
            raise PlanningError(error.message, error.diagnosis) from error
        if not kept:
            raise PlanningError(
                f"target: {self._storage}: expected a server that refuses to overwrite an object "
                "where it is asked to (If-None-Match, If-Match); found one that does not: nothing "
                "could be copied exactly once"
            )

    def create_run(
        self,
        run_id: str,
        spec: Mapping[str, Any],
        plan: PartitionPlan,
        state: SourceState,
        snapshot: Snapshot | None,
    ) -> bool:
        return self.runs.create(run_id, spec, plan, state, snapshot)

    def load_run(self, run_id: str) -> RunRow | None:
        return self.runs.row(run_id)

    def enter(self, run_id: str, table: TableRef, check: Callable[[Sequence[str]], None]) -> None:
        # Nothing in a bucket ends with a process: there the runs' own checks have to do.
        if self._presence is not None:
            self._presence.enter(run_id, "", check)

    def leave(self) -> None:
        """End what was entered."""
        if self._presence is not None:
            self._presence.leave()

    def check_target(self, run_id: str) -> None:
        self._fence.check(run_id)

    def prepare(self, run_id: str, load: LoadPlan) -> bool:
        state = self.runs.state(run_id)
        if state is None:
            return False
        self._close_generations(run_id, state)
        return state["prepared_at"] is None and self._prepare(run_id, state, load)

    def _prepare(self, run_id: str, state: State, load: LoadPlan) -> bool:
        steps = Steps(self._storage, self.runs, self.records(run_id), run_id, state)
        self._fence.begin(run_id)
        for step in load.before:
            steps.do(step, load)
        owner = self._fence.owner(run_id, state)

        def prepared(now_is: State) -> State | None:
            if now_is["prepared_at"] is not None or now_is["generation"] != state["generation"]:
                return None
            return {**now_is, "prepared_at": now(), "status": "running", "owner": owner}

        return self.runs.change(run_id, prepared) is not None

    def _close_generations(self, run_id: str, state: State) -> None:
        """Close those before the run's: whoever has begun a new one may have been killed."""
        ended = range(state["closed"] + 1, state["generation"])
        if not ended:
            return
        _, plan = self.runs.planned(state)
        for generation in ended:
            self.records(run_id).close(generation, [p.id for p in plan.partitions])

        def closed(now_is: State) -> State:
            return {**now_is, "closed": max(now_is["closed"], state["generation"] - 1)}

        self.runs.change(run_id, closed)

    def finish(self, run_id: str, step: Step) -> bool:
        state = self.runs.state(run_id)
        assert state is not None
        if step.id in state["steps"]:
            return False
        self._close_generations(run_id, state)
        self._take_back_asked(run_id, state)
        _, plan = self.runs.planned(state)
        steps = Steps(self._storage, self.runs, self.records(run_id), run_id, state)
        steps.committed()
        steps.do(step, plan.load)

        def done(now_is: State) -> State | None:
            if any(now_is[name] != state[name] for name in ("generation", "recopies")):
                raise disturbed(run_id)
            if step.id in now_is["steps"]:
                return None
            return {**now_is, "steps": [*now_is["steps"], step.id]}

        recorded = self.runs.change(run_id, done) is not None
        if step.id == MANIFEST:
            self._fence.end(run_id)
        return recorded

    def steps_done(self, run_id: str) -> frozenset[str]:
        state = self.runs.state(run_id)
        return frozenset(state["steps"] if state else ())

    def intact(self, run_id: str) -> bool:
        return True  # a crash empties no files

    def start_over(
        self,
        run_id: str,
        generation: int,
        load: LoadPlan,
        state: SourceState,
        snapshot: Snapshot | None,
    ) -> int:
        def started(now_is: State) -> State | None:
            if now_is["generation"] != generation:
                return None
            self._fence.check_loaded_since(run_id, now_is)
            return {
                **now_is,
                "generation": generation + 1,
                "prepared_at": None,
                "steps": [],
                "recopies": {},
                "disturbed_by": "",
                "source_state": to_json(state),
                "snapshots": [to_json(snapshot)] if snapshot else [],
            }

        begun = self.runs.change(run_id, started)
        if begun is None:
            raise superseded(run_id)
        # Killed from here on, the next `prepare` does the rest.
        self._close_generations(run_id, begun)
        self._prepare(run_id, begun, load)
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
        if nothing_committed and self._committed(run_id, generation):
            raise superseded(run_id)
        thought = to_json(before)

        def viewed(now_is: State) -> State | None:
            if now_is["generation"] != generation or now_is["snapshots"] != thought:
                return None
            return {
                **now_is,
                "generation": generation + nothing_committed,
                "recopies": {} if nothing_committed else now_is["recopies"],
                "source_state": to_json(state),
                "snapshots": to_json(snapshots),
            }

        viewing = self.runs.change(run_id, viewed)
        if viewing is None:
            raise superseded(run_id)
        # What was committed in between is taken back: the new generation copies it again.
        self._close_generations(run_id, viewing)
        return generation + nothing_committed

    def _committed(self, run_id: str, generation: int) -> dict[str, Record]:
        found = self.records(run_id).read_all(generation)
        return {name: record for name, (record, _) in found.items() if record.is_committed}

    def release(self, run_id: str) -> bool:
        return self._set(run_id, lambda was: was or now())

    def take_up(self, run_id: str) -> bool:
        return self._set(run_id, lambda was: None)

    def _set(self, run_id: str, released: Any) -> bool:
        return (
            self.runs.change(
                run_id, lambda state: {**state, "released_at": released(state["released_at"])}
            )
            is not None
        )

    def outlook(self, run_id: str) -> Outlook | None:
        state = self.runs.state(run_id)
        if state is None:
            return None
        _, plan = self.runs.planned(state)
        committed = self._committed(run_id, state["generation"])
        newest = from_json(Snapshot, state["snapshots"][-1]) if state["snapshots"] else None
        return Outlook(
            state["status"],
            state["generation"],
            newest,
            len(plan.partitions) - len(committed),
            state["released_at"] is not None,
        )

    def recopied(self, run_id: str, request: str) -> frozenset[str]:
        state = self.runs.state(run_id)
        if state is None:
            return frozenset()
        found = self.records(run_id).read_all(state["generation"])
        return frozenset(name for name, (record, _) in found.items() if request in record.requests)

    def check_recopy(self, run_id: str) -> None:
        state = self.runs.state(run_id)
        assert state is not None
        records = self.records(run_id).publish_all(state["generation"])
        visible = dict(self._storage.uploads.visible())
        for path in manifest.read(self._storage.documents).leaving:
            visible.pop(path, None)
        gone = [
            piece.name
            for record in records.values()
            for piece in record.pieces
            if visible.get(piece.name) != piece.bytes
        ]
        if gone:
            raise UsageError(
                f"run {run_id}: {len(gone):,} of its files are gone or others, such as {gone[0]}, "
                "so single partitions cannot be copied again (has another run emptied or replaced "
                "the dataset since?); expected all that were committed; start a new run"
            )

    def forget(
        self,
        run_id: str,
        partition_ids: Sequence[str],
        request: str,
        *,
        rows_of: TableRef | None,
        patience: float,
    ) -> frozenset[str]:
        """An attempt that is open is shut out, instead of waited for. The rows stay until the next
        attempt commits, which takes them away: nobody who is killed in between loses any."""
        state = self.runs.state(run_id)
        assert state is not None
        records, generation = self.records(run_id), state["generation"]
        unseen = [
            name
            for name in sorted(set(partition_ids))
            if name not in self.recopied(run_id, request)
        ]
        if not unseen:
            return frozenset()
        if any(name in self._committed(run_id, generation) for name in unseen):
            self.check_recopy(run_id)

        def asked(now_is: State) -> State | None:
            if now_is["generation"] != generation:
                return None
            recopies = {**now_is["recopies"], request: unseen}
            undone: State = {"status": "running", "finished_at": None, "steps": []}
            if MANIFEST in now_is["steps"]:
                # Whatever has become of the rest since it was done.
                undone["owner"] = manifest.read(self._storage.documents).owner
            return {**now_is, **undone, "recopies": recopies}

        self._fence.begin(run_id)
        # First: killed after it, the next one to come takes the records back, and the steps are
        # done once more; who is in the middle of one finds that it is not done.
        if self.runs.change(run_id, asked) is None:
            raise superseded(run_id)
        return frozenset(name for name in unseen if records.take_back(generation, name, request))

    def _take_back_asked(self, run_id: str, state: State) -> None:
        """Take back what was asked to be copied again, where who has asked was killed."""
        if not state["recopies"]:
            return
        records, generation = self.records(run_id), state["generation"]
        found = records.read_all(generation)
        for request, names in state["recopies"].items():
            for name in names:
                if name not in found or request not in found[name][0].requests:
                    records.take_back(generation, name, request)

    def set_status(self, run_id: str, status: str, failures: Sequence[Mapping[str, Any]]) -> None:
        ended = status not in ("running", "created")

        def changed(state: State) -> State:
            released = state["released_at"] or (now() if status == "done" else None)
            return {
                **state,
                "status": status,
                "failures": [dict(failure) for failure in failures],
                "finished_at": now() if ended else None,
                "released_at": released,
            }

        self.runs.change(run_id, changed)

    def committed(self, run_id: str) -> tuple[CommitRecord, ...]:
        state = self.runs.state(run_id)
        if state is None:
            return ()
        self._take_back_asked(run_id, state)
        found = self.records(run_id).publish_all(state["generation"])
        return tuple(commit_record(found[name], run_id, name) for name in sorted(found))

    def loaded(self, series: str) -> Mapping[str, tuple[str, CommitRecord]]:
        found = claims.committed(self._storage, series)
        return {
            name: (run_id, commit_record(record, run_id, name))
            for name, (run_id, record) in found.items()
        }

    def running(self, run_id: str) -> tuple[RunningAttempt, ...]:
        return ()  # nobody holds anything that could be seen
