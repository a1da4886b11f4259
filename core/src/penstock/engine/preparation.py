"""Preparation before the first partition, many runs at a time.

The runs are registered as executing, and their tables are prepared.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

from penstock.backends.api.execution.control import ControlStore
from penstock.engine.claimed_tables import take_tables
from penstock.engine.claims import collision_check
from penstock.engine.control_link import ControlLink, is_of_the_connection
from penstock.engine.run_status import load_records, set_statuses, steps_due
from penstock.engine.state import RunState
from penstock.errors import Interrupted, LoadLost, PenstockError
from penstock.events import Event


def _prepare_again(run: RunState, link: ControlLink) -> bool | PenstockError:
    """Prepare one run by itself, with another connection if needed."""

    def prepare_alone(control: ControlStore) -> bool:
        outcome = control.generations.prepare({run.run_id: run.plan.load})[run.run_id]
        if isinstance(outcome, PenstockError):
            raise outcome
        return outcome

    try:
        return link.call(prepare_alone)
    except Interrupted:
        raise
    except PenstockError as error:
        return error


def prepare(
    runs: Sequence[RunState], link: ControlLink
) -> Generator[Event, None, dict[str, PenstockError]]:
    """Do the steps before the first partition, unless they are done.

    Returns: by run, why it cannot continue: `TargetBusy`, another run is already writing these
        rows; `TargetChanged`, the table is not the one that was prepared; or a step's error.
    """
    by_id = {run.run_id: run for run in runs}
    steps = steps_due([run for run in runs if run.all_committed], link)
    unfinished = [run for run in runs if not run.all_committed or steps[run.run_id]]
    failed = dict(
        link.enter_all(
            {run.run_id: run.spec.target_ref for run in unfinished},
            lambda run_id, run_ids: _collision_check(by_id[run_id], link)(run_ids),
        )
    )
    failed |= take_tables([run for run in unfinished if run.run_id not in failed], link)
    ready = [run for run in runs if run.run_id not in failed]
    # Those that start together would otherwise wait for each other, to find that.
    loads = {run.run_id: run.plan.load for run in ready if not run.is_prepared_by_others}
    outcomes: Mapping[str, bool | PenstockError] = dict.fromkeys((r.run_id for r in ready), False)
    if loads:
        outcomes = {
            **outcomes,
            **link.call(lambda control: control.generations.prepare(loads)),
        }
    to_check = []
    for run in ready:
        outcome = outcomes[run.run_id]
        if isinstance(outcome, PenstockError) and is_of_the_connection(outcome):
            outcome = _prepare_again(run, link)
        if isinstance(outcome, PenstockError):
            failed[run.run_id] = outcome
            continue
        yield run.prepared_event(already=not outcome and not run.view.started_over)
        if not run.is_intact():
            try:
                yield from run.load_again(LoadLost("the target's server crashed during the load"))
            except Interrupted:
                raise
            except PenstockError as error:
                failed[run.run_id] = error
        elif run in unfinished and not outcome:
            to_check.append(run.run_id)
    if to_check:
        failed |= link.call(lambda control: control.tables.check(to_check))
    going_on = [run for run in ready if run.run_id not in failed]
    # A run that was just created has no commit records; one that others have prepared was read a
    # moment ago, and what they commit shows as its partitions are tried.
    older = [run for run in going_on if not (run.is_new or run.is_prepared_by_others)]
    load_records(older, link)
    # A run that is done stays done, even if this execution is killed.
    steps = steps_due([run for run in going_on if run.all_committed], link)
    undone = [run for run in going_on if not run.all_committed or steps[run.run_id]]
    set_statuses({run: "running" for run in undone if outcomes[run.run_id] is not True}, link)
    return failed


def follow(run: RunState, link: ControlLink) -> Iterator[Event]:
    """Continue with the generation of a run that another process has begun.

    Raises:
        SnapshotLost, PlanningError: the run allows no view of the source.
        PenstockError: see `prepare`.
    """
    if not (yield from run.adopt_generation()):
        return
    failed = yield from prepare([run], link)
    if error := failed.get(run.run_id):
        raise error


def _collision_check(run: RunState, link: ControlLink) -> Callable[[Sequence[str]], None]:
    return collision_check(run.spec, run.plan, link.catalog.control)
