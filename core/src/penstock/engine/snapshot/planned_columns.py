"""Whether a source still has the columns that a run was planned with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.backends.api.execution.control import RunRow
from penstock.backends.api.source import SourceCatalog
from penstock.errors import PlanningError
from penstock.model.extents import Crossing, KeyRange
from penstock.model.plans import PartitionPlan
from penstock.model.source_columns import SourceColumn, other_columns, shape_changes
from penstock.model.tables import Located
from penstock.spec.copy_spec import CopySpec
from penstock.spec.masks import mentions


def column_changes(
    spec: CopySpec,
    plan: PartitionPlan,
    before: Sequence[SourceColumn],
    now: Sequence[SourceColumn],
) -> list[str]:
    """Describe how the columns that a run uses have changed.

    Args:
        spec: the options of the run.
        plan: its plan.
        before: the columns when it was planned; empty if unknown.
        now: the columns of the source now.
    """
    all_used = spec.columns is None and not spec.drift.ignores
    return shape_changes(before, now, _used_by(spec, plan), all_used=all_used)


def _used_by(spec: CopySpec, plan: PartitionPlan) -> Callable[[str], bool]:
    """Return whether a run reads a column, or has a condition or expression that may do so."""
    route = spec
    selected = {column.name for column in plan.columns}
    texts = [route.where or "", plan.selection, *route.expressions.values(), *key_texts(plan)]

    def is_used(name: str) -> bool:
        is_read = route.columns is None and not route.excludes(name) and not spec.drift.ignores
        return is_read or name in selected or any(mentions(text, [name]) for text in texts)

    return is_used


def check_same_columns(spec: CopySpec, run: RunRow, source: SourceCatalog) -> None:
    """Check that the names of a run that is done still stand for the columns that it has read.

    Types may have changed since, and columns may have been added.

    Raises:
        PlanningError: a name stands for another column, or for none.
    """
    if isinstance(spec.relation, Located):
        return  # columns of files are known by their names alone
    now = tuple(map(SourceColumn.of, source.columns(spec.relation)))
    if lines := other_columns(run.source_state.columns, now, _used_by(spec, run.plan)):
        raise changed_error(spec, run.run_id, lines)


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
    """Return the columns or expressions by whose ranges a plan partitions."""
    extents = [partition.extent for partition in plan.partitions]
    extents += [each.first for each in extents if isinstance(each, Crossing)]
    return {each.key.text for each in extents if isinstance(each, KeyRange)}
