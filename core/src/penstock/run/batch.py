"""`copy_all`: many tables, one snapshot, one pool of streams."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from functools import cache

from penstock.backends.api.control import RunRow
from penstock.backends.api.facts import Siblings
from penstock.backends.api.source import HeldSnapshot, SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.errors import (
    Interrupted,
    LoadLost,
    PenstockError,
    PlanningError,
    RunFailed,
    RunFailedTransiently,
    SnapshotLost,
    TransientError,
    UsageError,
    is_cancellation,
)
from penstock.events import (
    BatchFinished,
    BatchStarted,
    BatchTable,
    Event,
    Finished,
    Warned,
)
from penstock.model.plans import Step
from penstock.model.snapshots import Snapshot
from penstock.model.tables import NotCopied, Relation, TableRef
from penstock.planning.build import build_plan
from penstock.planning.search_path import lacks_schema, with_any_schema, with_searched
from penstock.run.claims import enter
from penstock.run.connections import Connections, connect
from penstock.run.control_link import ControlLink
from penstock.run.execution import briefly
from penstock.run.final_steps import Finishing
from penstock.run.resume_checks import (
    check_same_shape,
    check_same_spec,
    committed_partitions,
    unless_complete,
)
from penstock.run.source_view import SourceView
from penstock.run.state import RunState, new_run_id
from penstock.spec.batch_spec import BatchSpec
from penstock.spec.copy_spec import CopySpec
from penstock.workers.process import Nursery
from penstock.workers.supervisor import Supervisor, Work, streams


@dataclass(slots=True)
class _Table:
    """A table of the batch, and how far it is."""

    spec: CopySpec
    run_id: str
    view: SourceView
    complete: bool = False
    """Every partition was committed before: the source is not read."""
    was_done: bool = False
    state: RunState | None = None
    error: PenstockError | None = None
    finished: Finished | None = None

    def told(self) -> BatchTable:
        error = self.error.as_json() if self.error else None
        ended = self.finished
        return BatchTable(
            table=self.spec.source_name,
            target_table=str(self.spec.target_ref),
            run_id=self.run_id,
            status=ended.status if ended else "failed" if self.error else "found",
            error=ended.error if ended else error,
            failures=ended.failures if ended else (),
            warnings=self.state.plan.warnings if self.state else (),
            not_copied=self.state.not_copied if self.state else (),
        )


class _SharedSnapshot:
    """One snapshot that many views hold: it is let go by the batch, not by them."""

    def __init__(self, held: HeldSnapshot) -> None:
        self._held = held
        self.snapshot: Snapshot = held.snapshot

    def alive(self) -> bool:
        return self._held.alive()

    def close(self) -> None:
        return None


def copy_all(batch: BatchSpec) -> Generator[Event, None, None]:
    """Copy many tables; yields the events of every table's run, the last is `BatchFinished`.

    Each table is a run of its own, named by the batch's run id and eight letters of its name. A
    batch with a `run_id` that exists goes on with it. Closing the iterator cancels the copy.

    Raises:
        UsageError: before anything is changed.
        RunFailed, RunFailedTransiently: after `BatchFinished`: some tables are not done.
    """
    ends = connect(batch.source, batch.target)
    for flag, backend in (("--source", ends.source_backend), ("--target", ends.target_backend)):
        if backend.located:
            raise UsageError(
                f"{flag}: copying many tables needs a database; this URL leads to files, which are "
                "one table: copy each table by itself, with a URL of its own"
            )
    nursery = ends.nursery()
    try:
        with (
            closing(ends.source_backend.source(ends.source_url)) as source,
            closing(ends.target_backend.target(ends.target_url, batch.control_schema)) as target,
            closing(ends.link(target, batch.control_schema)) as link,
            closing(_Batch(batch, ends, source, target, link, nursery)) as running,
        ):
            yield from running.run()
    finally:
        nursery.close()


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
        self._batch = batch
        self._ends = ends
        self._source = source
        self._target = target
        self._link = link
        self._nursery = nursery
        self._held: HeldSnapshot | None = None
        self._held_since = 0.0
        self._begun = time.monotonic()
        self._id = batch.run_id or new_run_id()
        self._degree = streams(batch.degree)
        self._tables: list[_Table] = []
        self._others: tuple[NotCopied, ...] = ()

    def close(self) -> None:
        for table in self._tables:
            table.view.close()
        if self._held is not None:
            self._held.close()

    def run(self) -> Iterator[Event]:
        self._find_tables()
        self._target.control.create()
        yield BatchStarted(
            run_id=self._id,
            tables=tuple(table.told() for table in self._tables),
            degree=self._degree,
        )
        try:
            self._stop_if_asked()
            self._take_snapshot()
            for table in self._working():
                yield from self._planned(table)
                self._stop_if_asked()
            # Its session is of no more use, and a server may have few.
            self._source.close()
            yield from self._prepare()
            self._stop_if_asked()
            yield from self._copy()
            yield from self._finish()
            yield from self._link_tables()
            yield from self._conclude()
        except BaseException as error:
            cancelled = is_cancellation(error)
            if isinstance(error, Interrupted):
                yield from self._cut_short("interrupted")
            elif isinstance(error, PenstockError):
                self._fail_all(error)
                yield from self._cut_short("failed")
            briefly(lambda: self._tell_end(cancelled=cancelled))
            raise
        yield self._finished()
        self._raise_failure()

    # Planning

    def _find_tables(self) -> None:
        specs = self._batch.specs(self._match_patterns(), self._with_schemas)
        if any(spec.load_mode.recreates for spec in specs):
            named = {spec.source_name for spec in specs}
            others = self._source.others(*self._patterns())
            self._others = tuple(item for item in others if item.name not in named)
        if specs:
            self._link.be(specs[0].patience)
        tables = {spec.relation for spec in specs}
        for asked in specs:
            missing: list[TableRef] = []
            spec = self._apart(asked, tables, missing)
            run_id = f"{self._id}-{_short(spec)}"
            run = self._target.control.load_run(run_id)
            view = self._view(spec, run_id, run)
            table = _Table(replace(spec, run_id=run_id), run_id, view)
            self._tables.append(table)
            if missing:
                self._fail(table, _torn_apart(spec, missing))
                continue
            if lacks_schema(spec):
                self._try(table, lambda spec=spec: self._find(spec))  # type: ignore[misc]
                continue
            if run is None:
                self._try(table, lambda view=view: view.look(self._source))  # type: ignore[misc]
                continue
            table.was_done = run.status == "done"
            table.complete = len(committed_partitions(run, self._target.control)) == len(
                run.plan.partitions
            )
            if not table.complete:
                # One that is gone would be missed by the snapshot of them all.
                self._try(table, lambda spec=spec: self._source.columns(spec.relation))  # type: ignore[misc]

    def _apart(
        self, spec: CopySpec, tables: Collection[Relation], missing: list[TableRef]
    ) -> CopySpec:
        """Without the rows of tables that inherit from it, where those are copied by themselves.

        Parameters:
            tables: all of the batch.
            missing: gets those that inherit from it and are not copied, where others are.
        """
        if spec.table is None or spec.descendants is not None or lacks_schema(spec):
            return spec
        heirs: tuple[TableRef, ...] = ()
        with suppress(PlanningError):  # said where it is planned
            heirs = self._source.heirs(spec.relation)
        if not any(heir in tables for heir in heirs):
            return spec
        missing += [heir for heir in heirs if heir not in tables]
        return replace(spec, descendants="exclude")

    def _view(self, spec: CopySpec, run_id: str, run: RunRow | None) -> SourceView:
        ends = self._ends
        return SourceView(spec, run_id, ends.source_url, ends.source_backend, run, hold=self._share)

    def _match_patterns(self) -> Sequence[TableRef]:
        """
        Raises:
            UsageError: a pattern matches nothing, or nothing is left of what they match.
        """
        asked, exclude = self._batch.tables, self._batch.exclude
        if not asked:
            return ()
        for pattern in asked:
            searched = with_searched((pattern,), self._source)
            if not searched or not self._source.tables(searched, ()):
                where = ""
                if "." not in pattern:
                    path = ", ".join(self._source.schemas()) or "empty"
                    where = f", whose search path is {path}"
                raise UsageError(f"--tables: {pattern!r} matches no table of the source{where}")
        found = self._source.tables(*self._patterns())
        if not found and not self._batch.entries:
            raise UsageError(
                f"--exclude: {', '.join(exclude)} leaves out every table that --tables "
                f"{', '.join(asked)} matches"
            )
        return found

    def _patterns(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What to copy, and what to leave out, each with a schema."""
        batch = self._batch
        return with_searched(batch.tables, self._source), with_any_schema(batch.exclude)

    def _with_schemas(self, spec: CopySpec) -> CopySpec:
        """As it is where there is no such table: that is why it cannot be copied."""
        if lacks_schema(spec):
            with suppress(PlanningError):
                return self._find(spec)
        return spec

    def _find(self, spec: CopySpec) -> CopySpec:
        """
        Raises:
            PlanningError: there is no such table.
        """
        found, _ = self._ends.with_schemas(spec, self._source, self._target)
        return found

    def _share(self) -> tuple[HeldSnapshot, float]:
        if self._held is None:
            relations = [t.spec.relation for t in self._working() if _shares(t)]
            self._held = self._ends.source_backend.hold_snapshot(self._ends.source_url, relations)
            self._held_since = time.monotonic()
        return _SharedSnapshot(self._held), self._held_since

    def _take_snapshot(self) -> None:
        """Before the first table is planned: all are planned with it."""
        if any(_shares(table) for table in self._working()):
            self._source.adopt(self._share()[0].snapshot)

    def _planned(self, table: _Table) -> list[Event]:
        events = self._events_of(table, lambda: self._plan(table))
        return [*events, *_warning(table)]

    def _plan(self, table: _Table) -> list[Event]:
        begun = time.monotonic()
        spec = table.spec
        formats = self._ends.formats
        control = self._target.control
        run = control.load_run(table.run_id)
        events: list[Event] = []
        if run is None:
            try:
                taken = table.view.take(self._source)
                plan = build_plan(
                    spec,
                    self._degree,
                    table.run_id,
                    self._source,
                    self._target,
                    formats,
                    siblings=self._siblings(),
                )
            except (PlanningError, TransientError):
                # Another execution that has made the run may be changing what was looked at.
                run = control.load_run(table.run_id)
                if run is None:
                    raise
            else:
                if control.create_run(
                    table.run_id, spec.stored(), plan, table.view.state, table.view.snapshot
                ):
                    events += taken
                else:
                    run = control.load_run(table.run_id)
        if run is not None:
            check_same_spec(spec, run)
            plan = run.plan
            done = committed_partitions(run, control)
            # Another execution may have made the run, or done it, since its table was found: its
            # plan and its snapshot are the run's, and not what was looked at here.
            table.was_done = run.status == "done"
            table.complete = len(done) == len(plan.partitions)
            table.view = self._view(spec, table.run_id, run)
            if not table.complete:
                enter(spec, table.run_id, plan, control)
                # A view of its own to look with: this run's rows were read with another snapshot.
                with (
                    unless_complete(run, control),
                    closing(self._ends.source_backend.source(self._ends.source_url)) as source,
                ):
                    check_same_shape(spec, run, source, self._target, formats)
                    events += table.view.recover(source, control, anything_committed=bool(done))
        table.state = RunState(
            spec=spec,
            run_id=table.run_id,
            plan=plan,
            partitions=plan.partitions,
            urls=(self._ends.source_url, self._ends.target_url),
            references=(self._ends.source_reference, self._ends.target_reference),
            link=self._link,
            view=table.view,
        )
        events.append(table.state.planned(self._degree, time.monotonic() - begun))
        return events

    # Copying

    def _prepare(self) -> Iterator[Event]:
        for table in self._working():
            yield from self._events_of(table, _state(table).prepare)
            yield from _warning(table)

    def _copy(self) -> Iterator[Event]:
        while works := _largest_first(
            (table, work) for table in self._working() for work in _state(table).works()
        ):
            tables = {table.run_id: table for table in self._working()}
            asked = max(1, min(self._degree, len(works)))
            supervisor = Supervisor(
                nursery=self._nursery,
                degree=asked,
                is_committed=self._link.is_committed,
                watch=self._watch,
                stop_all=self._batch.on_table_error == "stop",
            )
            try:
                for event in supervisor.run(works):
                    _state(tables[event.run_id]).add(event)
                    yield event
                self._tell_stopped(supervisor)
                return
            except SnapshotLost as error:
                yield from self._replace_views(error)
            except LoadLost as error:
                yield from self._load_again(error)
            finally:
                if supervisor.degree < asked:  # a server had no connection left
                    self._degree = supervisor.degree
                for table in tables.values():
                    _state(table).take_failures(supervisor)

    def _watch(self) -> Iterable[Event]:
        # They all hold the same snapshot.
        for table in self._working():
            if table.view.holds:
                return table.view.watch()
        return ()

    def _tell_stopped(self, supervisor: Supervisor) -> None:
        """A table that another one's failure has stopped has none of its own to show."""
        failed = {run_id for run_id, _ in supervisor.failures}
        if self._batch.on_table_error == "stop" and failed:
            for table in self._working():
                if table.run_id not in failed and _state(table).works():
                    self._fail(table, _stopped())

    def _replace_views(self, error: SnapshotLost) -> Iterator[Event]:
        """Each run that is not complete goes on without the snapshot as its policy says."""
        concerned = [t for t in self._working() if _shares(t) and _state(t).works()]
        held = self._held
        if held is not None and held.alive():
            # One that a run of before was read with, and somebody else held.
            others = [t for t in concerned if t.view.snapshot != held.snapshot]
            concerned = others or concerned
        for table in concerned:
            table.complete = False
            yield table.view.lost(error.message)
        if held is not None and not any(
            t.view.holds for t in self._working() if t not in concerned and _state(t).works()
        ):
            for table in self._tables:
                table.view.close()
            held.close()
            self._held = None
        for table in concerned:
            yield from self._events_of(table, _state(table).replace_view)

    def _load_again(self, error: LoadLost) -> Generator[Event, None, bool]:
        """Start over the runs whose tables a crash of the target has emptied; False if none."""
        lost = [table for table in self._working() if not _state(table).is_intact()]
        for table in lost:
            if table.complete:
                # The view it was read with is gone: `_plan` finds another.
                self._fail(table, error)
            else:
                yield from _state(table).load_again(error)
        return bool(lost)

    def _finish(self) -> Iterator[Event]:
        if (yield from self._load_again(LoadLost("a crash of the target has emptied the table"))):
            yield from self._copy()
        for table in self._working():
            yield from self._events_of(table, _state(table).verify)
        finishing = Finishing(
            self._due(),
            self._link.reconnect,
            degree=self._degree,
            attempts=max((table.spec.attempts for table in self._tables), default=1),
        )
        yield from finishing.run()
        yield from self._leave(finishing)
        lost = None
        for table in self._working():
            found = finishing.failures.get(table.run_id)
            if isinstance(found, LoadLost):
                lost = found
            elif found is not None:
                self._fail(table, found)
        if lost is not None and (yield from self._load_again(lost)):
            yield from self._copy()
            yield from self._finish()

    def _link_tables(self) -> Iterator[Event]:
        """What one table has to do with another: when each of them is done that can be."""
        links = {table.run_id: _state(table).links() for table in self._working()}
        finishing = Finishing(
            {run_id: asked for run_id, asked in links.items() if asked},
            self._link.reconnect,
            degree=self._degree,
            attempts=max((table.spec.attempts for table in self._tables), default=1),
        )
        yield from finishing.run()
        yield from self._leave(finishing)
        for table in self._working():
            if (error := finishing.failures.get(table.run_id)) is not None:
                self._fail(table, error)

    def _leave(self, finishing: Finishing) -> Iterator[Event]:
        for table in self._working():
            yield from _state(table).leave(finishing.left.get(table.run_id, ()))

    def _siblings(self) -> Siblings:
        # Those that cannot be made too: what is undone for their sake is restored at the end.
        specs = [table.spec for table in self._tables]
        return Siblings(
            {spec.table_ref: spec.target_ref for spec in specs if spec.table is not None},
            frozenset(spec.target_ref for spec in specs if spec.load_mode.recreates),
        )

    def _due(self) -> dict[str, list[Step]]:
        """By run, the steps that are to be done now, with what they take from the source."""
        due: dict[str, list[Step]] = {}
        with ExitStack() as stack:

            @cache
            def open_source() -> SourceCatalog:
                opened = self._ends.source_backend.source(self._ends.source_url)
                return stack.enter_context(closing(opened))

            for table in self._working():

                def ask(table: _Table = table) -> None:
                    if steps := _state(table).due(open_source):
                        due[table.run_id] = steps

                self._try(table, ask)
        return due

    # Ending

    def _conclude(self) -> Iterator[Event]:
        for table in self._tables:
            if table.state is not None:
                table.finished = table.state.conclude(self._degree)
                yield table.finished

    def _cut_short(self, status: str) -> Iterator[Event]:
        for table in self._tables:
            if table.state is not None and table.finished is None:
                ended = "done" if self._is_untouched(table) else status
                table.finished = table.state.finished(ended, self._degree)
                yield table.finished
        yield self._finished(status)

    def _is_untouched(self, table: _Table) -> bool:
        """Done before the batch began, and not begun anew by it."""
        return table.was_done and not table.view.started_over and table.error is None

    def _finished(self, status: str = "") -> BatchFinished:
        told = tuple(table.told() for table in self._tables)
        ends = [table.finished for table in self._tables if table.finished]
        return BatchFinished(
            run_id=self._id,
            status=status or ("done" if all(t.status == "done" for t in told) else "failed"),
            tables=told,
            rows=sum(end.rows for end in ends),
            bytes=sum(end.bytes for end in ends),
            seconds=round(time.monotonic() - self._begun, 3),
            not_copied=self._others,
        )

    def _tell_end(self, *, cancelled: bool) -> None:
        if cancelled:
            self._link.cancel()
        for table in self._tables:
            if table.state is not None:
                ended = "interrupted" if cancelled else "failed"
                table.state.set_status("done" if self._is_untouched(table) else ended)

    def _raise_failure(self) -> None:
        failed = [table for table in self._tables if table.told().status != "done"]
        if not failed:
            return
        message = f"batch {self._id}: {len(failed)} of {len(self._tables)} tables are not done"
        if all(_is_transient(table) for table in failed):
            raise RunFailedTransiently(message)
        raise RunFailed(message)

    def _working(self) -> list[_Table]:
        return [table for table in self._tables if table.error is None]

    def _events_of(self, table: _Table, call: Callable[[], Iterable[Event]]) -> list[Event]:
        """What a call yields until it ends or fails; the failure is the table's."""
        events: list[Event] = []
        self._try(table, lambda: events.extend(call()))
        return events

    def _try(self, table: _Table, call: Callable[[], object]) -> None:
        """What is wrong with one table is no reason to leave the others."""
        try:
            call()
        except Interrupted:
            raise
        except PenstockError as error:
            self._fail(table, error)

    def _fail(self, table: _Table, error: PenstockError) -> None:
        table.error = error
        if table.state is not None:
            table.state.failed(error)

    def _fail_all(self, error: PenstockError) -> None:
        """What ended the batch is why the tables are not done, or one of them was."""
        theirs = any(table.error is error for table in self._tables)
        for table in self._working():
            if not self._is_untouched(table):
                self._fail(table, _stopped() if theirs else error)

    def _stop_if_asked(self) -> None:
        if self._batch.on_table_error == "stop":
            for table in self._tables:
                if table.error is not None:
                    raise table.error


