"""Runs as documents: the request and plan, which never change, and the state of the run.

`runs/<run>/run.json` changes with the run; it names the document with the spec and the plan, which
is large and read once. What it says about commit records is written first: if the writer is killed
before it changes the records, the next process does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from secrets import token_hex
from typing import Any

from penstock.backends.api.execution.roll_forward import Pieces, RecordDocuments
from penstock.backends.roll_forward.documents import decode, encode
from penstock.backends.roll_forward.records import Records
from penstock.errors import Diagnosis, PermanentError
from penstock.model.codec import JsonForm, from_json, to_json
from penstock.model.plans import PartitionPlan
from penstock.model.snapshots import Snapshot, SourceState


@dataclass(frozen=True, slots=True)
class RunDocument:
    """The state of a run."""

    json_form = JsonForm(exact=True)

    source_state: SourceState
    snapshots: tuple[Snapshot, ...]
    status: str
    created_at: str
    plan: str = ""
    """The name of the `PlanDocument`."""
    generation: int = 1
    closed: int = 0
    """Generations up to this one are closed; see `Records.close`."""
    prepared_at: str | None = None
    finished_at: str | None = None
    snapshot_released_at: str | None = None
    failures: tuple[Mapping[str, Any], ...] = ()
    steps: tuple[str, ...] = ()
    """The ids of completed steps after the last partition."""
    recopies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Requests in this generation, each with the ids of the partitions to copy again."""
    owner: str = ""
    """The owner of the target, as known to this run."""
    disturbed_by: str = ""
    """The run that removed what this one has loaded, and has shut it out."""


@dataclass(frozen=True)
class PlanDocument:
    """The request and the plan, as JSON."""

    spec: Mapping[str, Any]
    plan: Mapping[str, Any]

    @cached_property
    def parsed(self) -> PartitionPlan:
        return from_json(PartitionPlan, self.plan)


class Runs:
    """All runs of a target, as documents in the folder ``runs``."""

    def __init__(self, documents: RecordDocuments, pieces: Pieces) -> None:
        self._documents = documents
        self._pieces = pieces
        self._plans: dict[str, PlanDocument] = {}
        self._records: dict[str, Records] = {}

    @staticmethod
    def _name(run_id: str) -> str:
        return f"runs/{run_id}/run.json"

    def create(self, run_id: str, run: RunDocument, planned: PlanDocument) -> bool:
        """Create a run.

        Args:
            run_id: the id of the run.
            run: without the name of the plan's document.
            planned: the plan of the run.

        Returns:
            False if the run id exists.
        """
        documents = self._documents
        if documents.get(self._name(run_id)) is not None:
            return False
        plan = self.add_plan(run_id, planned)
        if documents.create(self._name(run_id), encode(to_json(replace(run, plan=plan)))):
            return True
        # A request repeated because its answer was lost may find the run that it created itself,
        # and that others have continued since.
        existing = self.find(run_id)
        if existing is not None and existing.plan == plan:
            return True
        documents.delete([plan])
        return False

    def add_plan(self, run_id: str, planned: PlanDocument) -> str:
        """Store a request and plan; return the name of the document."""
        name = f"runs/{run_id}/plan-{token_hex(4)}.json"
        self._documents.create(name, encode(to_json(planned)))
        return name

    def find(self, run_id: str) -> RunDocument | None:
        versioned = self.read(run_id)
        return None if versioned is None else versioned[0]

    def read(self, run_id: str) -> tuple[RunDocument, str] | None:
        """Return the document and its version."""
        name = self._name(run_id)
        document = self._documents.get(name)
        return None if document is None else (decode(RunDocument, document[0], name), document[1])

    def write(self, run_id: str, run: RunDocument, version: str) -> bool:
        """Write the document; return False, with nothing changed, if its version differs.

        Args:
            run_id: the id of the run.
            run: the document of the run.
            version: the version that the document is expected to have.
        """
        return self._documents.replace(self._name(run_id), encode(to_json(run)), version)

    def change(
        self, run_id: str, changed: Callable[[RunDocument], RunDocument | None]
    ) -> RunDocument | None:
        """Change a run's document.

        Args:
            run_id: the id of the run.
            changed: returns the new document for the old one, or None to leave it; called again
                if another process was faster.

        Returns:
            the document afterwards; None if there is no such run, or it was left.
        """
        while (versioned := self.read(run_id)) is not None:
            before, version = versioned
            after = changed(before)
            if after is None or after == before or self.write(run_id, after, version):
                return after
        return None

    def planned(self, run: RunDocument) -> PlanDocument:
        """Return the spec and plan.

        Raises:
            PermanentError: the document is missing or damaged.
        """
        if run.plan not in self._plans:
            document = self._documents.get(run.plan)
            if document is None:
                raise PermanentError(
                    f"target: {run.plan} is missing: expected the plan of a run, found none (was "
                    "it removed by hand?); start a new run",
                    Diagnosis(side="target"),
                )
            self._plans[run.plan] = decode(PlanDocument, document[0], run.plan)
        return self._plans[run.plan]

    def records(self, run_id: str) -> Records:
        if run_id not in self._records:
            self._records[run_id] = Records(self._documents, self._pieces, run_id)
        return self._records[run_id]

    def carry_out(self, run_id: str, run: RunDocument) -> None:
        """Make the commit records match the run's document.

        Generations that ended or were shut out are closed, and partitions to be copied again are
        taken back. May be repeated by any process.
        """
        ended = [*range(run.closed + 1, run.generation)]
        for generation in [*ended, run.generation] if run.disturbed_by else ended:
            names = [partition.id for partition in self.planned(run).parsed.partitions]
            self.records(run_id).close(generation, names)
        if ended:
            self.change(
                run_id, lambda now_is: replace(now_is, closed=max(now_is.closed, ended[-1]))
            )
        if run.recopies:
            self.records(run_id).take_back_all(run.generation, run.recopies)
