"""`work`: take part in a run that any number of processes, on any machines, execute together."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

from penstock.backends.api.execution.control import ControlStore, RunRow
from penstock.backends.api.target import TargetCatalog
from penstock.engine.api import create
from penstock.engine.batch import copy_all, resume_all
from penstock.engine.connections import connect
from penstock.engine.planner import RunRequest
from penstock.engine.resume_checks import check_same_spec, stored_spec
from penstock.engine.single_run import SingleRun
from penstock.engine.stored_runs import load_run, missing_run_error, spec_of
from penstock.engine.value_display import isolate_generator_display
from penstock.errors import TooManyConnections, TransientError
from penstock.events import Event, Planned, Warned
from penstock.model import values
from penstock.planning.asking.search_path import with_stored_schemas
from penstock.spec.batch_spec import BatchSpec, batch_of
from penstock.spec.copy_spec import CopySpec
from penstock.spec.degrees import AUTO
from penstock.spec.ids import check_run_id
from penstock.spec.units import check_duration
from penstock.workers.process import PendingNursery
from penstock.workers.sharing import ROOM_PATIENCE, ROOM_PAUSE

# Seconds between two looks for a run that is still to be planned.
LOOK_EVERY = 1.0


@isolate_generator_display
def work(
    run_id: str,
    *,
    source: str,
    target: str,
    spec: CopySpec | BatchSpec | None = None,
    control_schema: str = "penstock",
    wait: float = 0.0,
    streams: int | str = AUTO,
    **overrides: Any,
) -> Generator[Event, None, None]:
    """Copy partitions of a run or batch as long as any are left; yields events as `copy` does.

    Any number of processes may work on one run, started in any order, on any machines. Each takes
    partitions that no other is copying, and goes on until every partition is committed; one of them
    compares both sides and does the final steps, while the others wait. All end once the run is
    done. If one is killed, the others copy what it was copying.

    Args:
        run_id: the id of the run, or of the batch.
        source: the source's connection, which is not stored with the run.
        target: the target's connection, which is not stored with the run.
        spec: the copy, or the batch, with which the run is planned if it does not exist; None if
            another process plans it. Must be the one that an existing run was planned with.
        control_schema: the schema of the control tables.
        wait: seconds to wait for a run that does not exist yet, without `spec`.
        streams: the number of concurrent streams of this process, as `CopySpec.degree`.
        overrides: options that say how to run, as in `resume`.

    Raises:
        UsageError: no such run or option.
        SpecMismatch: the run exists with other options.
        PlanningError: the run cannot be planned, or the shape of a side has changed since.
        SnapshotLost: the run's snapshot is lost, and `on_snapshot_lost` does not allow another.
        TransientError: the run did not exist in time.
        TooManyConnections: a server had no connection left for a long time.
        RunFailed, RunFailedTransiently: after `Finished`.
    """
    check_run_id(run_id)
    check_duration(wait, "work: wait")
    yield from _once_there_is_room(
        run_id,
        lambda: _take_part(run_id, source, target, spec, control_schema, wait, streams, overrides),
    )


def _once_there_is_room(
    run_id: str, attempt: Callable[[], Generator[Event, None, None]]
) -> Generator[Event, None, None]:
    """Yield from an attempt, and again if a server had no connection left for its beginning.

    The others have those connections, and the first of them that ends gives its own back.

    Raises:
        TooManyConnections: there was no room for a long time.
    """
    until, told = time.monotonic() + ROOM_PATIENCE, False
    while True:
        begun = False
        with closing(attempt()) as events:
            try:
                for event in events:
                    begun = begun or isinstance(event, Planned)
                    yield event
            except TooManyConnections as error:
                if begun or time.monotonic() > until:
                    raise
                message = f"{error.message}; waiting up to {ROOM_PATIENCE:g} s for a connection"
            else:
                return
        if not told:
            yield Warned(run_id=run_id, message=message)
            told = True
        time.sleep(ROOM_PAUSE * random.uniform(0.2, 1.0))


def _take_part(
    run_id: str,
    source: str,
    target: str,
    spec: CopySpec | BatchSpec | None,
    control_schema: str,
    wait: float,
    streams: int | str,
    overrides: Mapping[str, Any],
) -> Generator[Event, None, None]:
    if isinstance(spec, BatchSpec):
        batch = replace(spec, source=source, target=target, run_id=run_id, degree=streams)
        yield from copy_all(batch, shares=True)
        return
    if spec is not None:
        spec = replace(spec, source=source, target=target, run_id=run_id)
        control_schema = spec.control_schema
        values.choose(spec.show_values)
    ends = connect(source, target)
    with (
        closing(ends.snapshot_opener(ahead=False)) as snapshot_opener,
        closing(ends.open_target(control_schema)) as catalog,
        closing(PendingNursery(ends.nursery)) as nursery,
    ):
        if spec is None:
            run = _await_run(run_id, catalog, control_schema, wait)
        else:
            run = _find_planned(spec, run_id, catalog)
        if run is not None:
            options = {"degree": streams, **overrides}
            spec = stored_spec(run, source, target, control_schema, "work", options)
            values.choose(spec.show_values)
            ends = ends.with_planned_types(run.plan)
            snapshot_opener.url = ends.source_url
            single = SingleRun(
                ends, catalog, nursery, snapshot_opener, time.monotonic(), shares=True
            )
            yield from single.execute(spec, run_id, RunRequest(), run)
            return
    yield from resume_all(
        run_id,
        source=source,
        target=target,
        control_schema=control_schema,
        shares=True,
        degree=streams,
        **overrides,
    )


def _find_planned(spec: CopySpec, run_id: str, catalog: TargetCatalog) -> RunRow:
    """Return a run; plans it if no other process has.

    Raises:
        PlanningError: it cannot be planned.
        SpecMismatch: it exists with other options.
    """
    run = catalog.control.runs.find(run_id)
    if run is None:
        create(spec)
        return load_run(catalog, run_id, spec.control_schema)
    check_same_spec(with_stored_schemas(spec, run.spec), run)
    return run


def _await_run(
    run_id: str, catalog: TargetCatalog, control_schema: str, wait: float
) -> RunRow | None:
    """Return a run, once it exists; None for a batch of which some tables are planned.

    Raises:
        UsageError: it does not exist, and is not waited for.
        TransientError: it did not exist in time.
    """
    until = time.monotonic() + wait
    while True:
        run = catalog.control.runs.find(run_id)
        if run is not None or _is_batch(catalog.control, run_id):
            return run
        left = until - time.monotonic()
        if left <= 0:
            error = missing_run_error(run_id, control_schema)
            raise TransientError(f"waited {wait:g} s: {error.message}") if wait else error
        time.sleep(min(LOOK_EVERY, left))


def _is_batch(control: ControlStore, batch_id: str) -> bool:
    """Whether some tables of a batch have runs."""
    heads = [head for head in control.runs.heads() if head.run_id.startswith(f"{batch_id}-")]
    return any(
        batch_of(line.head.run_id, spec_of(line.head.run_id, line.spec)) == batch_id
        for line in control.runs.lines(heads)
    )
