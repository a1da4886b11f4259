"""The status of runs in the target's control store: read for all runs at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.engine.control_link import ControlLink
from penstock.engine.state import RunState
from penstock.model.nights import Watermark
from penstock.model.plans import Step


def load_standing(runs: Sequence[RunState], link: ControlLink) -> None:
    """Read whether the runs are done by now, and what they have committed.

    For a run that was just created there is nothing to read.
    """
    older = [run for run in runs if not run.is_new]
    ids = [run.run_id for run in older]
    statuses = link.call(lambda control: control.runs.statuses(ids)) if ids else {}
    load_records(older, link)
    for run in older:
        run.was_done = statuses.get(run.run_id) == "done"


def load_records(runs: Sequence[RunState], link: ControlLink) -> None:
    """Read the commit records of the runs."""
    ids = [run.run_id for run in runs]
    records = link.call(lambda control: control.commits.of(ids)) if ids else {}
    for run in runs:
        run.take_records(records[run.run_id])


def marks_of(runs: Sequence[RunState], link: ControlLink) -> dict[RunState, Watermark]:
    """Return the watermarks that runs have set."""
    nights = {run: run.plan.night.name for run in runs if run.plan.night is not None}
    names = list(dict.fromkeys(nights.values()))
    if not names:
        return {}
    latest = link.call(lambda control: control.watermarks.latest(names))
    marks: dict[RunState, Watermark] = {}
    for run, name in nights.items():
        history: Sequence[Watermark] = [latest[name]] if name in latest else []
        if not any(each.run_id == run.run_id for each in history):
            # Another night has ended since.
            history = link.call(lambda control, name=name: control.watermarks.history(name))  # type: ignore[misc]
        mine = next((each for each in history if each.run_id == run.run_id), None)
        if mine is not None:
            marks[run] = mine
    return marks


def set_statuses(statuses: Mapping[RunState, str], link: ControlLink) -> None:
    """Store the status of runs, with the failures of each.

    A run that was done, and for which nothing was done now, keeps the time at which it ended; one
    that another execution has finished keeps what that one has stored.
    """
    stored = {
        run.run_id: (status, run.stored_failures())
        for run, status in statuses.items()
        if not (run.finished_elsewhere or (status == "done" and run.did_nothing))
    }
    if stored:
        link.call(lambda control: control.runs.set_statuses(stored))


def steps_due(runs: Sequence[RunState], link: ControlLink) -> dict[str, list[Step]]:
    """Return the due steps after the last partition, by run, from the records read so far."""
    return _undone(link, {run.run_id: run.planned_steps() for run in runs})


def links_due(runs: Sequence[RunState], link: ControlLink) -> dict[str, list[Step]]:
    """Return, by run, the due steps that link its table to others of its batch.

    Only runs whose other steps are done, according to the records read so far, have any.
    """
    links = {run.run_id: run.planned_links() for run in runs}
    steps = {run.run_id: run.planned_steps() for run in runs}
    due = _undone(link, {run_id: [*steps[run_id], *links[run_id]] for run_id in links})
    return {
        run_id: [step for step in due[run_id] if step in links[run_id]]
        for run_id in links
        if not any(step in steps[run_id] for step in due[run_id])
    }


def _undone(link: ControlLink, planned: dict[str, list[Step]]) -> dict[str, list[Step]]:
    ids = [run_id for run_id, steps in planned.items() if steps]
    done = link.call(lambda control: control.steps.done(ids)) if ids else {}
    return {
        run_id: [step for step in steps if step.id not in done[run_id]]
        for run_id, steps in planned.items()
    }
