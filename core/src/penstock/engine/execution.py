"""One execution of a run or a batch of runs: prepare, copy, replace what is lost, finish."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain, takewhile

from penstock.backends.api.optional.bulk_catalogs import describing
from penstock.backends.api.source import SourceCatalog
from penstock.engine.batched_steps import BatchedSteps
from penstock.engine.connections import Connections
from penstock.engine.control_link import ControlLink
from penstock.engine.deleted_rows import find_deleted
from penstock.engine.failures import Failures, stopped_error
from penstock.engine.final_steps import FinalSteps
from penstock.engine.others import Others
from penstock.engine.preparation import follow, prepare
from penstock.engine.pulses import Pulses
from penstock.engine.row_counts import RowCounts
from penstock.engine.run_status import links_due, load_records, marks_of, set_statuses, steps_due
from penstock.engine.shared_end import SharedEnd
from penstock.engine.state import SMALL, RunState
from penstock.engine.windows import windows
from penstock.errors import (
    Interrupted,
    LoadLost,
    Overtaken,
    PenstockError,
    SnapshotLost,
    TransientError,
    is_cancellation,
)
from penstock.events import CONNECTIONS, DegreeChanged, Event, Warned
from penstock.model.journal import losses_of, new_execution_id
from penstock.model.plans import GONE_STEP, MERGE_STEP, Step
from penstock.spec.degrees import Streams
from penstock.spec.modes import Ending
from penstock.workers.interruptions import cause_of, raise_again
from penstock.workers.process import Nursery, PendingNursery
from penstock.workers.sharing import Sharing
from penstock.workers.steering import Senses, Steering
from penstock.workers.supervisor import Supervisor, Work
from penstock.workers.throttle import LagBrake

# Seconds. A cancellation does not wait for a server that does not answer.
BRIEFLY = 2.0
# Seconds that executions which share a run leave to the one that has counted its rows.
COUNTED_FIRST = 0.5
# Seconds before each check whether another execution restarted a run whose attempts have ended.
SUPERSEDED_AFTER = (0.0, 0.5, 1.5)


class Execution:
    """An execution of runs: it copies the partitions that are not committed.

    Args:
        runs: the runs; more may be added until `run` starts.
        ends: the connections.
        streams: the numbers of streams.
        nursery: starts the workers; not started itself if every partition is committed.
        link: the link to the target's control store.
        max_rate: the combined rate of all streams, in bytes per second; None for no limit.
        max_lag: the replication lag of the source above which streams stop, in seconds; None for no
            limit.
        failures: what the error of a run does to the others.
        shares: whether other executions take partitions of the runs, too.
    """

    def __init__(
        self,
        runs: Sequence[RunState],
        *,
        ends: Connections,
        streams: Streams,
        nursery: PendingNursery,
        link: ControlLink,
        max_rate: int | None = None,
        max_lag: float | None = None,
        failures: Failures,
        shares: bool = False,
    ) -> None:
        self.id = new_execution_id()
        """A unique name, which sorts by time."""
        self._runs = runs
        self.shares = shares
        self._window: Sequence[RunState] | None = None
        """The runs that are being executed; None before the first window."""
        self._linking: list[RunState] = []
        """Runs of earlier windows whose tables are linked to others at the end."""
        self._cut_off: list[RunState] = []
        """Runs that were reported before their end."""
        self.ends = ends
        self.streams = streams
        self._streams = streams
        """Fewer, if a server had no connection left."""
        self._used = streams.usual
        """The actual number of streams: no more than partitions."""
        self._max_rate = max_rate
        self._max_lag = max_lag
        self._brake: LagBrake | None = None
        self._steering: Steering | None = None
        self._samples = True
        """Whether the servers are asked what their sessions wait for."""
        self.nursery = nursery
        self.link = link
        self._failures = failures
        self._counts = RowCounts(())
        self.others = Others(link, self.id, self._table_of)
        """Tells whom this execution waits for."""
        self._records_known = False
        """Whether the commit records have just been read."""

    def run(
        self, plan: Callable[[Sequence[RunState]], Iterable[Event]]
    ) -> Generator[Event, None, None]:
        """Execute the runs, one window after another; the last event of each run is `Finished`.

        Args:
            plan: plans the runs of a window.

        Raises:
            PenstockError: the error that ended the whole execution, not just one run of a batch.
        """
        prepared = False
        try:
            for window in windows(self.working_runs()):
                self._window = window
                yield from plan(window)
                self._look_at_lag()
                yield from self._prepare()
                prepared = True
                self.stop_if_requested()
                self._counts = RowCounts(self._counted_runs())
                yield from self._copy()
                yield from self._finish_window()
                yield from self._leave_window()
            self._window, self._linking = self._linking, []
            yield from self._link_in_turn()
            yield from self._conclude(self._window)
        except BaseException as found:
            error = self._explain_error(found)
            # However this ended, the target should know, if it can be reached.
            if isinstance(error, PenstockError) and (prepared or self._failures.reports_unprepared):
                yield from self._end_early(error)
            cancelled = is_cancellation(error)
            briefly(lambda: self._note_end(cancelled=cancelled))
            if error is not found:
                raise error from found
            raise
        finally:
            self._counts.close()

    def _counted_runs(self) -> Sequence[RunState]:
        """Return the runs whose rows this execution counts: of several, one does."""
        runs = self.working_runs()
        if not self.shares:
            return runs
        # Not the turn to finish a run: a process that is stopped would keep it.
        names = {f"{run.run_id}:count": run for run in runs}
        turns = self.link.call(lambda control: control.presence.take_turns(list(names)))
        # Fifty that ask the servers every second would be a load of their own.
        self._samples = bool(turns)
        return [run for name, run in names.items() if name in turns]

    def _explain_error(self, error: BaseException) -> BaseException:
        error = cause_of(error)
        if not isinstance(error, PenstockError):
            return error
        return self._failures.cause(self.working_runs(), error)

    @property
    def window(self) -> Sequence[RunState]:
        """The runs that are being executed."""
        return self._window or ()

    def working_runs(self) -> list[RunState]:
        """Return the runs that have not ended: those of the window, once there is one."""
        runs = self._runs if self._window is None else self._window
        return [run for run in runs if run.error is None]

    def _leave_window(self) -> Iterator[Event]:
        """Release the runs that have ended, unless their tables are linked to others later."""
        self._counts.close()
        begun = [run for run in self.window if run.has_begun]
        linking = [run for run in begun if self._is_linked_later(run)]
        ended = [run for run in begun if run not in linking]
        if self.shares:
            # Before the batch's end, so that no other execution calls them done.
            set_statuses({run: "failed" for run in linking if run.is_mismatched}, self.link)
        yield from self._conclude([run for run in ended if run.ended is None])
        self._linking += linking
        self._failures.leave(self.window, ended, self.link)

    def attempt(self, run: RunState, call: Callable[[], Iterable[Event]]) -> Iterator[Event]:
        """Yield from a call until it ends or fails, before the run's first partition."""
        yield from self._events_of(run, call)
        if run.error is not None:
            yield _cannot_be_copied(run)

    def _prepare(self) -> Iterator[Event]:
        failed = yield from prepare(self.working_runs(), self.link)
        self._records_known = True
        yield from self._note_failures(failed, _cannot_be_copied)

    def _note_failures(
        self,
        failed: Mapping[str, PenstockError],
        event_of: Callable[[RunState], Event] | None = None,
    ) -> Iterator[Event]:
        for run in self.working_runs():
            if error := failed.get(run.run_id):
                self._failures.keep(run, error)
                if event_of is not None:
                    yield event_of(run)

    def stop_if_requested(self) -> None:
        """Stop if the failure of a run stops the others, or something swallowed an interruption.

        Raises:
            PenstockError: the reason why the run failed.
            Interrupted: as the signal had it.
        """
        raise_again()
        self._failures.stop_if_failed(self._runs)

    def _look_at_lag(self) -> None:
        """Check, before anything is changed, that the source's lag is visible, and read it.

        Raises:
            PlanningError: the source has no concept of lag, or this user may not see it.
        """
        if self._max_lag is None or not self.nursery.is_started:
            return
        with contextlib.closing(self.ends.lag_gauge()) as gauge:
            self._brake = LagBrake(self._max_lag, gauge.subject, gauge.hint)
            self._brake.see(gauge.lag())

    # Partitions

    def _steer(self, senses: Senses, partitions: int) -> Steering | None:
        """Return the controls of the streams; None if their number and rate stay fixed."""
        automatic = self._streams.automatic
        if not automatic and self._max_rate is None and self._brake is None:
            return None
        now = time.monotonic()
        streams = self._streams.limited(partitions)
        if self._steering is None or self._steering.streams != streams:
            self._steering = Steering(streams, self._max_rate, self._brake, now)
        self._steering.attach(senses, now)
        return self._steering

    def _workers_from(self, works: Sequence[Work]) -> Nursery:
        """Return the workers for the remaining partitions.

        Raises:
            TransientError: every partition was committed at the start, and none was lost since.
        """
        if not self.nursery.is_started and not any(
            run.view.started_over for run in self.working_runs()
        ):
            raise TransientError(
                f"another process has just restarted run {works[0].spec.run_id}; try again"
            )
        return self.nursery.start()

    def _copy(self) -> Iterator[Event]:
        while works := self._works():
            nursery = self._workers_from(works)
            runs = {run.run_id: run for run in self.working_runs()}
            lag_gauge = self.ends.lag_gauge if self._brake else None
            samples = self.ends.pulses() if self._samples else {}
            pulses = Pulses(samples, list(runs), lag_gauge)
            requested = max(1, min(self._streams.most, len(works)))
            steering = self._steer(pulses, requested)
            supervisor = Supervisor(
                nursery=nursery,
                degree=requested,
                is_committed=self.link.is_committed,
                watch=lambda pulses=pulses: chain(self._watch(), pulses.events()),  # type: ignore[misc]
                stop_all=self._failures.stop_all,
                steering=steering,
                sharing=self._sharing() if self.shares else None,
            )
            try:
                for event in supervisor.run(works):
                    if isinstance(event, DegreeChanged) and event.cause == CONNECTIONS:
                        pulses.stop()
                    runs[event.run_id].add(event)
                    yield event
                if self.shares:
                    load_records(self.working_runs(), self.link)
                self._fail_stopped(supervisor)
                superseded = self._superseded_runs(list(runs.values()), supervisor)
                if not superseded:
                    return
                for run in superseded:
                    yield from self._events_of(run, partial(follow, run, self.link))
            except SnapshotLost as error:
                yield from self._replace_views(error)
            except LoadLost as error:
                yield from self._load_again(error, self._losers())
            finally:
                pulses.close()
                self._used = supervisor.degree
                if supervisor.degree < requested:  # a server had no connection left
                    self._streams = self._streams.limited(supervisor.degree)
                if steering is not None:
                    self._used = min(self._used, steering.unrestrained)
                for run in runs.values():
                    run.take_failures(supervisor)

    def _sharing(self) -> Sharing:
        return Sharing(self._committed, self._losses, self.others.copy)

    def _table_of(self, run_id: str) -> str:
        """Return the name of a run's table in a batch."""
        if not self.link.batch_id:
            return ""
        return next((r.spec.source_name for r in self.window if r.run_id == run_id), "")

    def _losses(self) -> Mapping[tuple[str, str], float]:
        """Return how often a process or worker was lost at a partition, in other executions."""
        names = [run.run_id for run in self.working_runs()]
        journals = self.link.call(lambda control: control.journals.of(names))
        return {
            (run_id, partition_id): count
            for run_id in names
            for partition_id, count in losses_of(journals[run_id], self.id).items()
        }

    def _committed(self) -> set[tuple[str, str]]:
        """Return the committed partitions, each with its run."""
        names = [run.run_id for run in self.working_runs()]
        ids = self.link.call(lambda control: control.commits.ids(names))
        return {(run_id, partition_id) for run_id in names for partition_id in ids[run_id]}

    @staticmethod
    def _superseded_runs(runs: Sequence[RunState], supervisor: Supervisor) -> list[RunState]:
        """Return the runs that another process has restarted, which is why attempts have failed."""
        transient = any(failure.error["transient"] for failure in supervisor.failures.values())
        # Restarting a run ends its attempts first, so the restart may show a moment later.
        for pause in SUPERSEDED_AFTER if transient else ():
            time.sleep(pause)
            if superseded := [run for run in runs if run.is_superseded()]:
                return superseded
        return []

    def _works(self) -> list[Work]:
        """Return the remaining partitions: of one run in the order of its plan, of many by size."""
        if not self._records_known:
            load_records(self.working_runs(), self.link)
        self._records_known = False
        works = [(run, work) for run in self.working_runs() for work in run.works()]
        many = len({run.run_id for run, _ in works}) > 1
        if not many:
            return [work for _, work in works]
        return _largest_first([(run, run.joined(work)) for run, work in works])

    def _watch(self) -> Iterable[Event]:
        raise_again()
        # All runs that hold a snapshot hold the same one.
        for run in self.window:
            if run.error is None and run.view.handle.holds:
                return run.view.handle.watch()
        return ()

    def _fail_stopped(self, supervisor: Supervisor) -> None:
        """Record an error for each run that was stopped because another run failed."""
        failed = {run_id for run_id, _ in supervisor.failures}
        for run in self._failures.stopped(self.working_runs(), failed):
            run.fail(stopped_error())

    def _replace_views(self, error: SnapshotLost) -> Iterator[Event]:
        """Let the policy of each incomplete run decide how it continues without the snapshot."""
        # The holder may have released it because another execution has committed the rest.
        load_records(self.working_runs(), self.link)
        reading = [run for run in self.working_runs() if run.reads_snapshot and run.works()]
        # A snapshot that an earlier execution's run adopted from another holder is lost alone.
        lost = [run for run in reading if not run.view.handle.holds_alive()] or reading
        yield from self._find_views(lost, error, all_lost=0 < len(lost) == len(reading))

    def _find_views(
        self, runs: Sequence[RunState], error: SnapshotLost, *, all_lost: bool
    ) -> Iterator[Event]:
        """Find a view for each run.

        Tables that are merged together are read as of one moment: if one gets another view, all do.

        Args:
            runs: the runs whose snapshot is lost.
            error: the error that reports the loss.
            all_lost: whether all runs have lost their snapshot.
        """
        if any(run.spec.atomic == "batch" for run in runs):
            atomic_runs = [run for run in self.working_runs() if run.spec.atomic == "batch"]
            runs = [
                *runs,
                *(r for r in atomic_runs if r not in runs and not r.view.handle.holds_alive()),
            ]
        for run in runs:
            run.complete = False
            yield run.view.lost_event(error.message)
        if all_lost:
            for run in self.window:
                run.view.close()
        for run in runs:
            yield from self._events_of(run, run.replace_view)

    def _find_deleted(self) -> Generator[Event, None, bool]:
        """Have each run look for rows that its source no longer has.

        Returns: whether the view of some runs was replaced, so that their rows must be read again.
        """
        errors = yield from find_deleted(self.working_runs(), self.link)
        losses: dict[RunState, SnapshotLost] = {}
        for run in self.working_runs():
            with self._recording_failure(run):
                error = errors.get(run)
                if isinstance(error, SnapshotLost) and run.spec.loss_policy != "fail":
                    losses[run] = error
                elif error is not None:
                    raise error
                elif len(self._runs) == 1 and run.spec.deletion.is_enabled and run.all_committed:
                    run.release_if_read()
        if losses:
            yield from self._find_views(list(losses), next(iter(losses.values())), all_lost=False)
        return bool(losses)

    def _emptied_runs(self) -> list[RunState]:
        """Return the runs whose tables a crash of the target has emptied."""
        return [run for run in self.working_runs() if not run.is_intact()]

    def _losers(self) -> list[RunState]:
        """Return the runs that a crash of the target concerns."""
        return self._emptied_runs() or self._failures.losers(self.working_runs())

    def _load_again(self, error: LoadLost, runs: Sequence[RunState]) -> Iterator[Event]:
        for run in runs:
            if self._failures.loads_again(run):
                yield from run.load_again(error)
            else:
                run.fail(error)

    # After the last partition

    def _finish_window(self) -> Iterator[Event]:
        if not self.shares:
            yield from self._finish()
            return
        ready = [run for run in self.working_runs() if run.all_committed and not run.was_done]
        end = SharedEnd(
            self.link,
            lambda: iter(self._watch()),
            lambda runs: self._as_window(runs, self._finish_and_conclude),
            lambda runs: self._as_window(runs, self._copy),
            self.others,
        )
        if ready and not self._samples:
            time.sleep(COUNTED_FIRST)
        yield from end.finish(ready)

    def _finish_and_conclude(self) -> Iterator[Event]:
        """Finish runs and store that at once: other executions wait for it, perhaps with theirs."""
        yield from self._finish()
        yield from self._conclude([run for run in self.window if not self._is_linked_later(run)])

    def _is_linked_later(self, run: RunState) -> bool:
        return self._failures.links_tables and bool(run.planned_links())

    def _as_window(
        self, runs: Sequence[RunState], call: Callable[[], Iterable[Event]]
    ) -> Iterator[Event]:
        """Do something with some of the window's runs."""
        window, self._window = self._window, runs
        try:
            yield from call()
        finally:
            self._window = window

    def _finish(self) -> Iterator[Event]:
        if not all(run.finishes for run in self.window):
            return
        if emptied := self._emptied_runs():
            error = LoadLost("the target crashed, which emptied the table")
            yield from self._load_again(error, emptied)
            yield from self._copy()
        if (yield from self._find_deleted()):
            yield from self._copy()
            yield from self._finish()
            return
        for run in self.working_runs():
            yield from self._events_of(run, partial(run.verify, self._counts.of))
        if not any(run.has_begun and run.plan.load.volatile for run in self.working_runs()):
            # Indexes may take hours, and nothing more is read.
            for run in self.working_runs():
                run.view.close()
        due = self._steps_due()
        failures = yield from self._do_steps(due)
        load_lost = None
        merged = []
        for run in self.working_runs():
            failure = failures.get(run.run_id)
            if isinstance(failure, LoadLost):
                load_lost = failure
            elif failure is not None:
                run.fail(failure)
            elif _ends_night(due.get(run.run_id, ())):
                merged.append(run)
        yield from self._report_merged(merged)
        if load_lost is not None and (emptied := self._losers()):
            yield from self._load_again(load_lost, emptied)
            yield from self._copy()
            yield from self._finish()

    def _steps_due(self) -> dict[str, list[Step]]:
        """Return the steps that are due, by run, with what they need from the source."""
        due: dict[str, list[Step]] = {}
        with contextlib.ExitStack() as stack:

            @cache
            def open_source() -> SourceCatalog:
                source = stack.enter_context(contextlib.closing(self.window[0].view.open()))
                tables = [run.spec.relation for run in self.working_runs()]
                stack.enter_context(describing(source, tables))
                return source

            planned = steps_due(self.working_runs(), self.link)
            for run in self.working_runs():
                with self._recording_failure(run):
                    due[run.run_id] = run.with_positions(planned[run.run_id], open_source)
        return due

    def _link_in_turn(self) -> Iterator[Event]:
        """Link tables, or wait until another execution that has its turn has done so."""
        if self.shares and self.working_runs():
            watch, nothing = (lambda: iter(self._watch())), self._nothing
            end = SharedEnd(self.link, watch, nothing, nothing, self.others)
            if not (yield from end.await_links(self.working_runs())):
                return
        yield from self._link_tables()

    @staticmethod
    def _nothing(runs: Sequence[RunState]) -> Iterator[Event]:
        """All partitions of earlier windows are committed, and their ends are done."""
        return iter(())

    def _link_tables(self) -> Iterator[Event]:
        """Link tables to each other, once every table that can be done is done."""
        if not self.working_runs():
            return
        load_records(self.working_runs(), self.link)
        due = links_due(self.working_runs(), self.link)
        merging = [
            r for r in self.working_runs() if any(s.id == MERGE_STEP for s in due.get(r.run_id, ()))
        ]
        if merging and not (yield from self._merge_together(merging)):
            return
        if merging:
            due = self._with_positions(links_due(self.working_runs(), self.link))
        failures = yield from self._do_steps(due, one_by_one=True)
        for run in self.working_runs():
            if (error := failures.get(run.run_id)) is not None:
                run.fail(error)

    def _with_positions(self, due: Mapping[str, Sequence[Step]]) -> dict[str, list[Step]]:
        with contextlib.ExitStack() as stack:

            @cache
            def open_source() -> SourceCatalog:
                return stack.enter_context(contextlib.closing(self.window[0].view.open()))

            return {
                run.run_id: run.with_positions(list(due[run.run_id]), open_source)
                for run in self.working_runs()
                if run.run_id in due
            }

    def _merge_together(self, runs: Sequence[RunState]) -> Generator[Event, None, bool]:
        """Merge the rows of all tables in one transaction; return False if none is merged."""
        failed = [run for run in self._runs if run.error is not None or not run.all_committed]
        error: PenstockError | None = None
        if failed:
            error = TransientError(
                f"nothing was merged, because {failed[0].spec.source_name} failed, and --atomic "
                "batch merges all tables or none"
            )
        attempts, ids = runs[0].spec.attempts, sorted(run.run_id for run in runs)
        while error is None and attempts:
            attempts -= 1
            try:
                self.link.call(lambda control: control.nights.merge(ids))
            except PenstockError as found:
                if (
                    not found.transient
                    or isinstance(found, Interrupted | Overtaken)
                    or not attempts
                ):
                    error = found
            else:
                break
        if error is None:
            yield from self._report_merged(runs)
        else:
            for run in runs:
                run.fail(error)
        return error is None

    def _report_merged(self, runs: Sequence[RunState]) -> Iterator[Event]:
        """Report the result of merging, and drop the stages of nights that were overtaken."""
        if not runs:
            return
        load_records(runs, self.link)
        marks = marks_of(runs, self.link)
        try:
            self.link.call(
                lambda control: control.nights.drop_overtaken([run.run_id for run in runs])
            )
        except Interrupted:
            raise
        except PenstockError:
            pass  # the night after the next drops what stays
        for run in runs:
            # A load of all rows sets its watermark in a step.
            if run.spec.load_mode.ending is Ending.MERGE:
                yield run.merged_event(marks.get(run))

    def _do_steps(
        self, steps: Mapping[str, Sequence[Step]], *, one_by_one: bool = False
    ) -> Generator[Event, None, Mapping[str, PenstockError]]:
        """Do steps of runs.

        Args:
            steps: the steps to do, by run.
            one_by_one: whether each step locks the tables of several runs.

        Returns: the errors that ended runs, by run.
        """
        joined = {
            run.run_id: sorted(steps[run.run_id], key=lambda step: step.rank)
            for run in self.working_runs()
            if run.is_small and run.run_id in steps
        }
        if len(joined) < 2:
            joined = {}
        total = sum(run.plan.bytes or 0 for run in self.working_runs() if run.run_id in joined)
        # Steps that take almost no time need no connections of their own.
        separately = one_by_one or total <= SMALL
        # Those that lock others out, and what follows them, are done one by one.
        early = {
            run_id: list(takewhile(_can_wait, run_steps)) for run_id, run_steps in joined.items()
        }
        together = BatchedSteps(
            {run_id: run_steps for run_id, run_steps in early.items() if run_steps},
            self.link.reconnect,
            degree=1 if separately else self._streams.usual,
            catalog=self.link.catalog,
        )
        yield from together.run()
        left = _left(steps, early, together.done)
        exchanges = {
            run_id: left[run_id]
            for run_id, earlier in early.items()
            # What could not be done before the exchange is done, and reported, alone.
            if (run_id in together.done or not earlier)
            and left[run_id]
            and all(map(_can_exchange, left[run_id]))
        }
        if len(exchanges) > 1:
            exchanging = BatchedSteps(
                exchanges, self.link.reconnect, degree=1, catalog=self.link.catalog
            )
            yield from exchanging.run()
            left = _left(left, exchanges, exchanging.done)
        final_steps = FinalSteps(
            {run_id: run_steps for run_id, run_steps in left.items() if run_steps},
            self.link.reconnect,
            degree=self._streams.usual,
            attempts=max((run.spec.attempts for run in self._runs), default=1),
        )
        yield from final_steps.run()
        for run in self.working_runs():
            yield from run.skip_steps(final_steps.skipped.get(run.run_id, ()))
        return final_steps.failures

    # Ending

    def _conclude(self, runs: Sequence[RunState]) -> Iterator[Event]:
        """Store the status of the runs, and report it."""
        # If others copied parts of a run, its records were read after the last of them.
        load_records([run for run in runs if not (self.shares and run.all_committed)], self.link)
        run_ids = [run.run_id for run in runs if run.awaits_last_look]
        changed = self.link.call(lambda control: control.tables.check(run_ids)) if run_ids else {}
        due = steps_due([run for run in runs if not run.finishes], self.link)
        statuses = {
            run: run.judge(due.get(run.run_id, ()), changed.get(run.run_id)) for run in runs
        }
        set_statuses(statuses, self.link)
        for run, status in statuses.items():
            yield run.end(status, self._used)

    def _open_runs(self) -> list[RunState]:
        """Return the runs that have begun and are not reported yet."""
        begun = dict.fromkeys(run for run in (*self._linking, *self.window) if run.has_begun)
        return [run for run in begun if run.ended is None]

    def _end_early(self, error: PenstockError) -> Iterator[Event]:
        """Report the status of the runs that have not ended."""
        status = "interrupted"
        if not isinstance(error, Interrupted):
            status = "failed"
            # The reason why the runs are not done, or why one of them failed and stopped the
            # others.
            theirs = any(run.error is error for run in self._runs)
            for run in [run for run in self._runs if run.error is None and run.ended is None]:
                if not self._failures.is_untouched(run):
                    run.fail(stopped_error() if theirs else error)
        for run in self._open_runs():
            self._cut_off.append(run)
            yield run.end("done" if self._failures.is_untouched(run) else status, self._used)

    def _note_end(self, *, cancelled: bool) -> None:
        """Store the status with which the runs ended."""
        status = "interrupted" if cancelled else "failed"
        ended = {
            run: "done" if self._failures.is_untouched(run) else status
            for run in (*self._cut_off, *self._open_runs())
        }
        if cancelled and ended:
            # A statement may still run on that connection, and hold a lock on the run's row.
            self.link.cancel()
        set_statuses(ended, self.link)

    def _events_of(self, run: RunState, call: Callable[[], Iterable[Event]]) -> Iterator[Event]:
        with self._recording_failure(run):
            yield from call()

    @contextlib.contextmanager
    def _recording_failure(self, run: RunState) -> Iterator[None]:
        try:
            yield
        except Interrupted:
            raise
        except PenstockError as error:
            self._failures.keep(run, error)


