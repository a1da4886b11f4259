"""What stopped runs have left undone on a table: indexes that they have dropped, for instance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.backends.api.capabilities import TargetCapabilities
from penstock.model.plans import OF_STOPPED, LoadPlan, Step
from penstock.model.tables import NotCopied
from penstock.spec.parts import Loading

# Fields of `CopySpec` for which a table is altered while it is loaded.
_ALTERING = {"indexes", "unlogged"}


Left = Sequence[tuple[str, Step]]
"""What stopped runs have left undone on a table: each step with the id of the run."""


def takes_steps_left(loading: Loading, capabilities: TargetCapabilities) -> bool:
    """Whether stopped runs may have left something undone that a load is to do or to say."""
    return not loading.load_mode.recreates and bool(_ALTERING & capabilities.options.keys())


def with_steps_left(
    loading: Loading, load: LoadPlan, left: Left
) -> tuple[LoadPlan, tuple[str, ...]]:
    """The plan of a load that also does what stopped runs have left undone, where the run may alter
    the table; else with warnings of it.

    Returns: the plan, and why it has more steps.
    """
    # A table that takes its place is like the one that lacks them.
    in_place = not loading.load_mode.loads_new_table
    if not (loading.allow_ddl and in_place):
        offer = "pass --allow-ddl to have it done after this load, or " if in_place else ""
        warnings = [
            f"run {run_id} was stopped, and has left undone: {step.name}; resume it, or {offer}"
            f"run: {step.statement}"
            for run_id, step in left
        ]
        return replace(load, warnings=(*load.warnings, *warnings)), ()
    known = {step.name for step in load.steps}
    added = {
        step.name: replace(
            step,
            id=f"{step.id}{OF_STOPPED}{run_id}",
            instead=NotCopied("steps", step.name, step.statement, str(load.table)),
        )
        for run_id, step in left
        if step.name not in known
    }
    reasons = tuple(
        f"left undone by run {run_id}, which was stopped: {step.name}" for run_id, step in left
    )
    return replace(load, steps=(*load.steps, *added.values())), reasons
