"""A store of records over documents.

Run and step records, and requests to copy partitions again, form one document per run, which a
transaction replaces if it is unchanged. Commit records are separate documents: a transaction
changes what the run's document says about them, and this is carried out afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from penstock.backends.api.execution.records import NOW, Hold, Kind, RecordStore, Row
from penstock.backends.api.execution.roll_forward import RecordDocuments
from penstock.backends.roll_forward.documents import decode, encode
from penstock.backends.roll_forward.runs import PlanDocument, RunDocument, Runs
from penstock.backends.roll_forward.series import committed_in_series
from penstock.backends.roll_forward.states import Record, now
from penstock.backends.shared.attempts.refusals import not_committed
from penstock.model.codec import from_json, to_json
from penstock.model.snapshots import Snapshot, SourceState
from penstock.spec.worker_spec import Patience

T = TypeVar("T")

_PLANNED = {"spec", "plan", "partitions"}


class DocumentStore(RecordStore):
    """Records that are documents in the target, where the first of two concurrent writers wins."""

    steps_with_records = False

    def __init__(self, documents: RecordDocuments, runs: Runs) -> None:
        self.patience = Patience()
        self._documents = documents
        self._runs = runs
        self._open: dict[str, RunDocument] = {}
        """The run's document as the transaction has it that is under way, by its id."""
        self._is_exclusive = False
        self._recopy_state: tuple[object, object] | None = None
        """Since the first transaction of `exclusive`."""

    def create(self) -> None:
        """Do nothing: documents need no tables."""

    def transact(
        self,
        run_id: str,
        body: Callable[[], T],
        hold: Hold = Hold.CHANGE,
        partition_ids: Sequence[str] = (),
        patience: float = 0,
    ) -> T:
        """Run a transaction without waiting: the first to write wins, and the others start over.

        Open attempts are shut out by changes to their records.

        Args:
            run_id: the id of the run.
            body: the work, called with the transaction open; it may be called again.
            hold: the locks that the transaction takes.
            partition_ids: the ids of the partitions.
            patience: seconds to wait for a lock; 0 for no limit.
        """
        while True:
            stored = self._runs.read(run_id)
            if stored is None:
                return body()
            before, version = stored
            if hold is Hold.STEP:  # others can continue whatever has happened to the commit records
                self._runs.carry_out(run_id, before)
            if self._is_exclusive:
                before_step, self._recopy_state = (
                    self._recopy_state,
                    _recopy_state_of(before),
                )
                if before_step not in (None, self._recopy_state):
                    raise not_committed(run_id)
            self._open[run_id] = before
            try:
                result = body()
            finally:
                after = self._open.pop(run_id)
            if after == before:
                return result
            if self._runs.write(run_id, after, version):
                if hold in (Hold.ALONE, Hold.RECOPY):  # otherwise the next process does it
                    self._runs.carry_out(run_id, after)
                return result

    @contextmanager
    def exclusive(self, run_id: str, step_id: str = "") -> Iterator[None]:
        """Do a step, possibly at the same time as another process.

        Its record is rejected if the run was restarted, or partitions are copied again, since the
        step began.
        """
        self._is_exclusive, self._recopy_state = bool(step_id), None
        try:
            yield
        finally:
            self._is_exclusive = False

    def find(self, run_id: str) -> RunDocument | None:
        """Return a run's document, as changed by the open transaction."""
        return self._open.get(run_id) or self._runs.find(run_id)

    def read(self, kind: Kind, where: Row, columns: Sequence[str]) -> list[Row]:
        if "series" in where:
            claimed = committed_in_series(self._documents, self._runs, where["series"])
            rows = [_columns(record, run_id, name) for name, (run_id, record) in claimed.items()]
            other_conditions = {name: value for name, value in where.items() if name != "series"}
            return [row for row in rows if _meets(row, other_conditions)]
        if kind is Kind.JOURNAL:
            journals = self._documents.read_all(_journals(where))
            return [{"content": json.loads(content)} for content, _ in journals.values()]
        if kind is Kind.RUN and not isinstance(where.get("run_id"), str):
            listed = self._listed(where.get("run_id"))
            rows = [self._run_columns(run_id, run, columns) for run_id, run in listed.items()]
            return [row for row in rows if _meets(row, where)]
        run = self.find(where["run_id"])
        if run is None:
            return []
        rows_of_run = self._rows(kind, where["run_id"], run, columns)
        return [row for row in rows_of_run if _meets(row, where)]

    def _listed(self, run_ids: Sequence[str] | None) -> dict[str, RunDocument]:
        """Return some runs, or all."""
        if run_ids is not None:
            runs = {run_id: self.find(run_id) for run_id in run_ids}
            return {run_id: run for run_id, run in runs.items() if run is not None}
        documents = self._documents.find_all("runs", "run.json")
        return {
            name.split("/")[1]: decode(RunDocument, content, name)
            for name, (content, _) in documents.items()
        }

    def tally(self, run_ids: Sequence[str]) -> dict[str, tuple[int, int]]:
        counts = {}
        for run_id, run in self._listed(run_ids).items():
            records = self._runs.records(run_id).read_all(run.generation).values()
            rows = [record.rows for record, _ in records if record.is_committed]
            counts[run_id] = len(rows), sum(rows)
        return counts

    def _rows(
        self, kind: Kind, run_id: str, run: RunDocument, columns: Sequence[str]
    ) -> Sequence[Row]:
        """Return all records of a run."""
        match kind:
            case Kind.RUN:
                return [self._run_columns(run_id, run, columns)]
            case Kind.STEP:
                return [{"run_id": run_id, "step_id": step_id} for step_id in run.steps]
            case Kind.RECOPY:
                return [
                    {"run_id": run_id, "partition_id": partition_id, "request": request}
                    for request, partition_ids in run.recopies.items()
                    for partition_id in partition_ids
                ]
            case Kind.JOURNAL:
                raise AssertionError("read by themselves")
            case Kind.WATERMARK:
                raise AssertionError("none is kept here")
            case Kind.COMMIT:
                if run_id not in self._open:
                    self._runs.carry_out(run_id, run)
                records = self._runs.records(run_id).publish_all(run.generation)
                return [_columns(record, run_id, name) for name, record in records.items()]

    def _run_columns(self, run_id: str, run: RunDocument, columns: Sequence[str]) -> Row:
        row = {**to_json(run), "run_id": run_id}
        if _PLANNED.isdisjoint(columns):
            return row
        planned = self._runs.planned(run)
        count = len(planned.parsed.partitions)
        return {**row, "spec": planned.spec, "plan": planned.plan, "partitions": count}

    def count(self, kind: Kind, where: Row) -> int:
        if kind is not Kind.COMMIT or "series" in where:
            return len(self.read(kind, where, ()))
        run_id = where["run_id"]
        run = self.find(run_id)
        if run is None:
            return 0
        # Called often, so nothing is published.
        records = self._runs.records(run_id).read_all(run.generation)
        return sum(
            record.is_committed and _meets(_columns(record, run_id, name), where)
            for name, (record, _) in records.items()
        )

    def add(self, kind: Kind, rows: Sequence[Row]) -> int:
        """Add records, which belong to one run and one request."""
        if kind is Kind.RUN:
            return sum(map(self._create, rows))
        if not rows:
            return 0
        run_id = rows[0]["run_id"]
        run = self._open[run_id]
        if kind is Kind.STEP:
            before = run.steps
            after = _with(before, (row["step_id"] for row in rows))
            self._open[run_id] = replace(run, steps=after)
        else:
            request = rows[0]["request"]
            before = run.recopies.get(request, ())
            after = _with(before, (row["partition_id"] for row in rows))
            self._open[run_id] = replace(run, recopies={**run.recopies, request: after})
        return len(after) - len(before)

    def _create(self, row: Row) -> bool:
        run = RunDocument(
            from_json(SourceState, row["source_state"]),
            from_json(tuple[Snapshot, ...], row["snapshots"]),
            row["status"],
            now(),
        )
        return self._runs.create(row["run_id"], run, PlanDocument(row["spec"], row["plan"]))

    def put_journal(self, row: Row) -> None:
        name, content = f"{_journals(row)}/{row['execution_id']}.json", encode(row["content"])
        document = self._documents.get(name)
        if document is None:
            self._documents.create(name, content)
        else:
            self._documents.replace(name, content, document[1])

    def change(self, kind: Kind, where: Row, changes: Row) -> int:
        run = self._open.get(where["run_id"])
        if run is None or not _meets({**to_json(run), "run_id": where["run_id"]}, where):
            return 0
        changed = {name: now() if value is NOW else value for name, value in changes.items()}
        if "generation" in changed:
            changed["recopies"] = {}
        if "plan" in changed:  # a run that was planned again
            planned = PlanDocument(changes["spec"], changes["plan"])
            changed["plan"] = self._runs.add_plan(where["run_id"], planned)
            for name in ("spec", "partitions", "fingerprint"):
                del changed[name]
        self._open[where["run_id"]] = from_json(RunDocument, {**to_json(run), **changed})
        return 1

    def delete(self, kind: Kind, where: Row) -> None:
        run_id = where["run_id"]
        run = self._open[run_id]
        if kind is Kind.STEP:
            steps = ({"run_id": run_id, "step_id": step_id} for step_id in run.steps)
            remaining_steps = tuple(step["step_id"] for step in steps if not _meets(step, where))
            self._open[run_id] = replace(run, steps=remaining_steps)
        elif "partition_id" not in where:
            # They end with their generation, as does the mark that another run has shut them out.
            # Single ones are taken back by the request to copy their partitions again.
            self._open[run_id] = replace(run, disturbed_by="")


def _journals(row: Row) -> str:
    return f"runs/{row['run_id']}/journal"


def _meets(row: Row, where: Row) -> bool:
    """Whether a record has the expected value of each column, or one of several."""
    return all(
        row[name] in (value if isinstance(value, tuple) else (value,))
        for name, value in where.items()
    )


def _columns(record: Record, run_id: str, partition_id: str) -> Row:
    """Return a commit record as the control store reads it."""
    return {
        "run_id": run_id,
        "partition_id": partition_id,
        "attempt": record.attempt,
        "rows": record.rows,
        "bytes": record.bytes,
        "started_at": record.started_at,
        "committed_at": record.committed_at,
        "inserted": None,
        "updated": None,
        "read_at": record.read_at,
        "spent": to_json(record.spent),
        "transaction": run_id,
        "files": [piece.name for piece in record.pieces],
    }


def _with(before: Iterable[str], more: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*before, *more]))


def _recopy_state_of(run: RunDocument) -> tuple[object, object]:
    """Return a value that changes when a partition is given up, whatever has happened since."""
    return run.generation, run.recopies
