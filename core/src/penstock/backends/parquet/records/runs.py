"""Runs as documents: what was asked for and planned, which never changes, and how the run stands.

`runs/<run>/run.json` changes with the run; it names the document that holds the spec and the plan,
which is large and is read once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from secrets import token_hex
from typing import Any

from penstock.backends.api.control import RunRow, reading_run
from penstock.backends.parquet.load.manifest import EVERYTHING
from penstock.backends.parquet.records.records import now
from penstock.backends.parquet.storage.storage import Storage
from penstock.backends.roll_forward.documents import encode
from penstock.model.codec import from_json, to_json
from penstock.model.plans import PartitionPlan
from penstock.model.snapshots import Snapshot, SourceState

State = dict[str, Any]


class Runs:
    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._plans: dict[str, tuple[Mapping[str, Any], PartitionPlan]] = {}

    @staticmethod
    def _name(run_id: str) -> str:
        return f"runs/{run_id}/run.json"

    def create(
        self,
        run_id: str,
        spec: Mapping[str, Any],
        plan: PartitionPlan,
        state: SourceState,
        snapshot: Snapshot | None,
    ) -> bool:
        documents = self._storage.documents
        if documents.get(self._name(run_id)) is not None:
            return False
        planned = f"runs/{run_id}/plan-{token_hex(4)}.json"
        documents.create(planned, encode({"spec": dict(spec), "plan": to_json(plan)}))
        created = documents.create(
            self._name(run_id),
            encode(
                {
                    "plan": planned,
                    "generation": 1,
                    # Generations up to this one are closed; see `Records.close`.
                    "closed": 0,
                    "source_state": to_json(state),
                    "snapshots": [to_json(snapshot)] if snapshot else [],
                    "status": "created",
                    "created_at": now(),
                    "prepared_at": None,
                    "finished_at": None,
                    "released_at": None,
                    "failures": [],
                    "steps": [],
                    # Requests to copy partitions again; see `ControlDocuments.forget`.
                    "recopies": {},
                    # Of the dataset, as the run goes by it; and who has shut the run out.
                    "owner": "",
                    "disturbed_by": "",
                }
            ),
        )
        if created:
            return True
        # A request that is repeated, since its answer was lost, may meet the run that it has
        # created itself, and that somebody has gone on with since.
        found = self.state(run_id)
        if found is not None and found["plan"] == planned:
            return True
        documents.delete([planned])
        return False

    def state(self, run_id: str) -> State | None:
        found = self._storage.documents.get(self._name(run_id))
        return None if found is None else json.loads(found[0])

    def change(self, run_id: str, changed: Callable[[State], State | None]) -> State | None:
        """
        Parameters:
            changed: makes the new state out of a copy of the old one, or None to leave it; called
                again where somebody else was faster.

        Returns: the state as it is then; None where there is no such run, or it was left.
        """
        documents, name = self._storage.documents, self._name(run_id)
        while True:
            found = documents.get(name)
            if found is None:
                return None
            before = json.loads(found[0])
            after = changed(json.loads(found[0]))
            if after is None:
                return None
            if after == before or documents.replace(name, encode(after), found[1]):
                return after

    def planned(self, state: State) -> tuple[Mapping[str, Any], PartitionPlan]:
        """The spec and the plan of a run."""
        name = state["plan"]
        if name not in self._plans:
            found = self._storage.documents.get(name)
            assert found is not None
            raw = json.loads(found[0])
            self._plans[name] = (raw["spec"], from_json(PartitionPlan, raw["plan"]))
        return self._plans[name]

    def row(self, run_id: str) -> RunRow | None:
        state = self.state(run_id)
        if state is None:
            return None
        with reading_run(run_id):
            spec, plan = self.planned(state)
            return RunRow(
                run_id=run_id,
                generation=state["generation"],
                spec=spec,
                plan=plan,
                source_state=from_json(SourceState, state["source_state"]),
                snapshots=from_json(tuple[Snapshot, ...], state["snapshots"]),
                status=state["status"],
                created_at=state["created_at"],
                prepared_at=state["prepared_at"],
                finished_at=state["finished_at"],
                failures=tuple(state["failures"]),
                released_at=state["released_at"],
            )

    def selections(self, state: State) -> dict[str, Mapping[str, Any]]:
        """What each partition of a run selects, as the manifest has it."""
        spec, plan = self.planned(state)
        where = spec["where"]
        return {
            partition.id: {
                **EVERYTHING,
                "where": where,
                "extent": to_json(partition.extent) if plan.given else None,
            }
            for partition in plan.partitions
        }
