"""Foreign keys that a load with `--data-only` has dropped, and restores when it is resumed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import closing

from penstock.backends.api.control import RunRow
from penstock.model.tables import NotCopied
from penstock.run.connections import resolve


def unrestored(run: RunRow, steps_done: Collection[str]) -> tuple[NotCopied, ...]:
    """Those of a run, each with the statement that makes it.

    Parameters:
        steps_done: ids of the run's steps after its last partition.
    """
    if not run.spec.get("data_only") or run.prepared_at is None or run.status == "done":
        return ()
    return run.plan.load.unrestored(steps_done)


def unrestored_of(
    run_ids: Sequence[str], *, target: str, control_schema: str = "penstock"
) -> tuple[NotCopied, ...]:
    """Those of several runs."""
    url, backend, *_ = resolve(target, "--target")
    with closing(backend.target(url, control_schema)) as catalog:
        found = catalog.control.load_runs(run_ids)
        done = catalog.control.steps_done_of(list(found))
    return tuple(
        item
        for run_id in run_ids
        if run_id in found
        for item in unrestored(found[run_id], done[run_id])
    )
