"""Rules for steps and repeated copies, where the database does not record who loaded a row."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from penstock.backends.api.execution.control import RunRow
from penstock.backends.sql.definitions.definition import SCHEMA
from penstock.backends.sql.loads.load_plan import SWAP
from penstock.errors import UsageError
from penstock.model.plans import MERGE_STEP, LoadPlan, Step
from penstock.model.tables import TableRef


def with_each_schema_once(
    steps: Sequence[tuple[RunRow, Step]],
) -> Iterator[tuple[RunRow, Step]]:
    """Yield steps of several runs, without those that create a schema again."""
    executed: set[str] = set()
    for run, step in steps:
        if step.id == SCHEMA:
            if step.statement in executed:
                continue
            executed.add(step.statement)
        yield run, step


def table_before(step: Step, load: LoadPlan, target: TableRef) -> TableRef:
    """Return the table with a run's rows when one of its steps begins.

    Args:
        step: the step.
        load: the plan of the run.
        target: the target's table.
    """
    swap = next((each for each in load.after if each.id == SWAP), None)
    if swap is None or not step.after:
        return load.table
    is_link = any(step.id == each.id for each in load.links)
    return target if is_link or step.rank > swap.rank else load.table


def check_unmoved(run_id: str, done: Collection[str]) -> None:
    """Check that partitions of a run can be copied again.

    Args:
        run_id: the id of the run.
        done: the ids of its steps that are done.

    Raises:
        UsageError: the rows are no longer in the table into which partitions are loaded.
    """
    if SWAP in done:
        raise UsageError(
            f"run {run_id}: its table has replaced the old one since, so single "
            "partitions cannot be copied into it again; start a new run"
        )
    if MERGE_STEP in done:
        raise UsageError(
            f"run {run_id}: its rows have been merged into the target since, so single "
            "partitions cannot be copied again; start a new run"
        )
