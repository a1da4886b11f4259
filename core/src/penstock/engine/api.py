"""The engine's functions: `plan`, `create`, `copy`, `resume`, `verify`, `status`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from penstock.backends.api.backend import WithControlDdl
from penstock.backends.api.execution.control import (
    ControlStore,
    Loss,
    NewRun,
    RunHead,
    RunningAttempt,
    RunRow,
)
from penstock.backends.api.registry import ddl_scheme, find_backend
from penstock.backends.api.source import SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.engine.connections import Connections, connect
from penstock.engine.continuation import Rest
from penstock.engine.current_plans import current_plan
from penstock.engine.dropped_foreign_keys import missing_foreign_keys
from penstock.engine.finished_runs import find_losses, reasons_to_renew
from penstock.engine.planner import RunRequest, store_new
from penstock.engine.resume_checks import (
    check_same_partitions,
    check_same_spec,
    stored_spec,
)
from penstock.engine.single_run import SingleRun
from penstock.engine.snapshot.loss_policy import OptionPolicy
from penstock.engine.snapshot.planned_columns import check_same_columns
from penstock.engine.snapshot.source_view import SourceView
from penstock.engine.state import new_run_id
from penstock.engine.stored_runs import (
    is_at_work,
    load_run,
    shown_status,
    spec_of,
    stored_run,
    target_catalog,
)
from penstock.engine.table_requests import TableRequest
from penstock.engine.value_display import isolate_display, isolate_generator_display
from penstock.errors import PlanningError, UsageError
from penstock.events import Event
from penstock.model import values
from penstock.model.codec import to_json
from penstock.model.journal import RUNNING, Journal
from penstock.model.nights import NightStatus, night_status
from penstock.model.plans import Partition, PartitionPlan
from penstock.model.records import CommitRecord
from penstock.model.tables import Column, NotCopied, TableRef
from penstock.planning.asking.search_path import lacks_schema, with_stored_schemas
from penstock.planning.named_partitions import check_explicit_partitions, check_series
from penstock.spec.copy_spec import CopySpec
from penstock.spec.ids import check_run_id
from penstock.spec.references import resolve_reference
from penstock.spec.units import check_duration
from penstock.workers.process import PendingNursery

if TYPE_CHECKING:
    from penstock.verification.result import Verification


@dataclass(frozen=True, slots=True)
class RunStatus:
    """The state of a run, as the target's control tables have it."""

    run: RunRow
    committed: tuple[CommitRecord, ...]
    running: tuple[RunningAttempt, ...]
    steps_done: frozenset[str] = frozenset()
    """Ids of the completed steps after the last partition."""
    target_columns: tuple[Column, ...] = ()
    """Columns of the table that holds the rows; empty if not requested, or if there is no table."""
    night: NightStatus | None = None
    """The status of the night, with `--incremental`."""
    at_work: bool | None = None
    """Whether a process is executing the run; None if that is unknown."""

    executions: tuple[Journal, ...] = ()
    """The latest journals of the processes that execute the run, oldest first; one that was killed
    may be among them."""
    unrestored: tuple[NotCopied, ...] = ()
    """The foreign keys that the run has dropped, and restores when it is resumed."""
    renewed: str = ""
    """Why `create` has just planned the run again; empty if it has not."""

    def as_json(self) -> dict[str, Any]:
        """Return the output of ``penstock status --json``."""
        done = {record.partition_id for record in self.committed}
        return {
            "run_id": self.run.run_id,
            "status": shown_status(self.run.status, self.at_work),
            "at_work": self.at_work,
            "created_at": self.run.created_at,
            "prepared_at": self.run.prepared_at,
            "finished_at": self.run.finished_at,
            "spec": dict(self.run.spec),
            "strategy": self.run.plan.strategy,
            "fingerprint": self.run.plan.fingerprint,
            "snapshots": to_json(self.run.snapshots),
            "night": None if self.night is None else to_json(self.night),
            "partitions": len(self.run.plan.partitions),
            "committed": to_json(self.committed),
            "running": to_json(self.running),
            "executions": [
                {
                    "execution_id": each.execution_id,
                    "host": each.host,
                    "pid": each.pid,
                    "started_at": each.started_at,
                    "written_at": each.written_at,
                    "partitions": list(each.open),
                    "bytes_per_second": round(each.rate),
                }
                for each in self.executions
            ],
            "steps": [
                {"id": step.id, "name": step.name, "done": step.id in self.steps_done}
                for step in self.run.plan.load.after
            ],
            "pending": [p.id for p in self.run.plan.partitions if p.id not in done],
            "failures": to_json(self.run.failures),
            "warnings": to_json(self.run.plan.warnings),
            "not_copied": to_json(self.run.plan.load.not_copied),
            "unrestored": to_json(self.unrestored),
        }


