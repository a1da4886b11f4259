"""`run`: a whole copy in one call."""

from __future__ import annotations

from contextlib import closing

from penstock.engine.api import copy
from penstock.events import Event
from penstock.interactive.notebook_line import notebook_line
from penstock.interactive.result import Result, result_of
from penstock.spec.copy_spec import CopySpec


def run(spec: CopySpec) -> Result:
    """Copy a table, and return once it is copied.

    In a notebook, one line shows the progress. An interrupt cancels the copy, as does any error.
    With the `run_id` of an existing run and the same options, continues that run.

    Args:
        spec: the copy.

    Raises:
        UsageError, PlanningError: before anything is changed.
        SpecMismatch: the run id exists with other options.
        RunFailed, RunFailedTransiently: a partition or a step failed; `resume` continues the run.
    """
    kept: list[Event] = []
    with notebook_line(spec.source_name) as show, closing(copy(spec)) as events:
        for event in events:
            show(event)
            # Progress is most of the events of a long copy.
            if event.name in ("planned", "warning", "merged", "finished"):
                kept.append(event)
    return result_of(kept)
