"""`copy_all`: many tables, one snapshot, one pool of streams."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import fields, replace
from typing import Any

from penstock.backends.api.control import RunRow, reading_run
from penstock.backends.api.facts import Siblings
from penstock.backends.api.source import SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.errors import (
    Interrupted,
    PenstockError,
    PlanningError,
    RunFailed,
    RunFailedTransiently,
    TransientError,
    UsageError,
)
from penstock.events import BatchFinished, BatchStarted, BatchTable, Event
from penstock.model import values
from penstock.model.codec import to_json
from penstock.model.tables import NotCopied, Relation, TableRef
from penstock.planning.build import build_plan
from penstock.planning.search_path import lacks_schema
from penstock.run.batch_tables import BatchTables, partial_inheritance
from penstock.run.connections import Connections, connect
from penstock.run.continuation import Continuation
from penstock.run.control_link import ControlLink
from penstock.run.execution import Execution
from penstock.run.journals import journaled
from penstock.run.resume_checks import check_same_spec, committed_partitions, not_there
from penstock.run.showing import apart_throughout
from penstock.run.snapshot.loss_policy import OptionPolicy
from penstock.run.snapshot.shared import SharedSnapshot
from penstock.run.snapshot.source_view import SourceView
from penstock.run.state import RunState, new_run_id
from penstock.spec.batch_spec import BatchSpec, batch_of, run_id_of
from penstock.spec.copy_spec import CopySpec
from penstock.workers.degree import streams_of
from penstock.workers.process import Nursery


@apart_throughout
def copy_all(batch: BatchSpec) -> Generator[Event, None, None]:
    """Copy many tables; yields the events of every table's run, and last `BatchFinished`.

    Each table is a run of its own, named by the batch's run id and eight letters for the table.
    The `run_id` of an existing batch continues that batch. Closing the iterator cancels the copy.

    Raises:
        UsageError: before anything is changed.
        RunFailed, RunFailedTransiently: after `BatchFinished`: some tables are not done.
    """
    values.choose(batch.show_values)
    ends = connect(batch.source, batch.target)
    for flag, backend in (("--source", ends.source_backend), ("--target", ends.target_backend)):
        if backend.located:
            raise UsageError(
                f"{flag}: copying many tables needs a database; this URL leads to files, which are "
                "one table: copy each table by itself, with its own URL"
            )
    nursery = ends.nursery()
    try:
        with (
            closing(ends.open_source()) as source,
            closing(ends.open_target(batch.control_schema)) as target,
            closing(ends.link(target, batch.control_schema)) as link,
            closing(_Batch(batch, ends, source, target, link, nursery)) as running,
        ):
            yield from journaled(running.run(), link, ends.wait_kind)
    finally:
        nursery.close()


@apart_throughout
def resume_all(
    batch_id: str,
    *,
    source: str,
    target: str,
    control_schema: str = "penstock",
    **overrides: Any,
) -> Generator[Event, None, None]:
    """Continue a batch by its id: all tables whose runs were planned; yields events as `copy_all`.

    Parameters:
        overrides: options that say how to run, as of `resume`.

    Raises:
        UsageError: no such batch, or an option that cannot change.
        RunFailed, RunFailedTransiently: after `BatchFinished`: some tables are not done.
    """
    ends = connect(source, target)
    with closing(ends.open_target(control_schema)) as catalog:
        control = catalog.control
        heads = [head for head in control.heads() if head.run_id.startswith(f"{batch_id}-")]
        specs = []
        for line in control.lines(heads):
            with reading_run(line.head.run_id):
                spec = CopySpec.from_stored(line.spec, source, target)
            if batch_of(line.head.run_id, spec) == batch_id:
                specs.append(replace(spec, **overrides, control_schema=control_schema))
    if not specs:
        raise not_there(batch_id, control_schema)
    pool = {name: getattr(specs[0], name) for name in ("degree", "max_rate", "max_lag")}
    yield from copy_all(
        BatchSpec(
            source=source,
            target=target,
            entries=tuple(_entry(spec) for spec in specs),
            run_id=batch_id,
            control_schema=control_schema,
            show_values=specs[0].show_values,
            origin=f"batch {batch_id}",
            **pool,
        )
    )


def _entry(spec: CopySpec) -> dict[str, Any]:
    """What a section of a batch says of a table."""
    return {
        item.name: value
        for item in fields(spec)
        if item.name not in _OF_WHOLE_BATCH
        and (value := to_json(getattr(spec, item.name))) != item.default
    }


_OF_WHOLE_BATCH = (
    *("source", "target", "run_id", "control_schema"),
    *("degree", "max_rate", "max_lag", "show_values"),
)


class _Batch:
    def __init__(
        self,
        batch: BatchSpec,
        ends: Connections,
        source: SourceCatalog,
        target: TargetCatalog,
        link: ControlLink,
        nursery: Nursery,
    ) -> None:
        self._ends = ends
        self._source = source
        self._target = target
        self._link = link
        self._begun = time.monotonic()
        self._id = batch.run_id or new_run_id()
        self._streams = streams_of(batch.degree)
        self._batch_tables = BatchTables(batch, ends, source, target)
        self._runs: list[RunState] = []
        self._not_copied: tuple[NotCopied, ...] = ()
        self._snapshot = SharedSnapshot(ends, self._read_with_snapshot)
        self._execution = Execution(
            self._runs,
            ends=ends,
            streams=self._streams,
            nursery=nursery,
            link=link,
            max_rate=batch.max_rate,
            max_lag=batch.max_lag,
            batch=True,
            stop_all=batch.on_table_error == "stop",
        )

    def close(self) -> None:
        for run in self._runs:
            run.view.close()
        self._snapshot.close()

    def run(self) -> Generator[Event, None, None]:
        self._find_tables()
        if self._execution.working():
            self._target.control.create()
        yield BatchStarted(
            run_id=self._id,
            tables=tuple(map(_batch_table, self._runs)),
            degree=self._streams.usual,
            automatic=self._streams.automatic,
        )
        try:
            yield from self._execution.run(self._plan_all)
        except PenstockError as error:
            yield self._finished("interrupted" if isinstance(error, Interrupted) else "failed")
            raise
        yield self._finished()
        self._raise_failure()

    # Planning

    def _find_tables(self) -> None:
        specs = self._batch_tables.specs()
        self._not_copied = self._batch_tables.not_copied(specs)
        if specs:
            self._link.set_patience(specs[0].patience)
        tables = {spec.relation for spec in specs}
        for asked in specs:
            missing: list[TableRef] = []
            spec = self._batch_tables.without_copied_heirs(asked, tables, missing)
            run_id = run_id_of(self._id, spec)
            stored = self._target.control.load_run(run_id)
            run = RunState(
                replace(spec, run_id=run_id),
                run_id,
                ends=self._ends,
                link=self._link,
                view=self._view(spec, run_id, stored),
            )
            self._runs.append(run)
            try:
                if missing:
                    raise partial_inheritance(spec, missing)
                self._check_table(run, stored)
            except Interrupted:
                raise
            except PenstockError as error:
                run.fail(error)
        errors = [run.error for run in self._runs]
        if errors and errors[0] and all(isinstance(error, UsageError) for error in errors):
            # What was asked for suits none of them.
            raise errors[0]

    def _check_table(self, run: RunState, stored: RunRow | None) -> None:
        """
        Raises:
            UsageError: an end cannot do what is asked for.
            PlanningError: there is no such table.
        """
        if stored is None:
            self._ends.check_supported(run.spec)
        if lacks_schema(run.spec):
            self._batch_tables.find(run.spec)
        elif stored is None:
            run.view.note_state(self._source)
        else:
            run.was_done = stored.status == "done"
            committed = committed_partitions(stored, self._target.control)
            run.complete = len(committed) == len(stored.plan.partitions)
            if not run.complete:
                # A dropped table must not fail the snapshot that all tables share.
                self._source.columns(run.spec.relation)

    def _view(self, spec: CopySpec, run_id: str, stored: RunRow | None) -> SourceView:
        ends = self._ends
        return SourceView(
            spec,
            run_id,
            ends.source_url,
            ends.source_backend,
            OptionPolicy(),
            stored,
            hold=self._snapshot.share,
        )

    def _read_with_snapshot(self) -> list[Relation]:
        return [run.spec.relation for run in self._execution.working() if run.reads_snapshot]

    def _plan_all(self) -> Iterator[Event]:
        self._execution.stop_if_asked()
        # Before the first table is planned: all are planned with this snapshot.
        share = self._snapshot.share()[0] if self._read_with_snapshot() else None
        if share is not None:
            self._source.adopt(share.snapshot)
        for run in self._execution.working():
            yield from self._execution.attempt(run, lambda run=run: self._plan(run))  # type: ignore[misc]
            if run.error is not None:
                run.view.close()
            self._execution.stop_if_asked()
        # Its session is no longer needed, and a server may have few.
        self._source.close()
        if share is not None:
            share.close()

    def _plan(self, run: RunState) -> Iterator[Event]:
        begun = time.monotonic()
        control = self._target.control
        stored = control.load_run(run.run_id)
        if stored is None:
            stored = yield from self._plan_anew(run)
        if stored is not None:
            yield from self._continue_run(run, stored)
        yield run.planned(self._streams, time.monotonic() - begun)

    def _plan_anew(self, run: RunState) -> Generator[Event, None, RunRow | None]:
        """Returns the stored run if somebody else has created it meanwhile."""
        control = self._target.control
        try:
            taken = run.view.take(self._source)
            plan = build_plan(
                run.spec,
                self._streams,
                run.run_id,
                self._source,
                self._target,
                self._ends.capabilities,
                siblings=self._siblings(),
            )
        except (PlanningError, TransientError):
            # Another execution may have created the run, and be changing these tables.
            stored = control.load_run(run.run_id)
            if stored is None:
                raise
            return stored
        view = run.view
        if control.create_run(run.run_id, run.spec.stored(), plan, view.state, view.snapshot):
            run.begin(plan)
            yield from taken
            return None
        return control.load_run(run.run_id)

    def _continue_run(self, run: RunState, stored: RunRow) -> Iterator[Event]:
        check_same_spec(run.spec, stored)
        continuation = Continuation(run.spec, stored, stored.plan.partitions, self._target.control)
        # Another execution may have created the run, or finished it, since its table was found:
        # the run's plan and snapshot count, and not what was found here.
        run.was_done = stored.status == "done"
        run.complete = continuation.complete
        run.view.close()
        run.view = self._view(run.spec, run.run_id, stored)
        if not run.complete:
            yield from continuation.find_view(run.view, self._ends, self._target)
        run.begin(stored.plan)

    def _siblings(self) -> Siblings:
        # Even those that cannot be copied: what is dropped for their sake is restored at the end.
        specs = [run.spec for run in self._runs]
        return Siblings(
            {spec.table_ref: spec.target_ref for spec in specs if spec.table is not None},
            frozenset(spec.target_ref for spec in specs if spec.load_mode.recreates),
        )

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
            seconds=round(time.monotonic() - self._begun, 3),
            not_copied=self._not_copied,
        )

    def _raise_failure(self) -> None:
        failed = [run for run in self._runs if _batch_table(run).status != "done"]
        if not failed:
            return
        message = f"batch {self._id}: {len(failed)} of {len(self._runs)} tables are not done"
        if all(map(_is_transient, failed)):
            raise RunFailedTransiently(message)
        raise RunFailed(message)


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
    )


def _is_transient(run: RunState) -> bool:
    if run.error is not None:
        return run.error.transient
    if run.ended is None:
        return True
    if run.ended.error is not None:
        return bool(run.ended.error.get("transient"))
    return all(failure.error.get("transient") for failure in run.ended.failures)
