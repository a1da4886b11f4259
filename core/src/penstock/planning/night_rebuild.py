"""The decision to merge a night into the target, or to build a table beside it."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.backends.api.facts import LoadRequest, TableStatistics
from penstock.errors import PlanningError
from penstock.model.nights import Night
from penstock.model.plans import LoadPlan
from penstock.model.tables import Column
from penstock.planning.answers import KnownAnswers
from penstock.planning.cursors import without_range
from penstock.planning.questions import HeldRows, MergedRows, NightRebuild
from penstock.spec.amounts import AtomicLimit
from penstock.spec.groups.nights import Nights
from penstock.spec.groups.route import Route

SMALL = 8 * 1024 * 1024
"""Bytes of a table that can be written twice in less time than planning another way takes."""


def apply_atomic_limit(
    route: Route,
    nightly: Nights,
    night: Night,
    selection: str,
    statistics: TableStatistics,
    answers: KnownAnswers,
) -> tuple[Night, bool]:
    """Return the night, and whether it may be merged.

    The night is changed to read all rows if more have changed than may be merged.

    Args:
        route: the route of the copy.
        nightly: the options of the night.
        night: the night.
        selection: the condition for the rows that may have changed.
        statistics: statistics of the source's table.
        answers: the answers so far.

    Raises:
        PlanningError: the night is too large to merge, and the options allow nothing else.
    """
    limit = nightly.most_merged
    if limit == AtomicLimit():
        return night, True
    size = statistics.bytes * statistics.selected
    rows = None if statistics.rows is None else statistics.rows * statistics.selected
    if rows is not None and not limit.is_below(rows, size):
        return night, True
    if rows is None or night.since:
        counted = answers[MergedRows(route.relation, route.where, selection, rows, size, limit)]
        if not limit.is_below(counted.rows, size):
            return night, True
        if (changed := counted.changed) is not None:
            if not limit.is_below(changed, changed * size / max(counted.rows, changed, 1)):
                return night, True
            limited = f"more than --atomic-limit {nightly.atomic_limit}"
            why = f"{changed:,} rows may have changed, {limited}"
            night = without_range(night, why)
    if limit.fails:
        reads = f"all rows are read, since {night.full}; " if night.full else ""
        raise PlanningError(
            f"{route.source_name}: {reads}the night is larger than --atomic-limit "
            f"{nightly.atomic_limit} allows; raise the limit, or leave out ',fail' to allow a swap"
        )
    return night, False


def plan_rebuild(
    route: Route,
    nightly: Nights,
    request: LoadRequest,
    merged: LoadPlan,
    columns: Sequence[Column],
    statistics: TableStatistics,
    answers: KnownAnswers,
    *,
    may_merge: bool,
    can_build: bool,
) -> tuple[LoadPlan, tuple[str, ...]]:
    """Return the plan of a night that reads all rows, and remarks on it.

    Args:
        route: the route of the copy.
        nightly: the options of the night.
        request: the request for merging the rows.
        merged: the plan for merging the rows.
        columns: the target's columns.
        statistics: statistics of the source's table.
        answers: the answers so far.
        may_merge: whether the night may be merged; see `apply_atomic_limit`.
        can_build: whether the target is a `BuildsNights`.

    Raises:
        PlanningError: the night can be neither merged nor built.
    """
    is_small = statistics.bytes * statistics.selected <= SMALL
    # Nights of other parts of the table may be running.
    is_shared = request.merges_together or route.where is not None
    if may_merge and (is_small or is_shared or not can_build):
        return merged, ()
    above = f"larger than --atomic-limit {nightly.atomic_limit}"
    try:
        if not can_build:
            raise PlanningError("this target cannot build a new table beside the old one")
        key = merged.conflict_columns
        if nullable := [each.name for each in columns if each.nullable and each.name in key]:
            if may_merge and answers[HeldRows(route.target_ref)]:
                return merged, ()
            raise PlanningError(
                f"the key column {', '.join(nullable)} may be NULL, and only a merge finds rows "
                "with a NULL in their key"
            )
        plan = answers[NightRebuild(request, merged, if_empty=may_merge)]
    except PlanningError as error:
        if may_merge:
            return merged, (f"night: rows are staged and merged, since {error.message}",)
        raise PlanningError(
            f"{route.source_name}: the night is {above}, and cannot be swapped in: "
            f"{error.message}; raise --atomic-limit to merge it"
        ) from error
    if plan is None:
        return merged, ()
    why = "the target has no rows" if may_merge else f"it is {above}"
    remark = f"night: built beside the target, and swapped in at the end, since {why}"
    return plan, (remark,)
