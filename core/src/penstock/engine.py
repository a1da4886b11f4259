"""`plan`, `copy`, `resume`, `verify`, `status`: what the command line and integrations call."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from penstock.backends.base import (
    RunningAttempt,
    RunRow,
    TargetCatalog,
    find_backend,
    only_scheme,
)
from penstock.connections import Connections, connect, resolve
from penstock.continuity import (
    check_same_shape,
    check_same_spec,
    committed_partitions,
    unless_complete,
)
from penstock.errors import SpecMismatch, UsageError
from penstock.events import Event
from penstock.execution import Execution
from penstock.model import CommitRecord, Partition, PartitionPlan
from penstock.plan_builder import build_plan
from penstock.run_state import RunState, new_run_id
from penstock.source_view import SourceView
from penstock.spec import CopySpec, check_run_id, resolve_reference
from penstock.supervisor import streams
from penstock.verification import Verification, verify_run
from penstock.worker_process import Nursery


@dataclass(frozen=True, slots=True)
class RunStatus:
    run: RunRow
    committed: tuple[CommitRecord, ...]
    running: tuple[RunningAttempt, ...]
    steps_done: frozenset[str] = frozenset()
    """Ids of the steps after the last partition."""

    def as_json(self) -> dict[str, Any]:
        done = {record.partition_id for record in self.committed}
        return {
            "run_id": self.run.run_id,
            "status": self.run.status,
            "created_at": self.run.created_at,
            "prepared_at": self.run.prepared_at,
            "finished_at": self.run.finished_at,
            "spec": dict(self.run.spec),
            "strategy": self.run.plan.strategy,
            "fingerprint": self.run.plan.fingerprint,
            "snapshots": [snapshot.as_json() for snapshot in self.run.snapshots],
            "partitions": len(self.run.plan.partitions),
            "committed": [record.as_json() for record in self.committed],
            "running": [asdict(attempt) for attempt in self.running],
            "steps": [
                {"id": step.id, "name": step.name, "done": step.id in self.steps_done}
                for step in self.run.plan.load.after
            ],
            "pending": [p.id for p in self.run.plan.partitions if p.id not in done],
            "failures": [dict(failure) for failure in self.run.failures],
        }


def plan(spec: CopySpec) -> PartitionPlan:
    """Plan a copy: a dry run that connects to both sides and changes nothing.

    Raises:
        UsageError: the request is wrong.
        PlanningError: the plan cannot be made, or the target cannot take it.
        TransientError: a server cannot be reached.
    """
    ends = connect(spec.source, spec.target)
    with (
        closing(ends.source_backend.source(ends.source_url)) as source,
        closing(ends.target_backend.target(ends.target_url, spec.control_schema)) as target,
    ):
        run_id = spec.run_id or new_run_id()
        formats = ends.source_backend.formats
        return build_plan(spec, streams(spec.degree), run_id, source, target, formats)


def copy(spec: CopySpec) -> Generator[Event, None, None]:
    """Copy a table; yields events, the last of which is `Finished`.

    With a `run_id` that exists and was made from the same options, goes on with that run.
    Closing the iterator cancels the copy.

    Raises:
        UsageError, PlanningError: before anything is changed.
        SpecMismatch: the run id exists with other options.
        RunFailed, RunFailedTransiently: after `Finished`.
    """
    ends = connect(spec.source, spec.target)
    with closing(ends.target_backend.target(ends.target_url, spec.control_schema)) as target:
        run = target.control.load_run(spec.run_id) if spec.run_id else None
        if run is not None:
            check_same_spec(spec, run)
            yield from _go_on(spec, run, run.plan.partitions, ends, target)
            return
        begun = time.monotonic()
        run_id = spec.run_id or new_run_id()
        view = SourceView(spec, run_id, ends.source_url, ends.source_backend)
        nursery = ends.nursery()
        try:
            with closing(ends.source_backend.source(ends.source_url)) as source:
                view.look(source)
                taken = view.take(source)
                made = build_plan(
                    spec, streams(spec.degree), run_id, source, target, ends.source_backend.formats
                )
            target.control.create()
            if not target.control.create_run(
                run_id, spec.stored(), made, view.state, view.snapshot
            ):
                raise SpecMismatch(f"run {run_id} was created by somebody else at this moment")
            yield from taken
            yield from _execute(
                spec, run_id, made, made.partitions, ends, target, view, nursery, begun
            )
        finally:
            nursery.close()
            view.close()


def resume(
    run_id: str,
    *,
    source: str,
    target: str,
    only: Sequence[str] = (),
    control_schema: str = "penstock",
    **overrides: Any,
) -> Generator[Event, None, None]:
    """Copy what a run has not committed yet; yields events, the last of which is `Finished`.

    Parameters:
        source, target: the connections; the control tables keep none.
        only: ids of partitions; all that are not committed by default.
        overrides: options that say how to run (`degree`, `attempts`, `on_error`,
            `stall_timeout`, `grace`, `on_snapshot_lost`, `snapshot_warn_after`).

    Raises:
        UsageError: no such run, partition or option.
        PlanningError: the source's or target's shape has changed since; says the difference.
        SnapshotLost: the run's snapshot is gone and `on_snapshot_lost` does not allow to go on.
        RunFailed, RunFailedTransiently: after `Finished`.
    """
    check_run_id(run_id)
    allowed = {item.name for item in fields(CopySpec) if item.metadata["execution"]}
    unknown = set(overrides) - (allowed - {"source", "target", "run_id"})
    if unknown:
        raise UsageError(f"resume: {', '.join(sorted(unknown))} cannot change on resume")
    ends = connect(source, target)
    with closing(ends.target_backend.target(ends.target_url, control_schema)) as catalog:
        run = _load(catalog, run_id, control_schema)
        spec = CopySpec.from_stored(run.spec, source, target)
        spec = replace(spec, **overrides, control_schema=control_schema)
        asked = [run.plan.partition(partition_id) for partition_id in only]
        yield from _go_on(spec, run, asked or run.plan.partitions, ends, catalog)


def verify(
    run_id: str,
    *,
    source: str,
    target: str,
    control_schema: str = "penstock",
    checksum: bool = False,
    show_rows: bool = False,
) -> Verification:
    """Compare every partition on both sides, and with its commit record.

    Parameters:
        checksum: compare the values, not only how many rows there are.
        show_rows: find some of the rows that differ; with `checksum`.

    Raises:
        UsageError: no such run.
        PlanningError: a side cannot be read in this way.
    """
    check_run_id(run_id)
    if show_rows and not checksum:
        raise UsageError("--show-rows: expected --checksum, which finds rows; found none")
    ends = connect(source, target)
    with (
        closing(ends.source_backend.source(ends.source_url)) as source_catalog,
        closing(ends.target_backend.target(ends.target_url, control_schema)) as target_catalog,
    ):
        run = _load(target_catalog, run_id, control_schema)
        spec = CopySpec.from_stored(run.spec, source, target)
        return verify_run(
            spec, run, source_catalog, target_catalog, checksums=checksum, show_rows=show_rows
        )


def status(run_id: str, *, target: str, control_schema: str = "penstock") -> RunStatus:
    """What a run has committed, what it is doing, what is left.

    Raises:
        UsageError: no such run.
    """
    check_run_id(run_id)
    url, backend, *_ = resolve(target, "--target")
    with closing(backend.target(url, control_schema)) as catalog:
        run = _load(catalog, run_id, control_schema)
        control = catalog.control
        return RunStatus(
            run, control.committed(run_id), control.running(run_id), control.steps_done(run_id)
        )


def control_ddl(target: str | None = None, control_schema: str = "penstock") -> str:
    """Statements that create the control tables, for an administrator. Does not connect."""
    url = resolve_reference(target, os.environ, "--target") if target else only_scheme() + "://"
    return find_backend(url, "--target")[0].control_ddl(control_schema)


def _load(target: TargetCatalog, run_id: str, control_schema: str) -> RunRow:
    run = target.control.load_run(run_id)
    if run is None:
        raise UsageError(f"run {run_id!r} is not in the target (control schema {control_schema!r})")
    return run


def _go_on(
    spec: CopySpec,
    run: RunRow,
    partitions: Sequence[Partition],
    ends: Connections,
    target: TargetCatalog,
) -> Generator[Event, None, None]:
    """Copy those of the partitions that are not committed yet."""
    begun = time.monotonic()
    committed = committed_partitions(run, target.control)
    pending = [partition for partition in partitions if partition.id not in committed]
    view = SourceView(spec, run.run_id, ends.source_url, ends.source_backend, run)
    # It costs a third of a second of CPU: a task that finds its partition done needs none.
    nursery = ends.nursery() if pending else None
    try:
        if pending:
            with (
                unless_complete(run, target.control),
                closing(ends.source_backend.source(ends.source_url)) as source,
            ):
                check_same_shape(spec, run, source, target, ends.source_backend.formats)
                yield from view.recover(source, target.control, anything_committed=bool(committed))
        yield from _execute(
            spec, run.run_id, run.plan, partitions, ends, target, view, nursery, begun
        )
    finally:
        if nursery is not None:
            nursery.close()
        view.close()


def _execute(
    spec: CopySpec,
    run_id: str,
    made: PartitionPlan,
    partitions: Sequence[Partition],
    ends: Connections,
    target: TargetCatalog,
    view: SourceView,
    nursery: Nursery | None,
    begun: float,
) -> Generator[Event, None, None]:
    with closing(ends.link(target, spec.control_schema)) as link:
        state = RunState(
            spec=spec,
            run_id=run_id,
            plan=made,
            partitions=partitions,
            urls=(ends.source_url, ends.target_url),
            references=(ends.source_reference, ends.target_reference),
            link=link,
            view=view,
        )
        execution = Execution(state, degree=streams(spec.degree), nursery=nursery, link=link)
        yield from execution.run(seconds=time.monotonic() - begun)
