"""What stopped runs have left undone on a table: indexes that they have dropped, for instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from penstock.backends.api.capabilities import TargetCapabilities
from penstock.backends.api.target import TargetCatalog
from penstock.model.plans import OF_STOPPED, LoadPlan, Step
from penstock.model.tables import NotCopied, TableRef
from penstock.spec.copy_spec import CopySpec

# Fields of `CopySpec` for which a table is altered while it is loaded.
_ALTERING = {"indexes", "unlogged"}


class StepsLeft:
    """What stopped runs have left undone on the tables of many copies: the first that is wanted is
    asked for with all others.

    Parameters:
        specs: of the copies.
    """

    def __init__(self, target: TargetCatalog, specs: Sequence[CopySpec]) -> None:
        self._target = target
        self._tables = [spec.target_ref for spec in specs if not spec.load_mode.recreates]

    def on(self, table: TableRef) -> tuple[tuple[str, Step], ...]:
        """Each step with the id of the run that has left it."""
        return self._found[table]

    @cached_property
    def _found(self) -> Mapping[TableRef, tuple[tuple[str, Step], ...]]:
        return self._target.control.steps_left(self._tables)


def with_steps_left(
    spec: CopySpec, load: LoadPlan, steps_left: StepsLeft, capabilities: TargetCapabilities
) -> tuple[LoadPlan, tuple[str, ...]]:
    """The plan of a load that also does what stopped runs have left undone, where the run may alter
    the table; else with warnings of it.

    Returns: the plan, and why it has more steps.
    """
    if spec.load_mode.recreates or not _ALTERING & capabilities.options.keys():
        return load, ()
    left = steps_left.on(spec.target_ref)
    # A table that takes its place is like the one that lacks them.
    in_place = not spec.load_mode.loads_new_table
    if not (spec.allow_ddl and in_place):
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
