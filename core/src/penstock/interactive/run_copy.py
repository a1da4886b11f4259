"""`run`: a whole copy in one call."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from penstock.engine.api import copy
from penstock.errors import PenstockError, RunFailed, RunFailedTransiently
from penstock.events import Event
from penstock.interactive.notebook_line import notebook_line
from penstock.interactive.result import Result, result_of
from penstock.show.log import failure_text
from penstock.spec.copy_spec import CopySpec
from penstock.spec.terms import as_arguments


def run(spec: CopySpec) -> Result:
    """Copy a table, and return once it is copied.

    In a notebook, one line shows the progress. An interrupt cancels the copy, as does any error.
    With the `run_id` of an existing run and the same options, continues that run.

    Args:
        spec: the copy.

    Raises:
        UsageError, PlanningError: before anything is changed.
        SpecMismatch: the run id exists with other options.
        RunFailed, RunFailedTransiently: a partition failed; the message says why, and `resume`
            continues the run.
    """
    kept: list[Event] = []
    try:
        with notebook_line(spec.source_name) as show, closing(copy(spec)) as events:
            for event in events:
                show(event)
                # Progress is most of the events of a long copy.
                if event.name in ("planned", "warning", "merged", "finished"):
                    kept.append(event)
    except (RunFailed, RunFailedTransiently) as error:
        _add_reasons(error, kept)
        raise
    return result_of(kept)


def _add_reasons(error: PenstockError, events: Sequence[Event]) -> None:
    """Add to an error why partitions failed: nobody else has seen the events."""
    for event in events:
        if event.name == "finished" and event.failures:
            error.message += f"\n{as_arguments(failure_text(event))}"
            error.args = (error.message,)
