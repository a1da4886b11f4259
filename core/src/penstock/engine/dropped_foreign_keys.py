"""Foreign keys that a load with `--data-only` dropped, and restores when resumed."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.backends.api.execution.control import ControlStore, RunRow
from penstock.engine.stored_runs import target_catalog
from penstock.model.plans import makes_foreign_key
from penstock.model.tables import NotCopied


def missing_foreign_keys(
    control: ControlStore, runs: Sequence[RunRow]
) -> dict[str, tuple[NotCopied, ...]]:
    """Return the currently missing foreign keys by run id, each with the statement that creates it.

    Runs that are being executed have none.
    """
    dropping = [
        run
        for run in runs
        if run.spec.get("data_only") and run.prepared_at is not None and run.status != "done"
    ]
    keys: dict[str, tuple[NotCopied, ...]] = dict.fromkeys((run.run_id for run in runs), ())
    if not dropping:
        return keys
    done = control.steps.done([run.run_id for run in dropping])
    pending = control.steps.pending(list(dict.fromkeys(run.plan.load.table for run in dropping)))
    for run in dropping:
        missing = {
            (step.instead.table, step.instead.name)
            for run_id, step in pending[run.plan.load.table]
            if run_id == run.run_id and makes_foreign_key(step) and step.instead is not None
        }
        keys[run.run_id] = tuple(
            item
            for item in run.plan.load.unrestored_keys(done[run.run_id])
            if (item.table, item.name) in missing
        )
    return keys


def unrestored_of(
    run_ids: Sequence[str], *, target: str, control_schema: str = "penstock"
) -> tuple[NotCopied, ...]:
    """Return the currently missing foreign keys of several runs.

    Args:
        run_ids: ids of runs.
        target: the connection to the target.
        control_schema: the schema of the control tables.
    """
    with target_catalog(target, control_schema) as catalog:
        stored = catalog.control.runs.load(run_ids)
        by_run = missing_foreign_keys(catalog.control, list(stored.values()))
    return tuple(item for run_id in run_ids for item in by_run.get(run_id, ()))