def _left(
    steps: Mapping[str, Sequence[Step]], tried: Mapping[str, Sequence[Step]], done: Container[str]
) -> dict[str, list[Step]]:
    """Return the steps that are left after some of them were tried together."""
    return {
        run_id: [
            step
            for step in sorted(run_steps, key=lambda step: step.rank)
            if run_id not in done or step not in tried[run_id]
        ]
        for run_id, run_steps in steps.items()
    }


def _can_exchange(step: Step) -> bool:
    """Whether a step may be in one transaction with the exchanges of several tables."""
    return step.id not in (GONE_STEP, MERGE_STEP) and not step.moves_watermark


def _can_wait(step: Step) -> bool:
    """Whether a step may be done with those of other runs: it locks nobody out."""
    return not step.urgent and step.id != GONE_STEP


def _ends_night(steps: Sequence[Step]) -> bool:
    return any(step.id == MERGE_STEP or step.moves_watermark for step in steps)


def _cannot_be_copied(run: RunState) -> Event:
    assert run.error is not None
    message = f"{run.spec.source_name} cannot be copied: {run.error.message}"
    return Warned(run_id=run.run_id, message=message, error=run.error.as_json())


def _largest_first(works: Iterable[tuple[RunState, Work]]) -> list[Work]:
    """Put large partitions of large tables first, so that streams end together."""

    def weight(item: tuple[RunState, Work]) -> tuple[int, int]:
        run, work = item
        return -(work.partition.bytes or 0), -(run.plan.bytes or 0)

    return [work for _, work in sorted(works, key=weight)]


def briefly(call: Callable[[], None]) -> None:
    """Try a call for a moment, on a thread that may be abandoned."""

    def attempt() -> None:
        with contextlib.suppress(PenstockError):
            call()

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(BRIEFLY)