@isolate_display
def plan(spec: CopySpec) -> PartitionPlan:
    """Plan a copy: a dry run that connects to both sides and changes nothing.

    Raises:
        UsageError: the request is invalid.
        MissingTarget: the table does not exist; the error's `plan` partitions the source.
        PlanningError: no plan is possible, or the target cannot take it.
        TransientError: a server cannot be reached.
    """
    values.choose(spec.show_values)
    ends = connect(spec.source, spec.target)
    ends.check_table_names(spec)
    with (
        closing(ends.open_target(spec.control_schema)) as target,
        closing(ends.with_table_types(spec, target).open_source()) as source,
    ):
        request = TableRequest(spec=replace(spec, run_id=spec.run_id or new_run_id()))
        result = current_plan(request, ends, source, target, plans_source=True)
        if spec.max_lag is not None:
            ends.lag_gauge().close()
        return result


@isolate_generator_display
def copy(spec: CopySpec) -> Generator[Event, None, None]:
    """Copy a table; yields events, the last of which is `Finished`.

    Nothing happens until it is iterated over; `run` copies a table in one call. With the `run_id`
    of an existing run and the same options, continues that run. Closing the iterator cancels the
    copy.

    Raises:
        UsageError, PlanningError: before anything is changed.
        SpecMismatch: the run id exists with other options.
        RunFailed, RunFailedTransiently: after `Finished`.
    """
    values.choose(spec.show_values)
    ends = connect(spec.source, spec.target)
    ends.check_table_names(spec)
    with (
        # A run with an id may exist already, with nothing left to read.
        closing(ends.pending_source(ahead=not spec.run_id)) as opening,
        closing(
            ends.snapshot_opener(ahead=not spec.run_id and spec.snapshot != "none")
        ) as snapshot_opener,
        closing(ends.open_target(spec.control_schema)) as target,
        closing(PendingNursery(ends.nursery)) as nursery,
        ExitStack() as stack,
    ):
        stored = target.control.runs.find(spec.run_id) if spec.run_id else None
        started = time.monotonic()
        source: SourceCatalog | None = None
        reasons: tuple[str, ...] = ()
        if stored is None:
            ends.check_supported(spec)
            nursery.start()
            typed = ends.with_table_types(spec, target)
            opened = opening.take() if typed is ends else typed.open_source()
            ends, source = typed, stack.enter_context(closing(opened))
            if lacks_schema(spec):
                spec, reasons = ends.with_schemas(spec, source, target)
        else:
            spec = with_stored_schemas(spec, stored.spec)
            check_same_spec(spec, stored)
            ends = ends.with_planned_types(stored.plan)
        request = RunRequest(
            reasons=reasons,
            check_same=lambda run: check_same_spec(spec, run),
            is_named=spec.run_id is not None,
        )
        run_id = spec.run_id or new_run_id()
        snapshot_opener.url = ends.source_url
        single = SingleRun(ends, target, nursery, snapshot_opener, started)
        yield from single.execute(spec, run_id, request, stored, source)


