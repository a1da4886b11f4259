"""Whether an existing run may continue: it needs the same request, and tables of equal shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from penstock.backends.api.execution.control import ControlStore, RunRow
from penstock.backends.api.source import SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.backends.api.worker import are_shared
from penstock.backends.shared.native import VERSION
from penstock.engine.snapshot.planned_columns import changed_error, column_changes, key_texts
from penstock.engine.stored_runs import spec_of
from penstock.errors import PlanningError, SnapshotLost, SpecMismatch, UsageError
from penstock.model.plans import Partition, changes_of
from penstock.model.source_columns import SourceColumn
from penstock.model.tables import Column
from penstock.planning.asking.catalogs import match_columns
from penstock.planning.asking.selected_columns import read_selected
from penstock.spec.copy_spec import CopySpec, resumed_options
from penstock.spec.option import derived


def stored_spec(
    run: RunRow,
    source: str,
    target: str,
    control_schema: str,
    caller: str,
    overrides: Mapping[str, Any],
) -> CopySpec:
    """Return the spec of a run, with connections and with new options on how to run.

    Args:
        run: the stored run.
        source: the source's connection.
        target: the target's connection.
        control_schema: the schema of the control tables.
        caller: the name of the called function, for errors.
        overrides: the new options.

    Raises:
        UsageError: an option is unknown, or changes what to copy.
    """
    unknown = set(overrides).difference(resumed_options())
    if unknown:
        raise UsageError(
            f"{caller}: {', '.join(sorted(unknown))} cannot change for an existing run; start a "
            "new run"
        )
    spec = spec_of(run.run_id, run.spec, source, target)
    changed = replace(spec, **overrides, control_schema=control_schema)
    if changed.deletion.what != spec.deletion.what:
        raise UsageError(
            f"{caller}: --deletes {changed.deletes}: the run has {spec.deletes}, and only the "
            "limit after it can change for an existing run; start a new run"
        )
    return changed


def check_version(run: RunRow) -> None:
    """Check that no newer Penstock has planned a run: what its plan says may mean something else.

    Raises:
        PlanningError: one has.
    """
    written_by = run.plan.written_by
    if _release(written_by) > _release(VERSION):
        raise PlanningError(
            f"run {run.run_id} was planned by Penstock {written_by}, and this is Penstock "
            f"{VERSION}, which is older: use {written_by} wherever the run is worked on"
        )


def _release(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version, with which the meaning of a plan may change."""
    numbers = [part for part in version.split(".")[:2] if part.isdecimal()]
    return tuple(map(int, numbers))


def check_same_spec(spec: CopySpec, run: RunRow) -> None:
    """Check that the run was created from the same request.

    Raises:
        SpecMismatch: the run has other options.
    """
    differences = spec.differences(run.spec)
    if differences:
        raise SpecMismatch(
            f"run {run.run_id} exists with other options; use the same options, or another run "
            "id:\n  " + "\n  ".join(differences)
        )


def check_same_partitions(partitions: Sequence[Partition], series: str, run: RunRow) -> None:
    """Check that the run was created with the same partitions.

    Args:
        partitions: the requested partitions.
        series: the requested series; empty for none.
        run: the stored run.

    Raises:
        SpecMismatch: the run has other partitions than the given ones, or another series.
    """
    theirs = {p.id for p in run.plan.partitions} if run.plan.has_given_partitions else set()
    if {partition.id for partition in partitions} != theirs:
        raise SpecMismatch(
            f"run {run.run_id} exists with other partitions: expected {_summary(theirs)}, found "
            f"{_summary({partition.id for partition in partitions})}; use another run id"
        )
    if series != run.plan.series:
        raise SpecMismatch(
            f"run {run.run_id} exists in another series: expected {run.plan.series!r}, found "
            f"{series!r}; use another run id"
        )


def _summary(ids: set[str]) -> str:
    first, *remaining = sorted(ids) or ["none from the caller"]
    return f"{first} and {len(remaining):,} more" if remaining else first


def check_same_shape(
    spec: CopySpec,
    run: RunRow,
    source: SourceCatalog,
    target: TargetCatalog,
    formats: Sequence[str],
) -> None:
    """Check that the columns are those that the plan was made for.

    Args:
        spec: the options of the run.
        run: the stored run.
        source: the source's catalog.
        target: the target's catalog.
        formats: the stream formats that both sides support.

    Raises:
        PlanningError: the source or the target has changed; the message lists the differences.
    """
    route, loading, plan = spec, spec, run.plan
    raw = source.columns(route.relation)
    present = tuple(map(SourceColumn.of, raw))
    lines = column_changes(spec, plan, run.source_state.columns, present)
    if are_shared(formats):
        raw = source.in_arrow(route.relation, raw)
    columns = read_selected(route, source, raw, in_arrow=are_shared(formats), one_of_many=True)
    before = {column.name: column for column in plan.columns}
    now = {column.name: column for column in columns}
    reported = "\n".join(lines)
    lines += [
        f"column {name!r} was {before[name].type} and is now {now[name].type}"
        for name in before
        if name in now and before[name].type != now[name].type and repr(name) not in reported
    ]
    lines += [
        f"key {name!r} was NOT NULL and is now nullable"
        for name in sorted(key_texts(plan))
        if name in now and name in before and now[name].nullable and not before[name].nullable
    ]
    if lines:
        raise changed_error(spec, run.run_id, lines)
    made_by_run = (
        target.creates_table(route.target_ref, loading.load_mode)
        or run.plan.load.table != route.target_ref
        or bool(changes_of(run.plan.load))
    )
    if route.map == "name" and loading.drift.lets_columns_differ:
        route = derived(route, columns=tuple(before))  # the target may have others
    if run.prepared_at is not None or not made_by_run:
        theirs = _loaded_columns(run, target)
        match_columns(route, columns, theirs, source, target, formats)


def _loaded_columns(run: RunRow, target: TargetCatalog) -> Sequence[Column]:
    """Return the columns of the table that a run loads.

    Raises:
        PlanningError: it does not exist.
    """
    table = run.plan.load.table
    try:
        return target.columns(table)
    except PlanningError:
        if not run.plan.load.loads_beside:
            raise
        raise PlanningError(
            f"target: {table}, which run {run.run_id} has begun to load, is gone: the next run "
            "that replaces the same table drops what stopped runs have left; start a new run"
        ) from None


def committed_partitions(run: RunRow, control: ControlStore) -> set[str]:
    """Return the ids of committed partitions that no later crash of the target has lost."""
    committed = set(control.commits.ids([run.run_id])[run.run_id])
    if committed and run.plan.load.volatile and not control.tables.is_intact(run.run_id):
        return set()
    return committed


@contextmanager
def unless_complete(run: RunRow, control: ControlStore) -> Iterator[None]:
    """Ignore errors in preparing the rest of a run if it turns out that nothing is left.

    Another execution may commit the last partition at the same time, release the snapshot, and swap
    the table that is examined here.

    Raises:
        PlanningError, SnapshotLost: from the body, if partitions are left.
    """
    try:
        yield
    except (PlanningError, SnapshotLost):
        if len(committed_partitions(run, control)) < len(run.plan.partitions):
            raise
