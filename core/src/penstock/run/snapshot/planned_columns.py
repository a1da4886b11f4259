"""Whether a source still has the columns that a run was planned with."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import PlanningError
from penstock.model.extents import Crossing, KeyRange
from penstock.model.plans import PartitionPlan
from penstock.model.source_columns import SourceColumn, shape_changes
from penstock.spec.copy_spec import CopySpec
from penstock.spec.masks import mentions


def column_changes(
    spec: CopySpec,
    plan: PartitionPlan,
    before: Sequence[SourceColumn],
    now: Sequence[SourceColumn],
) -> list[str]:
    """Return how the columns that a run uses have changed, for people.

    Args:
        spec: the options of the run.
        plan: its plan.
        before: the columns when it was planned; empty if unknown.
        now: the columns of the source now.
    """
    route = spec.route
    selected = {column.name for column in plan.columns}
    conditions = [route.where or "", plan.selection, *route.expressions.values(), *key_texts(plan)]

    def is_used(name: str) -> bool:
        is_read = not route.excludes(name) and (route.columns is None or name in route.columns)
        return (
            name in selected
            or (is_read and not spec.drift.ignores)
            or any(mentions(text, [name]) for text in conditions)
        )

    return shape_changes(
        before, now, is_used, all_used=route.columns is None and not spec.drift.ignores
    )


def check_columns(
    spec: CopySpec,
    run_id: str,
    plan: PartitionPlan,
    before: Sequence[SourceColumn],
    now: Sequence[SourceColumn],
) -> None:
    """Check that a run may go on reading the columns that it was planned with.

    Args:
        spec: the options of the run.
        run_id: the id of the run.
        plan: its plan.
        before: the columns when it was planned; empty if unknown.
        now: the columns of the source now.

    Raises:
        PlanningError: a column that the run uses is another one, or was altered.
    """
    if lines := column_changes(spec, plan, before, now):
        raise changed_error(spec, run_id, lines)


def changed_error(spec: CopySpec, run_id: str, lines: Sequence[str]) -> PlanningError:
    """Return the error of a source that has changed since a run was planned."""
    return PlanningError(
        f"{spec.source_name} has changed since run {run_id} was planned; start a new run:"
        + "".join(f"\n  {line}" for line in lines)
    )


def key_texts(plan: PartitionPlan) -> set[str]:
    """Return the columns or expressions by whose ranges a plan cuts."""
    extents = [partition.extent for partition in plan.partitions]
    extents += [each.first for each in extents if isinstance(each, Crossing)]
    return {each.key.text for each in extents if isinstance(each, KeyRange)}