@isolate_display
def create(
    spec: CopySpec,
    *,
    partitions: Sequence[Partition] = (),
    series: str | None = None,
    part: Callable[[PartitionPlan], PartitionPlan] | None = None,
    renew: bool = False,
) -> RunStatus:
    """Plan a copy and store it as a run; copies nothing, and holds no snapshot.

    If a run with this id and the same options exists, returns it unchanged.

    Args:
        spec: the copy.
        partitions: named partitions by `spec.key`; they need not cover the table. A `Bound`
            with an empty type has the key's own; the source parses its text.
        series: the name of a series of runs: all of them together commit a partition id once, and
            another attempt to load it fails. `committed_in_series` returns what they committed.
        part: returns the plan of a sample, given the plan of all rows.
        renew: whether to plan an existing run again, and to forget what it has committed, if its
            table has lost the rows or its options have changed, as a user expects who asks to load
            the table again. Rows that are still there are never added a second time.

    Raises:
        UsageError, PlanningError: before anything is changed.
        SpecMismatch: the run id exists with other options, or other partitions.
        TargetChanged: the run's table was replaced, and loading it again might double rows.
        TransientError: a server cannot be reached.
    """
    values.choose(spec.show_values)
    if partitions:
        check_explicit_partitions(spec, spec.key, partitions)
    if series is not None:
        check_series(series)
    ends = connect(spec.source, spec.target)
    ends.check_table_names(spec)
    with closing(ends.open_target(spec.control_schema)) as target:
        target.control.patience = spec.patience
        run_id = spec.run_id or new_run_id()
        run = target.control.runs.find(run_id)
        renewed = _renewed(spec, run, target.control) if renew and run is not None else ""
        if run is None or renewed:
            request = TableRequest(
                spec=replace(spec, run_id=run_id), partitions=partitions, series=series or ""
            )
            run_plan, view = _plan_new(
                request, ends if partitions else ends.with_table_types(spec, target), target
            )
            run_plan = part(run_plan) if part else run_plan
            target.control.create()
            resolved = replace(view.spec, run_id=spec.run_id)
            new = NewRun(run_id, resolved.stored(), run_plan, view.state, None)
            store_new([new], {} if run is None else {run_id: run}, target.control)
            run = load_run(target, run_id, spec.control_schema)
        # Checked even then: another process may have just created it.
        check_same_spec(with_stored_schemas(spec, run.spec), run)
        check_same_partitions(partitions, series or "", run)
        return replace(_status(target, run), renewed=renewed)


def _plan_new(
    request: TableRequest, ends: Connections, target: TargetCatalog
) -> tuple[PartitionPlan, SourceView]:
    """Return the plan of a run that others will execute, and its view of the source.

    Planned from the source as it is now: a plan also covers every row of a later snapshot.
    """
    views: list[SourceView] = []

    def note(spec: CopySpec) -> None:
        view = SourceView(
            spec, request.run_id, ends.source_url, ends.source_backend, OptionPolicy()
        )
        view.note_state(source)
        views.append(view)

    with closing(ends.open_source()) as source:
        result = current_plan(request, ends, source, target, note=note)
    return result, views[0]


def _renewed(spec: CopySpec, run: RunRow, control: ControlStore) -> str:
    """Return why a stored run is to be planned again; empty if it continues.

    Raises:
        SpecMismatch, TargetChanged: it can do neither.
    """
    reason = reasons_to_renew([(spec, run)], control).get(run.run_id, "")
    if isinstance(reason, str):
        return reason
    raise reason


@isolate_display
def find_loss(run_id: str, *, target: str, control_schema: str = "penstock") -> Loss | None:
    """Return what the target's table lacks of what a run has committed; None if nothing shows.

    Args:
        run_id: the id of the run.
        target: the connection to the target.
        control_schema: the schema of the control tables.

    Raises:
        UsageError: no such run.
    """
    with stored_run(run_id, target, control_schema) as (catalog, run):
        spec = spec_of(run_id, run.spec)
        return find_losses({run_id: (spec, run)}, catalog.control).get(run_id)


