"""Steps that stopped runs left undone on a table: recreating dropped indexes, for instance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.backends.api.capabilities import TargetCapabilities
from penstock.model.plans import LoadPlan, Step, makes_foreign_key
from penstock.model.tables import NotCopied
from penstock.spec.groups.loading import Loading
from penstock.spec.modes import Table

# Fields of `CopySpec` that alter a table while it is loaded.
_ALTERING = {"indexes", "unlogged"}


StepsByRun = Sequence[tuple[str, Step]]
"""The steps that stopped runs left undone on a table, each with the id of its run."""


def takes_pending_steps(loading: Loading, capabilities: TargetCapabilities) -> bool:
    """Whether stopped runs may have left steps that a load has to do or report."""
    return loading.load_mode.table is not Table.RECREATED and bool(
        _ALTERING & capabilities.options.keys()
    )


def with_pending_steps(
    loading: Loading, load: LoadPlan, pending: StepsByRun
) -> tuple[LoadPlan, tuple[str, ...]]:
    """Add the steps that stopped runs left undone, or warnings about them.

    They are added if the run may alter the table, or restores foreign keys anyway.

    Args:
        loading: the options for loading.
        load: the plan without these steps.
        pending: the steps left undone.

    Returns:
        the plan, and why it has more steps.
    """
    # A new table is created like the one it replaces, and lacks the same things.
    in_place = loading.load_mode.table is Table.TARGET
    mine = [
        (run_id, step)
        for run_id, step in pending
        if in_place and (loading.alters_table or (loading.data_only and makes_foreign_key(step)))
    ]
    # The option is rejected where rows are found by an index.
    may_defer = in_place and not loading.load_mode.reloads_partitions
    offer = "pass --indexes defer to do it after this load, or " if may_defer else ""
    warnings: dict[tuple[str, str], str] = {}
    for run_id, step in pending:
        if (run_id, step) not in mine:
            # If several steps create one thing, the first has the statement for it.
            warnings.setdefault(
                (run_id, _action(step)),
                f"run {run_id} was stopped before it could {_action(step)}; resume it, or "
                f"{offer}run: {_statement(step)}",
            )
    planned = {(step.name, _action(step)) for step in (*load.steps, *load.links)}
    steps: dict[tuple[str, str], Step] = {}
    links: dict[tuple[str, str], Step] = {}
    for run_id, step in mine:
        if (step.name, _action(step)) not in planned:
            undone = NotCopied("steps", step.name, step.statement, str(load.table))
            added = links if makes_foreign_key(step) else steps
            added[step.name, _action(step)] = replace(
                step,
                id=f"{step.id} of run {run_id}",
                left_by=run_id,
                instead=step.instead if makes_foreign_key(step) else undone,
            )
    reasons = dict.fromkeys(
        f"left over from run {run_id}, which was stopped: {_action(step)}" for run_id, step in mine
    )
    return (
        replace(
            load,
            steps=(*load.steps, *steps.values()),
            links=(*load.links, *links.values()),
            warnings=(*load.warnings, *warnings.values()),
        ),
        tuple(reasons),
    )


def _action(step: Step) -> str:
    """Describe a step, with the foreign key that it restores."""
    if step.instead is not None and makes_foreign_key(step):
        return f"restore foreign key {step.instead.name} of {step.instead.table}"
    return step.name


def _statement(step: Step) -> str:
    if step.instead is not None and makes_foreign_key(step):
        return step.instead.remedy
    return step.statement
