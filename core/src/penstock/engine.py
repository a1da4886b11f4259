"""`plan`, `copy`, `resume`, `verify`, `status`: what the command line and integrations call."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from penstock.backends.base import (
    Backend,
    RunningAttempt,
    RunRow,
    SourceCatalog,
    TargetCatalog,
    find_backend,
    only_scheme,
)
from penstock.errors import PlanningError, SpecMismatch, UsageError
from penstock.events import Event
from penstock.execution import Execution
from penstock.model import CommitRecord, KeyRange, Partition, PartitionPlan
from penstock.plan_builder import build_plan, match_columns
from penstock.source_view import SourceView
from penstock.spec import CopySpec, check_run_id, resolve_degree, resolve_reference
from penstock.supervisor import available_cpus, worker_environment
from penstock.verification import Verification, verify_counts
from penstock.worker_process import Nursery


@dataclass(frozen=True, slots=True)
class Connections:
    """Both ends of a copy, resolved. Carries secrets."""

    source_url: str
    target_url: str
    source_backend: Backend
    target_backend: Backend
    source_reference: str
    target_reference: str
    secrets: tuple[str, ...]
    """What no child's environment may hold."""

    def __repr__(self) -> str:
        return f"Connections({self.source_reference}, {self.target_reference})"


@dataclass(frozen=True, slots=True)
class RunStatus:
    run: RunRow
    committed: tuple[CommitRecord, ...]
    running: tuple[RunningAttempt, ...]

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
    ends = _connect(spec.source, spec.target)
    with (
        closing(ends.source_backend.source(ends.source_url)) as source,
        closing(ends.target_backend.target(ends.target_url, spec.control_schema)) as target,
    ):
        return build_plan(spec, _degree(spec), source, target)


def copy(spec: CopySpec) -> Generator[Event, None, None]:
    """Copy a table; yields events, the last of which is `Finished`.

    With a `run_id` that exists and was made from the same options, goes on with that run.
    Closing the iterator cancels the copy.

    Raises:
        UsageError, PlanningError: before anything is changed.
        SpecMismatch: the run id exists with other options.
        RunFailed, RunFailedTransiently: after `Finished`.
    """
    ends = _connect(spec.source, spec.target)
    with closing(ends.target_backend.target(ends.target_url, spec.control_schema)) as target:
        run = target.control.load_run(spec.run_id) if spec.run_id else None
        if run is not None:
            _check_same_spec(spec, run)
            yield from _go_on(spec, run, run.plan.partitions, ends, target)
            return
        begun = time.monotonic()
        run_id = spec.run_id or new_run_id()
        view = SourceView(spec, run_id, ends.source_url, ends.source_backend)
        nursery = _nursery(ends)
        try:
            with closing(ends.source_backend.source(ends.source_url)) as source:
                taken = view.take(source)
                made = build_plan(spec, _degree(spec), source, target)
            target.control.create()
            if not target.control.create_run(
                run_id, spec.stored(), made, view.state, view.snapshot
            ):
                raise SpecMismatch(f"run {run_id} was created by somebody else at this moment")
            yield from taken
            execution = _execution(spec, run_id, made, ends, target, view, nursery)
            yield from execution.run(made.partitions, seconds=time.monotonic() - begun)
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
    ends = _connect(source, target)
    with closing(ends.target_backend.target(ends.target_url, control_schema)) as catalog:
        run = _load(catalog, run_id, control_schema)
        spec = CopySpec.from_stored(run.spec, source, target)
        spec = replace(spec, **overrides, control_schema=control_schema)
        asked = [run.plan.partition(partition_id) for partition_id in only]
        yield from _go_on(spec, run, asked or run.plan.partitions, ends, catalog)


def verify(
    run_id: str, *, source: str, target: str, control_schema: str = "penstock"
) -> Verification:
    """Count every partition on both sides and compare with the commit records.

    Raises:
        UsageError: no such run.
    """
    check_run_id(run_id)
    ends = _connect(source, target)
    with (
        closing(ends.source_backend.source(ends.source_url)) as source_catalog,
        closing(ends.target_backend.target(ends.target_url, control_schema)) as target_catalog,
    ):
        run = _load(target_catalog, run_id, control_schema)
        spec = CopySpec.from_stored(run.spec, source, target)
        records = target_catalog.control.committed(run_id)
        return verify_counts(spec, run, records, source_catalog, target_catalog)


def status(run_id: str, *, target: str, control_schema: str = "penstock") -> RunStatus:
    """What a run has committed, what it is doing, what is left.

    Raises:
        UsageError: no such run.
    """
    check_run_id(run_id)
    url, backend, *_ = _resolve(target, "--target")
    with closing(backend.target(url, control_schema)) as catalog:
        run = _load(catalog, run_id, control_schema)
        return RunStatus(run, catalog.control.committed(run_id), catalog.control.running(run_id))


