"""`plan`, `create`, `copy`, `resume`, `verify`, `status`, `loaded`: what everything else calls."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from penstock.backends.api.control import RunningAttempt, RunRow, reading_run
from penstock.backends.api.registry import ddl_scheme, find_backend
from penstock.backends.api.target import TargetCatalog
from penstock.errors import UsageError
from penstock.events import Event
from penstock.model.codec import to_json
from penstock.model.plans import Partition, PartitionPlan
from penstock.model.records import CommitRecord
from penstock.planning.build import build_plan
from penstock.planning.named_partitions import check_given, check_series
from penstock.planning.search_path import lacks_schema, with_stored_schemas
from penstock.run.awaited_view import make_view
from penstock.run.claims import enter
from penstock.run.connections import Connections, connect, resolve
from penstock.run.execution import Execution
from penstock.run.recopy import Recopying
from penstock.run.resume_checks import (
    check_same_given,
    check_same_shape,
    check_same_spec,
    committed_partitions,
    load_run,
    stored_spec,
    unless_complete,
)
from penstock.run.source_view import SourceView
from penstock.run.state import RunState, new_run_id
from penstock.spec.copy_spec import CopySpec, check_run_id
from penstock.spec.references import resolve_reference
from penstock.spec.units import check_duration
from penstock.verification.checks import Verification, verify_run
from penstock.workers.process import Nursery
from penstock.workers.supervisor import streams


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
            "snapshots": to_json(self.run.snapshots),
            "partitions": len(self.run.plan.partitions),
            "committed": to_json(self.committed),
            "running": to_json(self.running),
            "steps": [
                {"id": step.id, "name": step.name, "done": step.id in self.steps_done}
                for step in self.run.plan.load.after
            ],
            "pending": [p.id for p in self.run.plan.partitions if p.id not in done],
            "failures": to_json(self.run.failures),
            "warnings": to_json(self.run.plan.warnings),
            "not_copied": to_json(self.run.plan.load.not_copied),
        }


def plan(spec: CopySpec) -> PartitionPlan:
    """Plan a copy: a dry run that connects to both sides and changes nothing.

    Raises:
        UsageError: the request is wrong.
        PlanningError: the plan cannot be made, or the target cannot take it.
        TransientError: a server cannot be reached.
    """
    ends = connect(spec.source, spec.target)
    ends.check_named(spec)
    with (
        closing(ends.source_backend.source(ends.source_url)) as source,
        closing(ends.target_backend.target(ends.target_url, spec.control_schema)) as target,
    ):
        spec, found = ends.with_schemas(spec, source, target)
        run_id = spec.run_id or new_run_id()
        made = build_plan(spec, streams(spec.degree), run_id, source, target, ends.formats)
        return replace(made, reasons=(*found, *made.reasons))


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
    ends.check_named(spec)
    with closing(ends.target_backend.target(ends.target_url, spec.control_schema)) as target:
        target.control.patience = spec.patience
        run = target.control.load_run(spec.run_id) if spec.run_id else None
        if run is not None:
            spec = with_stored_schemas(spec, run.spec)
            check_same_spec(spec, run)
            yield from _go_on(spec, run, run.plan.partitions, ends, target)
            return
        begun = time.monotonic()
        spec, found = _find_tables(spec, ends, target)
        run_id = spec.run_id or new_run_id()
        view = SourceView(spec, run_id, ends.source_url, ends.source_backend)
        nursery = ends.nursery()
        try:
            with closing(ends.source_backend.source(ends.source_url)) as source:
                view.look(source)
                taken = view.take(source)
                made = build_plan(spec, streams(spec.degree), run_id, source, target, ends.formats)
                made = replace(made, reasons=(*found, *made.reasons))
            target.control.create()
            created = target.control.create_run(
                run_id, spec.stored(), made, view.state, view.snapshot
            )
            if created:
                yield from taken
                yield from _execute(
                    spec, run_id, made, made.partitions, ends, target, view, nursery, begun
                )
        finally:
            nursery.close()
            view.close()
        if not created:  # somebody else was faster: then this is the second execution
            run = load_run(target, run_id, spec.control_schema)
            check_same_spec(spec, run)
            yield from _go_on(spec, run, run.plan.partitions, ends, target)


def create(
    spec: CopySpec, *, given: Sequence[Partition] = (), series: str | None = None
) -> RunStatus:
    """Plan a copy and store it as a run; copies nothing, and holds no snapshot.

    A run of that id which was made from the same options is returned as it is.

    Parameters:
        given: partitions by `spec.key` that the caller names, which need not cover the table. A
            `Bound` whose type is empty has the key's own; its text is read by the source.
        series: names runs that belong together: all of them commit a partition of one id once,
            and an attempt to load it again fails. `loaded` tells what they have committed.

    Raises:
        UsageError, PlanningError: before anything is changed.
        SpecMismatch: the run id exists with other options, or other partitions.
        TransientError: a server cannot be reached.
    """
    if given:
        check_given(spec, given)
    if series is not None:
        check_series(series)
    ends = connect(spec.source, spec.target)
    ends.check_named(spec)
    with closing(ends.target_backend.target(ends.target_url, spec.control_schema)) as target:
        target.control.patience = spec.patience
        run_id = spec.run_id or new_run_id()
        run = target.control.load_run(run_id)
        if run is None:
            spec, found = _find_tables(spec, ends, target)
            view = SourceView(spec, run_id, ends.source_url, ends.source_backend)
            with closing(view.open()) as source:
                view.look(source)
                # Of the source as it is now: a plan covers every row of a later snapshot as well.
                made = build_plan(
                    spec,
                    streams(spec.degree),
                    run_id,
                    source,
                    target,
                    ends.formats,
                    given,
                    series or "",
                )
                made = replace(made, reasons=(*found, *made.reasons))
            target.control.create()
            target.control.create_run(run_id, spec.stored(), made, view.state, None)
            run = load_run(target, run_id, spec.control_schema)
        # Also where somebody else has just created it.
        check_same_spec(with_stored_schemas(spec, run.spec), run)
        check_same_given(given, series or "", run)
        return _status(target, run)


def resume(
    run_id: str,
    *,
    source: str,
    target: str,
    only: Sequence[str] = (),
    control_schema: str = "penstock",
    await_snapshot: float | None = None,
    as_of_now: bool = False,
    recopy: str | None = None,
    finish: bool = True,
    **overrides: Any,
) -> Generator[Event, None, None]:
    """Copy what a run has not committed yet; yields events, the last of which is `Finished`.

    Parameters:
        source, target: the connections; the control tables keep none.
        only: ids of partitions; all that are not committed by default.
        await_snapshot: read with the snapshot that `hold` holds, and wait for it for so many
            seconds, also where it is lost in mid-run; by default one is taken where there is none.
        as_of_now: what is copied was asked for by a person, who wants the rows as they are now:
            they are read with a snapshot of this execution's own, whatever became of the run's,
            and `on_snapshot_lost` is not asked. A warning and the report say what was read later.
        recopy: names a request to copy the partitions of `only` again where they are committed.
            Each is copied again once, however often the request is repeated.
        finish: compare both sides and do the steps after the last partition once all are
            committed; False leaves that to another `resume`.
        overrides: options that say how to run (`degree`, `attempts`, `on_error`,
            `stall_timeout`, `grace`, `on_snapshot_lost`, `snapshot_warn_after`).

    Raises:
        UsageError: no such run, partition or option; or the run's partitions cannot be copied
            again.
        PlanningError: the source's or target's shape has changed since; says the difference.
        SnapshotLost: the run's snapshot is gone and `on_snapshot_lost` does not allow to go on.
        TransientError: nobody has come to hold the snapshot that was to be awaited.
        PermanentError: rows of a partition that is to be copied again were changed since.
        RunFailed, RunFailedTransiently: after `Finished`.
    """
    check_run_id(run_id)
    if recopy is not None and not (recopy and only):
        raise UsageError(
            "resume: recopy: expected the name of a request, and partitions in only; found "
            + (f"{recopy!r} without partitions" if recopy else "an empty name")
        )
    if await_snapshot is not None:
        check_duration(await_snapshot, "resume: await_snapshot")
    ends = connect(source, target)
    with closing(ends.target_backend.target(ends.target_url, control_schema)) as catalog:
        run = load_run(catalog, run_id, control_schema)
        spec = stored_spec(run, source, target, control_schema, "resume", overrides)
        asked = [run.plan.partition(partition_id) for partition_id in only]
        partitions = asked or run.plan.partitions
        yield from _go_on(
            spec,
            run,
            partitions,
            ends,
            catalog,
            await_snapshot=await_snapshot,
            asked=list(dict.fromkeys(only)) if as_of_now else None,
            request=recopy,
            finish=finish,
        )


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
        run = load_run(target_catalog, run_id, control_schema)
        with reading_run(run_id):
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
        return _status(catalog, load_run(catalog, run_id, control_schema))


def loaded(
    series: str, *, target: str, control_schema: str = "penstock"
) -> Mapping[str, tuple[str, CommitRecord]]:
    """What the runs of a series have committed: by partition, the run and the commit record."""
    check_series(series)
    url, backend, *_ = resolve(target, "--target")
    with closing(backend.target(url, control_schema)) as catalog:
        return catalog.control.loaded(series)


def control_ddl(target: str | None = None, control_schema: str = "penstock") -> str:
    """Statements that create the control tables, for an administrator. Does not connect.

    Parameters:
        target: the URL's scheme is enough; not needed where one system alone has such statements.

    Raises:
        UsageError: the target makes by itself what it keeps runs and commit records in.
    """
    if target is None:
        target = f"{ddl_scheme()}://"
    url = resolve_reference(target, os.environ, "--target")
    return find_backend(url, "--target")[0].control_ddl(control_schema)


def _find_tables(
    spec: CopySpec, ends: Connections, target: TargetCatalog
) -> tuple[CopySpec, tuple[str, ...]]:
    """See `Connections.with_schemas`; a source is asked only where that is needed."""
    if not lacks_schema(spec):
        return spec, ()
    with closing(ends.source_backend.source(ends.source_url)) as source:
        return ends.with_schemas(spec, source, target)


def _status(target: TargetCatalog, run: RunRow) -> RunStatus:
    control, run_id = target.control, run.run_id
    return RunStatus(
        run, control.committed(run_id), control.running(run_id), control.steps_done(run_id)
    )


def _go_on(
    spec: CopySpec,
    run: RunRow,
    partitions: Sequence[Partition],
    ends: Connections,
    target: TargetCatalog,
    *,
    await_snapshot: float | None = None,
    asked: Sequence[str] | None = None,
    request: str | None = None,
    finish: bool = True,
) -> Generator[Event, None, None]:
    """Copy those of the partitions that are not committed yet, or that are asked for again."""
    begun = time.monotonic()
    control = target.control
    control.patience = spec.patience
    committed = committed_partitions(run, control)
    recopying = Recopying(spec, run, partitions, committed, control, request)
    pending = [p for p in partitions if p.id not in committed or p.id in recopying.wanted]
    complete = len(committed) == len(run.plan.partitions) and not recopying.wanted
    view = make_view(
        spec,
        run,
        ends.source_url,
        ends.source_backend,
        await_snapshot=await_snapshot,
        # What is only compared is compared as of the run's own snapshot.
        asked=asked and [partition.id for partition in pending] if pending else None,
    )
    # It costs a third of a second of CPU: a task that finds its partition done needs none.
    nursery = ends.nursery() if pending else None
    try:
        if pending:
            enter(spec, run.run_id, run.plan, control)
            # What is to be copied again is committed, and needs a view all the same.
            guard = nullcontext() if recopying.wanted else unless_complete(run, control)
            with guard, closing(view.open()) as source:
                check_same_shape(spec, run, source, target, ends.formats)
                recopying.forget_all()
                yield from view.recover(source, control, anything_committed=bool(recopying.kept))
            recopying.forget()
        elif complete and finish and spec.verify != "none" and run.status != "done":
            with closing(view.open()) as source:
                yield from view.compare_with(source, control)
        yield from _execute(
            spec, run.run_id, run.plan, partitions, ends, target, view, nursery, begun, finish
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
    finish: bool = True,
) -> Generator[Event, None, None]:
    with closing(ends.link(target, spec.control_schema, spec.patience)) as link:
        state = RunState(
            spec=spec,
            run_id=run_id,
            plan=made,
            partitions=partitions,
            urls=(ends.source_url, ends.target_url),
            references=(ends.source_reference, ends.target_reference),
            link=link,
            view=view,
            finish=finish,
        )
        execution = Execution(state, degree=streams(spec.degree), nursery=nursery, link=link)
        yield from execution.run(seconds=time.monotonic() - begun)
