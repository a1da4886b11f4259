"""`copy_all`, `copy_tables`: many tables, one snapshot, one pool of streams."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from penstock.backends.api.execution.control import ControlStore, Loss, RunRow
from penstock.backends.api.facts import Siblings
from penstock.backends.api.optional.bulk_catalogs import describing, prefetch
from penstock.backends.api.source import SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.engine.batch_snapshot import BatchSnapshot
from penstock.engine.batch_tables import BatchTables, Found, check_many, siblings_of
from penstock.engine.connections import Connections, connect
from penstock.engine.continuation import Rest
from penstock.engine.control_link import ControlLink
from penstock.engine.execution import Execution
from penstock.engine.failures import ManyRuns
from penstock.engine.finished_runs import (
    complete_runs,
    find_losses,
    reasons_to_renew,
)
from penstock.engine.journals import keep_journals
from penstock.engine.listing import count_unplanned, without_run
from penstock.engine.opening import SnapshotOpener, in_background
from penstock.engine.phases import Phases
from penstock.engine.planner import Planner, RunRequest
from penstock.engine.resume_checks import committed_partitions
from penstock.engine.state import RunState, new_run_id
from penstock.engine.stored_runs import missing_run_error, spec_of
from penstock.engine.table_requests import TableRequest
from penstock.engine.value_display import isolate_generator_display
from penstock.errors import (
    Interrupted,
    PenstockError,
    RunFailed,
    RunFailedTransiently,
    UsageError,
)
from penstock.events import BatchFinished, BatchStarted, BatchTable, Event, TurnTaken, Warned
from penstock.model import values
from penstock.model.journal import PLANNING
from penstock.model.plans import MOST_NAMED, UNRESTORED
from penstock.model.tables import NotCopied, Relation
from penstock.planning.asking.search_path import lacks_schema, with_stored_schemas
from penstock.spec.batch_spec import BatchSpec, batch_of
from penstock.spec.copy_spec import CopySpec
from penstock.spec.source_changes import parse_deletes
from penstock.workers.degree import streams_of
from penstock.workers.process import PendingNursery

# Seconds between two looks for tables that another execution plans.
LOOK_EVERY = 0.5


@isolate_generator_display
def copy_all(
    batch: BatchSpec, *, renew: bool = False, shares: bool = False
) -> Generator[Event, None, None]:
    """Copy many tables; yields the events of every table's run, and `BatchFinished` last.

    Each table has its own run, whose id is the batch's run id and an eight-character suffix.
    The `run_id` of an existing batch continues that batch. Closing the iterator cancels the copy.

    Args:
        batch: the batch.
        renew: see `create`; for each table of an existing batch.
        shares: whether other executions take partitions of the tables, too; see `work_all`.

    Raises:
        UsageError: before anything is changed.
        RunFailed, RunFailedTransiently: after `BatchFinished`, if some tables are not done.
    """
    values.choose(batch.show_values)
    ends = connect(batch.source, batch.target)
    batch_id = batch.run_id or new_run_id()

    def find(source: SourceCatalog, target: TargetCatalog) -> Found:
        requests, left_out = BatchTables(batch, ends, source, target).requests(batch_id)
        return [replace(request, renew=renew) for request in requests], left_out

    pool = _Pool(
        batch_id,
        batch.control_schema,
        batch.degree,
        batch.max_rate,
        batch.max_lag,
        stop_all=batch.on_table_error == "stop",
        shares=shares,
    )
    yield from _run(pool, ends, find)


@isolate_generator_display
def copy_tables(
    requests: Sequence[TableRequest], *, run_id: str, degree: int | str, shares: bool = False
) -> Generator[Event, None, None]:
    """Copy tables between the same two databases; yields the events that `copy_all` yields.

    Each request names its run, which is created or continued. Connections, control schema,
    `max_rate` and `max_lag` are those of the first.

    Args:
        requests: the tables, each with the options of its copy.
        run_id: the id of the batch, for its events and its report.
        degree: the number of concurrent streams, over all tables.
        shares: whether other executions take partitions of the tables, too; see `work_all`.

    Raises:
        UsageError: before anything is changed.
        RunFailed, RunFailedTransiently: after `BatchFinished`, if some tables are not done.
    """
    for request in requests:
        request.check_given()
    spec = requests[0].spec
    values.choose(spec.show_values)
    ends = connect(spec.source, spec.target)
    pool = _Pool(run_id, spec.control_schema, degree, spec.max_rate, spec.max_lag, shares=shares)
    yield from _run(pool, ends, lambda source, target: (requests, ()))


@dataclass(frozen=True, slots=True)
class _Pool:
    """The resources that the tables of a batch share."""

    batch_id: str
    control_schema: str
    degree: int | str
    max_rate: int | None
    max_lag: float | None
    stop_all: bool = False
    shares: bool = False
    """Whether other executions take partitions of the tables, too."""


def _run(
    pool: _Pool, ends: Connections, find: Callable[[SourceCatalog, TargetCatalog], Found]
) -> Generator[Event, None, None]:
    check_many(ends)
    with closing(PendingNursery(ends.nursery)) as nursery:
        nursery.start()
        with (
            closing(ends.pending_source(ahead=True)) as opening,
            closing(ends.snapshot_opener(ahead=True)) as snapshot_opener,
            closing(ends.open_target(pool.control_schema)) as target,
            closing(opening.take()) as source,
            closing(ends.link(target, pool.control_schema, batch_id=pool.batch_id)) as link,
            closing(
                _Batch(pool, find, ends, source, target, link, snapshot_opener, nursery)
            ) as running,
        ):
            yield from keep_journals(
                running.run(), link, ends.wait_kind, running.execution_id, shares=pool.shares
            )


@isolate_generator_display
def resume_all(
    batch_id: str,
    *,
    source: str,
    target: str,
    control_schema: str = "penstock",
    shares: bool = False,
    **overrides: Any,
) -> Generator[Event, None, None]:
    """Continue a batch: all tables whose runs were planned; yields events as `copy_all` does.

    Args:
        batch_id: the run id of the batch.
        source: the source's connection, which is not stored with the runs.
        target: the target's connection, which is not stored with the runs.
        control_schema: the schema of the control tables.
        shares: whether other executions take partitions of the tables, too; see `work_all`.
        overrides: options that say how to run, as for `resume`.

    Raises:
        UsageError: no such batch, or an option that cannot change.
        RunFailed, RunFailedTransiently: after `BatchFinished`, if some tables are not done, or have
            no run yet.
    """
    ends = connect(source, target)
    while True:
        with closing(ends.open_target(control_schema)) as catalog:
            changes = {**overrides, "control_schema": control_schema}
            requests = _planned(batch_id, catalog.control, source, target, changes)
            ids = [request.run_id for request in requests]
            missing = count_unplanned(catalog.control, batch_id, ids)
        if not requests:
            raise missing_run_error(batch_id, control_schema)
        deletes = overrides.get("deletes")
        if deletes is not None and all(request.spec.deletes != deletes for request in requests):
            found = ", ".join(sorted({request.spec.deletes for request in requests}))
            raise UsageError(
                f"resume: --deletes {deletes}: the tables of batch {batch_id} have {found}, and "
                "only the limit after it can change for an existing run; start a new batch"
            )
        degree = requests[0].spec.degree
        yield from copy_tables(requests, run_id=batch_id, degree=degree, shares=shares)
        if not missing:
            return
        if not shares or not _is_planned_by_others(batch_id, ends, control_schema):
            raise RunFailed(without_run(batch_id, missing))
        time.sleep(LOOK_EVERY)


def _planned(
    batch_id: str,
    control: ControlStore,
    source: str,
    target: str,
    overrides: Mapping[str, Any],
) -> list[TableRequest]:
    """Return requests for the tables of a batch that have a run."""
    requests = []
    heads = [head for head in control.runs.heads() if head.run_id.startswith(f"{batch_id}-")]
    for line in control.runs.lines(heads):
        run_id = line.head.run_id
        spec = spec_of(run_id, line.spec, source, target)
        if batch_of(run_id, spec) == batch_id:
            spec = replace(spec, **_changes_of(spec, overrides), run_id=run_id)
            requests.append(TableRequest(spec=spec))
    return requests


def _is_planned_by_others(batch_id: str, ends: Connections, control_schema: str) -> bool:
    """Whether another execution has the turn to plan the rest of a batch."""
    with closing(ends.open_target(control_schema)) as catalog:
        return not catalog.control.presence.take_turns([plan_turn(batch_id)])


def plan_turn(batch_id: str) -> str:
    """Return the name of the turn to plan tables of a batch; see `Presence.take_turns`."""
    return f"{batch_id}:plan"


def _changes_of(spec: CopySpec, overrides: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options that change for a table: a limit of deletes only where it has these."""
    deletes = overrides.get("deletes")
    if deletes is None or parse_deletes(deletes).what == spec.deletion.what:
        return overrides
    return {name: value for name, value in overrides.items() if name != "deletes"}