def control_ddl(target: str | None = None, control_schema: str = "penstock") -> str:
    """Statements that create the control tables, for an administrator. Does not connect."""
    url = resolve_reference(target, os.environ, "--target") if target else only_scheme() + "://"
    return find_backend(url, "--target")[0].control_ddl(control_schema)


def new_run_id() -> str:
    """A name that sorts by time and does not repeat."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"


def _degree(spec: CopySpec) -> int:
    return resolve_degree(spec.degree, available_cpus())


def _resolve(reference: str, flag: str) -> tuple[str, Backend, str, tuple[str, ...]]:
    """The resolved URL, its backend, that one's ``module:attribute``, and the secrets in it."""
    written = resolve_reference(reference, os.environ, flag)
    backend, name = find_backend(written, flag)
    url = backend.resolve(written, os.environ, flag)
    return url, backend, name, (written, url, *backend.secrets(url))


def _connect(source: str, target: str) -> Connections:
    source_url, source_backend, source_name, source_secrets = _resolve(source, "--source")
    target_url, target_backend, target_name, target_secrets = _resolve(target, "--target")
    return Connections(
        source_url,
        target_url,
        source_backend,
        target_backend,
        source_name,
        target_name,
        (*source_secrets, *target_secrets),
    )


def _load(target: TargetCatalog, run_id: str, control_schema: str) -> RunRow:
    run = target.control.load_run(run_id)
    if run is None:
        raise UsageError(f"run {run_id!r} is not in the target (control schema {control_schema!r})")
    return run


def _check_same_spec(spec: CopySpec, run: RunRow) -> None:
    differences = spec.differences(run.spec)
    if differences:
        raise SpecMismatch(
            f"run {run.run_id} exists with other options:\n  " + "\n  ".join(differences)
        )


def _check_same_shape(
    spec: CopySpec, run: RunRow, source: SourceCatalog, target: TargetCatalog
) -> None:
    """The plan was made for these columns; nothing of it holds for others."""
    columns = source.columns(spec.table_ref)
    before = {column.name: column for column in run.plan.columns}
    now = {column.name: column for column in columns}
    lines = [f"column {name!r} is gone" for name in before if name not in now]
    if spec.columns is None:
        lines += [
            f"column {c.name!r} is new" for c in columns if c.name not in before and not c.generated
        ]
    lines += [
        f"column {name!r} was {before[name].type}, is {now[name].type}"
        for name in before
        if name in now and before[name].type != now[name].type
    ]
    keys = {p.extent.key.text for p in run.plan.partitions if isinstance(p.extent, KeyRange)}
    lines += [
        f"key {name!r} was never NULL, may be NULL"
        for name in keys
        if name in now and name in before and now[name].nullable and not before[name].nullable
    ]
    if lines:
        raise PlanningError(
            f"{spec.table} has changed since run {run.run_id} was planned; start a new run:\n  "
            + "\n  ".join(lines)
        )
    match_columns(spec, columns, target)


def _go_on(
    spec: CopySpec,
    run: RunRow,
    partitions: Sequence[Partition],
    ends: Connections,
    target: TargetCatalog,
) -> Generator[Event, None, None]:
    """Copy those of the partitions that are not committed yet."""
    begun = time.monotonic()
    committed = {record.partition_id for record in target.control.committed(run.run_id)}
    pending = [partition for partition in partitions if partition.id not in committed]
    view = SourceView(spec, run.run_id, ends.source_url, ends.source_backend, run)
    nursery = _nursery(ends)
    try:
        if pending:
            with closing(ends.source_backend.source(ends.source_url)) as source:
                _check_same_shape(spec, run, source, target)
                yield from view.recover(source, target.control, anything_committed=bool(committed))
        execution = _execution(spec, run.run_id, run.plan, ends, target, view, nursery)
        yield from execution.run(partitions, seconds=time.monotonic() - begun)
    finally:
        nursery.close()
        view.close()


def _nursery(ends: Connections) -> Nursery:
    environment = worker_environment(
        os.environ,
        (*ends.source_backend.environment, *ends.target_backend.environment),
        ends.secrets,
    )
    return Nursery(environment, (ends.source_reference, ends.target_reference))


def _execution(
    spec: CopySpec,
    run_id: str,
    made: PartitionPlan,
    ends: Connections,
    target: TargetCatalog,
    view: SourceView,
    nursery: Nursery,
) -> Execution:
    return Execution(
        spec=spec,
        run_id=run_id,
        plan=made,
        degree=_degree(spec),
        source_url=ends.source_url,
        target_url=ends.target_url,
        source_reference=ends.source_reference,
        target_reference=ends.target_reference,
        nursery=nursery,
        target=target,
        reconnect=lambda: ends.target_backend.target(ends.target_url, spec.control_schema),
        view=view,
    )