@isolate_generator_display
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

    Args:
        run_id: the id of the run.
        source: the source's connection, which is not stored with the run.
        target: the target's connection, which is not stored with the run.
        only: ids of partitions; empty for all that are not committed.
        control_schema: the schema of the control tables.
        await_snapshot: seconds to wait for the snapshot that `hold` holds, even if it is lost
            during the run; None to take a snapshot here if there is none.
        as_of_now: whether to read the rows as they are now, with a snapshot of this execution's
            own, whatever happened to the run's; `on_snapshot_lost` is ignored. A warning and the
            report say what was read later.
        recopy: the name of a request to copy the partitions of `only` again even if they are
            committed. Each is copied again once, however often the request is repeated.
        finish: whether to compare both sides and do the steps after the last partition, once all
            partitions are committed; False leaves that to another `resume`.
        overrides: options that say how to run (`degree`, `attempts`, `on_error`, `stall_timeout`,
            `grace`, `on_snapshot_lost`, `give_way_after`).

    Raises:
        UsageError: no such run, partition or option; or the run's partitions cannot be copied
            again.
        PlanningError: the shape of the source or target has changed since; the message says how.
        SnapshotLost: the run's snapshot is lost, and `on_snapshot_lost` does not allow another.
        TransientError: no holder came in time for the awaited snapshot.
        PermanentError: rows of a partition to be copied again were changed since.
        RunFailed, RunFailedTransiently: after `Finished`.
    """
    check_run_id(run_id)
    if recopy is not None and not (recopy and only):
        raise UsageError(
            "resume: recopy: expected the name of a request, with partitions in only; found "
            + (f"{recopy!r} without partitions" if recopy else "an empty name")
        )
    if await_snapshot is not None:
        check_duration(await_snapshot, "resume: await_snapshot")
    ends = connect(source, target)
    with (
        closing(ends.snapshot_opener(ahead=False)) as snapshot_opener,
        closing(ends.open_target(control_schema)) as catalog,
        closing(PendingNursery(ends.nursery)) as nursery,
    ):
        run = load_run(catalog, run_id, control_schema)
        spec = stored_spec(run, source, target, control_schema, "resume", overrides)
        values.choose(spec.show_values)
        rest = Rest(only=only, await_snapshot=await_snapshot, as_of_now=as_of_now, recopy=recopy)
        ends = ends.with_planned_types(run.plan)
        snapshot_opener.url = ends.source_url
        single = SingleRun(ends, catalog, nursery, snapshot_opener, time.monotonic())
        yield from single.execute(spec, run_id, RunRequest(rest=rest), run, finish=finish)


@isolate_display
def verify(
    run_id: str,
    *,
    source: str,
    target: str,
    control_schema: str = "penstock",
    checksum: bool = False,
    show_rows: bool = False,
    show_values: str | None = None,
) -> Verification:
    """Compare every partition on both sides, and with its commit record.

    Args:
        run_id: the id of the run.
        source: the source's connection, which is not stored with the run.
        target: the target's connection, which is not stored with the run.
        control_schema: the schema of the control tables.
        checksum: whether to compare the values, in addition to the row counts.
        show_rows: whether to find some of the rows that differ; needs `checksum`.
        show_values: see `CopySpec`; None for the run's own choice.

    Raises:
        UsageError: no such run.
        PlanningError: one side cannot be read for the comparison.
    """
    from penstock.verification.checks import verify_run  # noqa: PLC0415 - rarely needed

    check_run_id(run_id)
    if show_rows and not checksum:
        raise UsageError("--show-rows: expected --checksum as well, found none")
    ends = connect(source, target)
    with closing(ends.open_target(control_schema)) as target_catalog, ExitStack() as stack:
        run = load_run(target_catalog, run_id, control_schema)
        ends = ends.with_planned_types(run.plan)
        source_catalog = stack.enter_context(closing(ends.open_source()))
        spec = spec_of(run_id, run.spec, source, target)
        values.choose(show_values or spec.show_values)
        if show_rows and values.chosen() == values.NEVER:
            raise UsageError(
                "--show-rows shows values of rows: expected --show-values errors, found never"
            )
        check_same_columns(spec, run, source_catalog)
        return verify_run(
            spec, run, source_catalog, target_catalog, checksums=checksum, show_rows=show_rows
        )


@isolate_display
def status(run_id: str, *, target: str, control_schema: str = "penstock") -> RunStatus:
    """Return a run's committed, running and remaining partitions.

    Args:
        run_id: the id of the run.
        target: the connection to the target.
        control_schema: the schema of the control tables.

    Raises:
        UsageError: no such run.
    """
    with stored_run(run_id, target, control_schema) as (catalog, run):
        return _status(catalog, run)


def statuses(
    run_ids: Iterable[str],
    *,
    target: str,
    control_schema: str = "penstock",
    columns: bool = False,
) -> list[RunStatus]:
    """Return the status of each run that the target has, over one connection.

    Args:
        run_ids: ids of runs; those that the target does not have are left out.
        target: the connection to the target.
        control_schema: the schema of the control tables.
        columns: whether to also read the columns of the tables that the runs load.
    """
    results = []
    with target_catalog(target, control_schema) as catalog:
        for run_id in run_ids:
            run = catalog.control.runs.find(run_id)
            if run is not None:
                target_columns = _target_columns(catalog, run) if columns else ()
                results.append(replace(_status(catalog, run), target_columns=target_columns))
    return results


def _target_columns(catalog: TargetCatalog, run: RunRow) -> tuple[Column, ...]:
    """Return the columns of the table that a run builds beside the target's, while it exists."""
    target_table = run.spec.get("target_table")
    tables = [run.plan.load.table]
    tables += [TableRef.parse(target_table, "--target-table")] if target_table else []
    for table in tables:
        with suppress(PlanningError):
            return catalog.columns(table)
    return ()