class _Batch:
    def __init__(
        self,
        pool: _Pool,
        find: Callable[[SourceCatalog, TargetCatalog], Found],
        ends: Connections,
        source: SourceCatalog,
        target: TargetCatalog,
        link: ControlLink,
        snapshot_opener: SnapshotOpener,
        nursery: PendingNursery,
    ) -> None:
        self._ends = ends
        self._source = source
        self._target = target
        self._link = link
        self._started = time.monotonic()
        self._phases = Phases(self._started)
        self._id = pool.batch_id
        self._streams = streams_of(pool.degree)
        self._find = find
        self._requests: dict[str, RunRequest] = {}
        self._renewed: dict[str, RunRow] = {}
        """Stored runs that are planned again, by id."""
        self._warnings: list[Warned] = []
        self._runs: list[RunState] = []
        self._not_copied: tuple[NotCopied, ...] = ()
        self._unplanned: Sequence[RunState] = ()
        self._execution = Execution(
            self._runs,
            ends=ends,
            streams=self._streams,
            nursery=nursery,
            link=link,
            max_rate=pool.max_rate,
            max_lag=pool.max_lag,
            failures=ManyRuns(stop_all=pool.stop_all),
            shares=pool.shares,
        )
        self._snapshot = BatchSnapshot(snapshot_opener, self._execution, self._read_with_snapshot)
        self._planner = Planner(
            self._execution,
            self._requests,
            target=target,
            hold=self._snapshot.hold,
            join=self._snapshot.join,
            renewed=self._renewed,
            siblings=lambda: self._siblings,
        )

    @property
    def execution_id(self) -> str:
        """The id of the execution."""
        return self._execution.id

    def close(self) -> None:
        for run in self._runs:
            run.view.close()
        self._snapshot.close()
        self._source.close()

    def run(self) -> Generator[Event, None, None]:
        self._find_tables()
        if self._execution.working_runs():
            self._target.control.create()
        self._unplanned = self._execution.working_runs()
        yield BatchStarted(
            run_id=self._id,
            tables=tuple(map(_batch_table, self._runs)),
            degree=self._streams.usual,
            automatic=self._streams.automatic,
        )
        yield from self._warnings
        try:
            with closing(self._execution.run(self._plan_window)) as events:
                for event in events:
                    self._phases.add(event)
                    yield event
        except PenstockError as error:
            yield self._finished("interrupted" if isinstance(error, Interrupted) else "failed")
            raise
        yield self._finished()
        self._raise_failure()

    # Planning

    def _find_tables(self) -> None:
        with (
            describing(self._source, ()),
            describing(self._target, ()),
            in_background(lambda: prefetch(self._target)),
        ):
            prefetch(self._source)
            requests, self._not_copied = self._find(self._source, self._target)
        if requests:
            self._link.set_patience(requests[0].spec.patience)
        stored = self._target.control.runs.load([request.run_id for request in requests])
        requests = self._renew(requests, stored)
        with describing(self._source, [request.spec.relation for request in requests]):
            prefetch(self._source)
            for request in requests:
                self._find_table(request, stored.get(request.run_id))
        errors = [run.error for run in self._runs]
        if errors and errors[0] and all(isinstance(error, UsageError) for error in errors):
            # The options suit none of the tables.
            raise errors[0]

    def _renew(
        self, requests: Sequence[TableRequest], stored: Mapping[str, RunRow]
    ) -> Sequence[TableRequest]:
        """Note which stored runs are to be planned again; return the requests, some with an error.

        Args:
            requests: the requests.
            stored: the stored runs, by id.
        """
        existing = [
            (request.spec, stored[request.run_id])
            for request in requests
            if request.renew and request.run_id in stored
        ]
        control = self._target.control
        reasons = reasons_to_renew(existing, control) if existing else {}
        for run_id, reason in reasons.items():
            if isinstance(reason, str):
                self._renewed[run_id] = stored[run_id]
                message = f"run {run_id} starts over: {reason}"
                self._warnings.append(Warned(run_id=run_id, message=message))
        errors = {name: error for name, error in reasons.items() if not isinstance(error, str)}
        return [
            replace(request, error=request.error or errors.get(request.run_id))
            for request in requests
        ]

    def _find_table(self, request: TableRequest, stored: RunRow | None) -> None:
        run_id = request.run_id
        if run_id in self._renewed:
            stored = None
        spec = request.spec if stored is None else with_stored_schemas(request.spec, stored.spec)
        self._requests[run_id] = _run_request(request)
        run = self._planner.run_of(spec, run_id, stored)
        self._runs.append(run)
        try:
            if request.error is not None:
                raise request.error
            self._check_table(run, stored)
        except Interrupted:
            raise
        except PenstockError as error:
            run.fail(error)

    def _check_table(self, run: RunState, stored: RunRow | None) -> None:
        """Check the options of a table before the snapshot is taken.

        Raises:
            UsageError: one end does not support the options.
            PlanningError: the table does not exist.
        """
        if stored is None:
            self._ends.check_supported(run.spec)
        if lacks_schema(run.spec):
            run.spec, _ = self._ends.with_schemas(run.spec, self._source, self._target)
            run.view.spec = run.spec
        if stored is None:
            run.view.note_state(self._source)
        else:
            run.was_done = stored.status == "done"
            committed = committed_partitions(stored, self._target.control)
            run.complete = len(committed) == len(stored.plan.partitions)
            if not run.complete:
                # A dropped table must not fail the snapshot that all tables share.
                self._source.columns(run.spec.relation)

    def _read_with_snapshot(self) -> list[Relation]:
        """Return the relations that the snapshot is needed for from here on."""
        runs = [run for run in (*self._unplanned, *self._execution.window) if run.error is None]
        relations = dict.fromkeys(run.spec.relation for run in runs if run.reads_snapshot)
        return list(relations)

    def _plan_window(self, window: Sequence[RunState]) -> Iterator[Event]:
        self._execution.stop_if_requested()
        if self._execution.shares:
            yield from self._await_plans(window)
        with closing(self._source):
            # Taken before the first table is planned, because all are planned with it.
            if not self._are_stored(window):
                yield from self._snapshot.see(window, self._source)
            runs = [run for run in window if run.error is None]
            stored = self._planner.find_stored([run.run_id for run in runs])
            losses = self._losses(runs, stored)
            source = self._source if len(stored) < len(runs) else None
            yield from self._planner.begin(
                runs, source, stored, lambda run, *_: losses.get(run.run_id)
            )
        over = set(window)
        self._unplanned = [run for run in self._unplanned if run not in over]
        self._snapshot.end_window(is_last=not self._unplanned)
        if self._unplanned:
            # Each window's transaction holds the locks of only its own tables.
            self._source = self._ends.open_source()

    def _are_stored(self, window: Sequence[RunState]) -> bool:
        """Whether other executions have planned the runs, and may hold their snapshot."""
        if not self._execution.shares:
            return False
        ids = [run.run_id for run in window if run.error is None]
        return len(self._target.control.runs.outlooks(ids)) == len(ids)

    def _await_plans(self, window: Sequence[RunState]) -> Iterator[Event]:
        """Wait until another execution has planned the runs, or until it is this one's turn to."""
        turn = plan_turn(self._id)
        while not self._are_stored(window):
            if self._link.call(lambda control: control.presence.take_turns([turn])):
                self._execution.others.stop()
                yield TurnTaken(run_id=self._id, what=PLANNING, run_ids=())
                break
            time.sleep(LOOK_EVERY)
            yield from self._execution.others.have_turn([self._id], PLANNING)

    @cached_property
    def _siblings(self) -> Siblings:
        # Tables that cannot be copied count, too: their dropped keys are restored at the end.
        return siblings_of([run.spec for run in self._runs])

    def _losses(
        self, window: Sequence[RunState], stored: Mapping[str, RunRow]
    ) -> Mapping[str, Loss]:
        """Return what the tables of complete runs lack, by run."""
        control, specs = self._target.control, {run.run_id: run.spec for run in window}
        if not stored:
            return {}
        complete = complete_runs(stored, control.commits.of(list(stored)))
        return find_losses({name: (specs[name], run) for name, run in complete.items()}, control)

    # Ending

    def _finished(self, status: str = "") -> BatchFinished:
        tables = tuple(map(_batch_table, self._runs))
        ends = [run.ended for run in self._runs if run.ended]
        return BatchFinished(
            run_id=self._id,
            status=status or ("done" if all(t.status == "done" for t in tables) else "failed"),
            tables=tables,
            rows=sum(end.rows for end in ends),
            bytes=sum(end.bytes for end in ends),
            seconds=round(time.monotonic() - self._started, 3),
            not_copied=self._not_copied,
            phases=self._phases.seconds,
        )

    def _raise_failure(self) -> None:
        failed = [run for run in self._runs if _batch_table(run).status != "done"]
        if not failed:
            return
        message = f"batch {self._id}: {len(failed)} of {len(self._runs)} tables are not done"
        dropped = [item for run in failed for item in run.not_copied if item.kind == UNRESTORED]
        if dropped:
            names = ", ".join(f"{item.name} of {item.table}" for item in dropped[:MOST_NAMED])
            more = f" and {len(dropped) - MOST_NAMED:,} more" * (len(dropped) > MOST_NAMED)
            message += f"; {UNRESTORED}: {names}{more}"
        if all(map(_is_transient, failed)):
            raise RunFailedTransiently(message)
        raise RunFailed(message)


def _run_request(request: TableRequest) -> RunRequest:
    return RunRequest(
        partitions=request.partitions,
        series=request.series,
        check=request.check,
        check_same=request.check_same,
        rest=Rest(as_of_now=request.as_of_now),
    )


def _batch_table(run: RunState) -> BatchTable:
    error = run.error.as_json() if run.error else None
    ended = run.ended
    return BatchTable(
        table=run.spec.source_name,
        target_table=str(run.spec.target_ref),
        run_id=run.run_id,
        status=ended.status if ended else "failed" if run.error else "found",
        error=ended.error if ended else error,
        failures=ended.failures if ended else (),
        warnings=run.plan.warnings if run.has_begun else (),
        not_copied=run.not_copied,
        rows=ended.rows if ended else 0,
        bytes=ended.bytes if ended else 0,
        busy=ended.busy if ended else 0.0,
    )


def _is_transient(run: RunState) -> bool:
    if run.error is not None:
        return run.error.transient
    if run.ended is None:
        return True
    if run.ended.error is not None:
        return bool(run.ended.error.get("transient"))
    return all(failure.error.get("transient") for failure in run.ended.failures)