def _state(table: _Table) -> RunState:
    assert table.state is not None
    return table.state


def _warning(table: _Table) -> list[Event]:
    if table.error is None:
        return []
    message = f"{table.spec.source_name} cannot be copied: {table.error.message}"
    return [Warned(run_id=table.run_id, message=message)]


def _shares(table: _Table) -> bool:
    """Whether it needs the batch's snapshot."""
    return table.spec.snapshot == "shared" and not table.complete


def _stopped() -> RunFailedTransiently:
    return RunFailedTransiently("stopped because another table failed (--on-table-error stop)")


def _torn_apart(spec: CopySpec, missing: Sequence[TableRef]) -> PlanningError:
    return PlanningError(
        f"some of the tables that inherit from {spec.source_name} are copied by themselves, and "
        f"others are not: {', '.join(map(str, missing))}; expected all of them or none, or "
        "--descendants to say whether their rows come with it"
    )


def _short(spec: CopySpec) -> str:
    """Eight letters that stand for a table, in every run of the batch."""
    named = f"{spec.source_name if spec.table else spec.query} {spec.target_ref}"
    return hashlib.sha256(named.encode()).hexdigest()[:8]


def _largest_first(works: Iterable[tuple[_Table, Work]]) -> list[Work]:
    """Large partitions of large tables first, so that streams end together."""

    def weight(item: tuple[_Table, Work]) -> tuple[int, int]:
        table, work = item
        return -(work.partition.bytes or 0), -(_state(table).plan.bytes or 0)

    return [work for _, work in sorted(works, key=weight)]


def _is_transient(table: _Table) -> bool:
    if table.error is not None:
        return table.error.transient
    if table.finished is None:
        return True
    if table.finished.error is not None:
        return bool(table.finished.error.get("transient"))
    return all(failure.error.get("transient") for failure in table.finished.failures)
