"""The beginning of runs: new ones are planned and created together, stored ones are continued."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from penstock.backends.api.execution.control import ControlStore, Loss, NewRun, RunRow
from penstock.backends.api.facts import Siblings
from penstock.backends.api.optional.bulk_catalogs import describing, prefetch
from penstock.backends.api.source import SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.engine.continuation import Continuation, Rest
from penstock.engine.execution import Execution
from penstock.engine.finished_runs import check_rows_left
from penstock.engine.opening import in_background
from penstock.engine.run_status import load_standing
from penstock.engine.snapshot.loss_policy import OptionPolicy
from penstock.engine.snapshot.source_view import Hold, Join, SourceView
from penstock.engine.state import RunState
from penstock.errors import PlanningError, TransientError
from penstock.events import Event
from penstock.model.plans import Partition, PartitionPlan
from penstock.planning.asking.rounds import PlannedTable, plan_tables
from penstock.planning.request import PlanRequest
from penstock.spec.copy_spec import CopySpec
from penstock.spec.modes import Table
from penstock.verification.partitions import is_compared

LossOf = Callable[[RunState, RunRow, Continuation], Loss | None]
"""Returns what the target's table lacks of what a stored run has committed; None if nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What is asked of a run, in addition to the options of its copy.

    Args:
        partitions, series: of a new run; see `create`.
        reasons: why the tables of a new run are in their schemas.
        check: raises a PenstockError for a new plan that must not be executed.
        check_same: raises a PenstockError if the stored run is another one.
        rest: what to copy of a stored run.
        is_named: whether the caller has named the run, so that others may execute it, too.
    """

    partitions: Sequence[Partition] = ()
    series: str = ""
    reasons: Sequence[str] = ()
    check: Callable[[PartitionPlan], object] | None = None
    check_same: Callable[[RunRow], object] = lambda run: None
    rest: Rest = field(default_factory=Rest)
    is_named: bool = True


@dataclass(frozen=True, slots=True)
class _New:
    """A run to be created with this plan."""

    run: RunState
    plan: PartitionPlan


class Planner:
    """Plans and creates the new runs of an execution, and continues those that are stored.

    Args:
        execution: the execution; what the error of one run does to the others is its matter.
        requests: what is asked of each run, by id.
        target: the target's catalog.
        hold: takes a snapshot for a run.
        join: holds another process's snapshot for a run; None if each run does so alone.
        renewed: stored runs that are planned again, by id.
        siblings: returns the tables of the batch; None for a single copy.
        started: when planning of a single copy began, by the monotonic clock; None if the time of
            each run counts by itself.
    """

    def __init__(
        self,
        execution: Execution,
        requests: Mapping[str, RunRequest],
        *,
        target: TargetCatalog,
        hold: Hold,
        join: Join | None = None,
        renewed: Mapping[str, RunRow] | None = None,
        siblings: Callable[[], Siblings | None] = lambda: None,
        started: float | None = None,
    ) -> None:
        self._execution = execution
        self._requests = requests
        self._ends, self._link = execution.ends, execution.link
        self._streams = execution.streams
        self._target = target
        self._hold = hold
        self._join = join
        self._renewed = {} if renewed is None else renewed
        self._siblings = siblings
        self._started = started
        self._taken: dict[str, Sequence[Event]] = {}
        """The events of taking each new run's snapshot, until the run is created."""

    def run_of(
        self, spec: CopySpec, run_id: str, stored: RunRow | None, *, finish: bool = True
    ) -> RunState:
        """Return a run that has not begun.

        Args:
            spec: the options of the run.
            run_id: the id of the run.
            stored: the run as the target has it; None if it is not stored.
            finish: see `RunState`.
        """
        ends = self._ends
        view = SourceView(
            spec,
            run_id,
            ends.source_url,
            ends.source_backend,
            OptionPolicy(),
            stored,
            self._hold,
            shares=self._execution.shares,
            join=self._join,
        )
        return RunState(
            spec,
            run_id,
            ends=ends,
            link=self._link,
            view=view,
            finish=finish,
            shares=self._execution.shares,
        )

    def begin(
        self,
        window: Sequence[RunState],
        source: SourceCatalog | None,
        stored: Mapping[str, RunRow],
        loss_of: LossOf,
    ) -> Iterator[Event]:
        """Begin runs; the last events are about the plan of each.

        Args:
            window: the runs.
            source: the source's catalog, which is closed; None if no run is new.
            stored: the stored runs, by id.
            loss_of: asked about each stored run.
        """
        seconds: dict[RunState, float] = {}
        with describing(self._target, [run.spec.target_ref for run in window]):
            planned: Mapping[RunState, PlannedTable] = {}
            if source is not None:
                runs = [run for run in window if run.run_id not in stored]
                planned = yield from self._plan_together(runs, source)
            new: list[_New] = []
            for run in window:
                if run.error is not None:
                    continue
                started = time.monotonic()
                result = planned.get(run)
                yield from self._execution.attempt(
                    run,
                    lambda run=run, result=result: self._begin(  # type: ignore[misc]
                        run, stored.get(run.run_id), result, new, loss_of
                    ),
                )
                seconds[run] = time.monotonic() - started + (result.seconds if result else 0.0)
                self._execution.stop_if_requested()
        yield from self._create_all(new)
        yield from self._read_together(window)
        begun = [run for run in window if run.error is None]
        load_standing(begun, self._link)
        for run in begun:
            if self._started is not None:
                seconds[run] = time.monotonic() - self._started
            yield run.planned_event(self._streams, seconds[run])
        for run in window:
            if run.error is not None:
                run.view.close()

    def find_stored(self, run_ids: Sequence[str]) -> dict[str, RunRow]:
        """Return stored runs, by id, without those that are still to be planned again."""
        stored = self._target.control.runs.load(run_ids)
        return {
            run_id: run
            for run_id, run in stored.items()
            if run_id not in self._renewed or self._renewed[run_id].generation != run.generation
        }

    # New runs

    def _plan_together(
        self, runs: Sequence[RunState], source: SourceCatalog
    ) -> Generator[Event, None, Mapping[RunState, PlannedTable]]:
        """Plan the tables of new runs together, with a snapshot if their options request one."""
        with closing(source), describing(source, [run.spec.relation for run in runs]):
            specs = [run.spec for run in runs]
            definitions = {
                spec.partitioning for spec in specs if spec.load_mode.table is Table.RECREATED
            }
            with in_background(lambda: prefetch(self._target, definitions)):
                yield from self._take_snapshots(runs, source)
                prefetch(source, definitions)
            runs = [run for run in runs if run.error is None]
            views = {run.run_id: run.view for run in runs}
            planned = plan_tables(
                [self._plan_request(run) for run in runs],
                source,
                self._target,
                enter=lambda request: views[request.run_id].enter(source),
                between=self._execution.stop_if_requested,
            )
            return dict(zip(runs, planned, strict=True))

    def _take_snapshots(self, runs: Sequence[RunState], source: SourceCatalog) -> Iterator[Event]:
        # Answers from before the snapshot are dropped: others may have changed tables.
        if not all(run.view.is_noted for run in runs):
            prefetch(source)
        for run in runs:
            yield from self._execution.attempt(run, lambda run=run: self._take(run, source))  # type: ignore[misc]

    def _take(self, run: RunState, source: SourceCatalog) -> Sequence[Event]:
        if not run.view.is_noted:
            run.view.note_state(source)
        self._taken[run.run_id] = run.view.take(source)
        return ()

    def _plan_request(self, run: RunState) -> PlanRequest:
        request = self._requests[run.run_id]
        return PlanRequest.of(
            run.spec,
            self._streams,
            run.run_id,
            self._ends.capabilities,
            request.partitions,
            request.series,
            self._siblings(),
        )

    def _begin(
        self,
        run: RunState,
        stored: RunRow | None,
        planned: PlannedTable | None,
        new: list[_New],
        loss_of: LossOf,
    ) -> Iterator[Event]:
        """Continue a stored run, or note a planned one for creation.

        Args:
            run: the run to continue or to create.
            stored: the run as the target has it; None if it is not stored.
            planned: the outcome of planning a run that is not stored.
            new: receives the plan, if the run is to be created with it.
            loss_of: asked about a run that is stored.
        """
        if stored is not None:
            yield from self._continue(run, stored, loss_of)
            return
        assert planned is not None
        result = self._checked(run, planned)
        if isinstance(result, PartitionPlan):
            new.append(_New(run, result))
        else:
            yield from self._continue(run, result)

    def _checked(self, run: RunState, planned: PlannedTable) -> PartitionPlan | RunRow:
        """Return the plan, or the stored run if another process has created it."""
        request = self._requests[run.run_id]
        try:
            plan = planned.plan
            plan = replace(plan, reasons=(*request.reasons, *plan.reasons))
            if request.check is not None:
                request.check(plan)
        except (PlanningError, TransientError):
            if not request.is_named:
                raise
            # Another execution may have created the run, and be changing these tables.
            stored = self.find_stored([run.run_id]).get(run.run_id)
            if stored is None:
                raise
            return stored
        return plan

    def _create_all(self, planned: Sequence[_New]) -> Iterator[Event]:
        """Store the runs; one that another process has created in between is continued."""
        if not planned:
            return
        control = self._target.control
        control.create()
        created = store_new(
            [
                NewRun(run.run_id, run.spec.stored(), each.plan, run.view.state, run.view.snapshot)
                for each in planned
                for run in (each.run,)
            ],
            self._renewed,
            control,
        )
        for run, plan in ((each.run, each.plan) for each in planned):
            if run.run_id in self._renewed:
                run.view.generation = self._renewed[run.run_id].generation + 1
            if run.run_id in created:
                run.begin(plan, is_new=True)
                yield from self._taken.pop(run.run_id)
            else:
                yield from self._execution.attempt(
                    run,
                    lambda run=run: self._continue_created(run),  # type: ignore[misc]
                )

    # Stored runs

    def _continue_created(self, run: RunState) -> Iterator[Event]:
        stored = self._target.control.runs.find(run.run_id)
        assert stored is not None, "could not be created"
        yield from self._continue(run, stored)

    def _continue(
        self, run: RunState, stored: RunRow, loss_of: LossOf | None = None
    ) -> Iterator[Event]:
        """Check that a stored run may continue, and find a view of the source for the rest."""
        request, control = self._requests[run.run_id], self._target.control
        continuation = Continuation(run.spec, stored, request.rest, control)
        if continuation.pending:
            # It costs 0.3 s of CPU, which a task whose partition is already done can save.
            self._execution.nursery.start()
        loss = None if loss_of is None else loss_of(run, stored, continuation)
        warning = check_rows_left(run.spec, stored, loss, finish=run.finishes)
        if warning is not None:
            yield warning
        request.check_same(stored)
        # Another execution may have created the run, or finished it, since its table was found:
        # the run's plan and snapshot count, not what was found here.
        run.was_done = stored.status == "done"
        run.complete = continuation.complete
        run.view.close()
        run.view = continuation.view(
            self._ends, self._hold, shares=self._execution.shares, join=self._join
        )
        if continuation.pending:
            yield from continuation.find_view(run.view, self._ends, self._target)
        elif (
            run.complete
            and run.finishes
            and is_compared(run.spec, stored.plan)
            and not run.was_done
        ):
            yield from run.view.view_for_comparison(control)
        run.note_stored(stored)
        run.begin(stored.plan, continuation.partitions)

    def _read_together(self, window: Sequence[RunState]) -> Iterator[Event]:
        """Read again the tables that an earlier execution has read, if tables are merged together.

        Tables that are merged together are read as of one moment.
        """
        runs = [run for run in window if run.error is None and run.spec.atomic == "batch"]
        if all(run.complete for run in runs):
            return
        for run in runs:
            if run.complete and run.spec.loss_policy == "restart":
                run.complete = False
                yield from self._execution.attempt(run, run.replace_view)


def store_new(
    runs: Sequence[NewRun], renewed: Mapping[str, RunRow], control: ControlStore
) -> frozenset[str]:
    """Store runs as planned, and return the ids of those that no other process has created.

    Args:
        runs: the runs.
        renewed: stored runs that are planned again, by id.
        control: the target's control store.
    """
    again = [run for run in runs if run.run_id in renewed]
    for run in again:
        control.generations.replan(run, renewed[run.run_id].generation)
    others = [run for run in runs if run.run_id not in renewed]
    created = control.runs.create(others) if others else frozenset()
    return created | {run.run_id for run in again}
