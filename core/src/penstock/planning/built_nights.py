"""Whether a night is merged, or built beside the target, whose place it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.backends.api.facts import LoadRequest, TableStatistics
from penstock.backends.api.nights import BuildsNights
from penstock.backends.api.source import SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.errors import PlanningError
from penstock.model.extents import Whole
from penstock.model.nights import Night
from penstock.model.plans import LoadPlan
from penstock.model.tables import Column
from penstock.spec.atomic_limits import FAIL, AtomicLimit
from penstock.spec.copy_spec import CopySpec

SMALL = 8 * 1024 * 1024
"""Bytes of a table that is written twice in less time than it takes to plan another way."""


def within_limit(
    spec: CopySpec,
    night: Night,
    selection: str,
    source: SourceCatalog,
    statistics: TableStatistics,
) -> tuple[Night, bool]:
    """The night, which reads all rows where more have changed than may be merged, and whether it
    may be.

    Raises:
        PlanningError: it may not, and nothing else is allowed.
    """
    limit = spec.most_merged
    if limit == AtomicLimit():
        return night, True

    def count(where: str | None) -> int:
        return source.checksum(spec.relation, where, Whole(), ()).rows

    known, size = statistics.rows, statistics.bytes * statistics.selected
    rows = count(spec.where) if known is None else known * statistics.selected
    if not limit.is_below(rows, size):
        return night, True
    if night.since:
        found = count(f"({spec.where}\n) AND {selection}" if spec.where else selection)
        if not limit.is_below(found, found * size / max(rows, found, 1)):
            return night, True
        why = f"{found:,} rows may have changed, more than --atomic-limit {spec.atomic_limit}"
        night = replace(night, full=why, since=None, moment="", full_at="")
    if spec.above_atomic_limit == FAIL:
        reads = f"all rows are read, since {night.full}; " if night.full else ""
        raise PlanningError(
            f"{spec.source_name}: {reads}that is more than --atomic-limit {spec.atomic_limit}, and "
            "--above-atomic-limit fail allows no swap"
        )
    return night, False


def built(
    spec: CopySpec,
    request: LoadRequest,
    merged: LoadPlan,
    target: TargetCatalog,
    columns: Sequence[Column],
    statistics: TableStatistics,
    *,
    may_merge: bool,
) -> tuple[LoadPlan, tuple[str, ...]]:
    """The plan of a night that reads all rows, and what is to be said of it.

    Parameters:
        request, merged: if it merges them.
        columns: the target's.

    Raises:
        PlanningError: it can neither be merged nor built.
    """
    is_small = statistics.bytes * statistics.selected <= SMALL
    # Nights of other parts of the table may be under way.
    is_shared = request.merges_together or spec.where is not None
    if may_merge and (is_small or is_shared or not isinstance(target, BuildsNights)):
        return merged, ()
    above = f"more than --atomic-limit {spec.atomic_limit}"
    try:
        replaces = target.holds_rows(spec.target_ref) if isinstance(target, BuildsNights) else False
        if may_merge and replaces:
            return merged, ()
        plan = _plan(request, merged, target, columns, replaces=replaces)
    except PlanningError as error:
        if may_merge:
            return merged, (f"night: rows are gathered and merged, since {error.message}",)
        raise PlanningError(
            f"{spec.source_name}: all rows are read, which is {above}, and they cannot be swapped "
            f"in: {error.message}; or raise --atomic-limit"
        ) from error
    why = "the target has no rows" if may_merge else above
    said = f"night: built beside the target, and swapped in at the end, since {why}"
    return plan, (said,)


def _plan(
    request: LoadRequest,
    merged: LoadPlan,
    target: TargetCatalog,
    columns: Sequence[Column],
    *,
    replaces: bool,
) -> LoadPlan:
    if not isinstance(target, BuildsNights):
        raise PlanningError("this target cannot build a night beside its table")
    nullable = [c.name for c in columns if c.name in merged.conflict_columns and c.nullable]
    if nullable:
        raise PlanningError(
            f"the key's {', '.join(nullable)} may be NULL, and rows with a NULL there are found by "
            "the merge alone"
        )
    return target.plan_built(request, merged, replaces=replaces)