def committed_in_series(
    series: str, *, target: str, control_schema: str = "penstock"
) -> Mapping[str, tuple[str, CommitRecord]]:
    """Return what the runs of a series have committed: by partition id, run and commit record.

    Args:
        series: the name of the series.
        target: the connection to the target.
        control_schema: the schema of the control tables.
    """
    check_series(series)
    with target_catalog(target, control_schema) as catalog:
        return catalog.control.commits.in_series(series)


def control_ddl(target: str | None = None, control_schema: str = "penstock") -> str:
    """Return the statements that create the control tables, for an administrator. Does not connect.

    Args:
        target: the target's URL, or its scheme; None if only one installed backend has such
            statements.
        control_schema: the schema of the control tables.

    Raises:
        UsageError: the target creates its own control tables or documents.
    """
    if target is None:
        target = f"{ddl_scheme()}://"
    url = resolve_reference(target, os.environ, "--target")
    backend, _ = find_backend(url, "--target")
    capabilities = backend.target_capabilities
    if not capabilities.control_ddl:
        raise UsageError(
            f"{capabilities.system} as a target does not support control-ddl: Penstock itself "
            "creates what it needs to store runs and commit records"
        )
    return cast(WithControlDdl, backend).control_ddl(control_schema)


def _status(target: TargetCatalog, run: RunRow) -> RunStatus:
    control, run_id = target.control, run.run_id
    spec = spec_of(run_id, run.spec)
    head = RunHead(run_id, run.status, run.created_at, run.finished_at)
    at_work = is_at_work(control, head, spec)
    return RunStatus(
        run,
        control.commits.of([run_id])[run_id],
        control.presence.running_attempts(run_id),
        control.steps.done([run_id])[run_id],
        night=_night(control, run),
        at_work=at_work,
        executions=_executions(control, run_id) if at_work is not False else (),
        unrestored=missing_foreign_keys(control, [run])[run_id],
    )


def _executions(control: ControlStore, run_id: str) -> tuple[Journal, ...]:
    journals = control.journals.of([run_id])[run_id]
    return tuple(each for each in journals if each.status == RUNNING)


def _night(control: ControlStore, run: RunRow) -> NightStatus | None:
    night = run.plan.night
    if night is None:
        return None
    return night_status(run.run_id, night, run.snapshots, control.watermarks.history(night.name))
