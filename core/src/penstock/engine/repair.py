"""Repairs: a separate run copies again the ranges of a run's rows that differ.

The target's key partitions both sides into ranges. Each range is compared by a checksum, and those
that differ are replaced: a run in mode `replace` deletes and loads each in one transaction.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

from penstock.backends.api.execution.control import RunRow
from penstock.backends.api.source import SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.engine.api import create, resume
from penstock.engine.connections import connect
from penstock.engine.snapshot.planned_columns import check_same_columns
from penstock.engine.stored_runs import load_run, spec_of
from penstock.engine.value_display import isolate_display
from penstock.errors import PermanentError, PlanningError, UsageError
from penstock.events import Event
from penstock.model import values
from penstock.model.extents import KeyRange, Whole
from penstock.model.plans import Partition, PartitionPlan, id_list
from penstock.planning.asking.rounds import plan_table
from penstock.planning.partition_extents import quantity
from penstock.planning.request import PlanRequest
from penstock.spec.copy_spec import CopySpec
from penstock.spec.ids import MAX_RUN_ID, check_run_id
from penstock.spec.modes import REPLACE
from penstock.spec.source_changes import HARD, MOST_DELETED, SOFT, parse_most_deleted
from penstock.verification.comparison import Comparison
from penstock.workers.degree import streams_of

ROWS_PER_RANGE = 50_000
MOST_RANGES = 1_000
"""The maximum number of ranges; larger tables have larger ranges."""
_KEPT = (
    *("table", "query", "target_table", "descendants", "where", "map"),
    *("columns", "exclude_columns", "set", "mask"),
    *("snapshot", "control_schema", "show_values"),
)
"""Options of a run that its repair shares."""


@dataclass(frozen=True, slots=True)
class DifferingRange:
    """A range of the key in which source and target differ."""

    partition: Partition
    source: int
    """Rows of the source in this range."""
    target: int


@dataclass(frozen=True, slots=True)
class Repair:
    """The ranges to copy again so that both sides have the same rows."""

    run_id: str
    """The id of the run that copies it."""
    of: str
    """The id of the run that is repaired."""
    spec: CopySpec
    ranges: tuple[DifferingRange, ...]
    compared: int
    """The number of ranges."""
    rows: int
    """Rows of the target, in all ranges."""
    notes: tuple[str, ...] = ()

    @property
    def surplus(self) -> int:
        """The minimum number of rows that the target has and the source does not."""
        return sum(max(0, each.target - each.source) for each in self.ranges)


@isolate_display
def plan_repair(
    run_id: str,
    *,
    source: str,
    target: str,
    control_schema: str = "penstock",
    max_deletes: str | None = None,
    rows_per_range: int = ROWS_PER_RANGE,
    note: Callable[[int, int], object] = lambda compared, ranges: None,
) -> Repair:
    """Compare a run's rows range by range, and plan to copy those that differ. Changes nothing.

    Args:
        run_id: the id of the run to repair.
        source: the source's connection, which is not stored with the run.
        target: the target's connection, which is not stored with the run.
        control_schema: the schema of the control tables.
        max_deletes: the maximum number of rows to delete because only the target has them, as in
            `CopySpec`. None allows 30% of them, or 1,000, if the run's mode leaves no rows from
            elsewhere, and no rows otherwise.
        rows_per_range: the approximate number of rows in a range.
        note: called after each range with the number compared and the number of all ranges.

    Raises:
        UsageError: there is no such run, or it is not complete.
        PlanningError: the rows cannot be partitioned by a key, or the target cannot replace ranges
            of it.
        PermanentError: more rows of the target would be deleted than allowed.
    """
    check_run_id(run_id)
    ends = connect(source, target)
    with closing(ends.open_target(control_schema)) as target_catalog, ExitStack() as stack:
        run = load_run(target_catalog, run_id, control_schema)
        ends = ends.with_planned_types(run.plan)
        source_catalog = stack.enter_context(closing(ends.open_source()))
        stored = spec_of(run_id, run.spec, source, target)
        values.choose(stored.show_values)
        _check_complete(stored, run, source_catalog, target_catalog)
        check_same_columns(stored, run, source_catalog)
        spec = _repair_spec(stored, run, target_catalog)
        ends.check_supported(spec)
        count = target_catalog.checksum(spec.target_ref, spec.where, Whole(), ()).rows
        ranges = min(MOST_RANGES, max(1, round(count / rows_per_range)))
        spec = replace(spec, partitions=ranges)
        repair_id = f"{run_id[: MAX_RUN_ID - 14]}-repair-{secrets.token_hex(3)}"
        planning = PlanRequest.of(spec, streams_of(spec.degree), repair_id, ends.capabilities)
        plan = _cut(planning, source_catalog, target_catalog)
        comparison = Comparison(
            spec, replace(run, plan=plan), source_catalog, target_catalog, checksums=True
        )
        differing, count = _compare_ranges(comparison, plan.partitions, note)
    repair = Repair(
        repair_id,
        run_id,
        replace(spec, partitions=None, run_id=repair_id),
        tuple(differing),
        len(plan.partitions),
        count,
        (*comparison.notes, *comparison.warnings),
    )
    _check_surplus(repair, stored, max_deletes)
    return repair


def repair_run(repair: Repair) -> Generator[Event, None, None]:
    """Copy the ranges of a repair; yields events, the last of which is `Finished`.

    Each range is replaced in one transaction, and all are compared at the end.

    Raises:
        PlanningError: the source or the target was altered since the repair was planned.
        RunFailed, RunFailedTransiently: after `Finished`.
    """
    spec = repair.spec
    ranges = [
        replace(each.partition, rows=None, bytes=None, id=f"r{number:04}")
        for number, each in enumerate(repair.ranges, start=1)
    ]
    create(spec, partitions=ranges)
    yield from resume(
        repair.run_id,
        source=spec.source,
        target=spec.target,
        control_schema=spec.control_schema,
        degree=spec.degree,
        verify=spec.verify,
    )


def _check_complete(
    spec: CopySpec, run: RunRow, source: SourceCatalog, target: TargetCatalog
) -> None:
    """Check that a run is complete.

    Raises:
        UsageError: rows of the run are still to be copied, or it marks rows instead of deleting
            them.
    """
    if spec.deletion.how == SOFT:
        raise UsageError(
            f"--repair: run {run.run_id} marks deleted rows (--deletes {spec.deletes}), which a "
            "repair would remove; use penstock watermark reset and repeat the copy instead, "
            "which reads all rows"
        )
    comparison = Comparison(spec, run, source, target, checksums=False)
    uncommitted = [p.id for p in run.plan.partitions if p.id not in comparison.records]
    if comparison.is_merged:
        return
    if uncommitted or comparison.table.name != spec.target_ref.name:
        what = (
            f"is not complete ({id_list(uncommitted)} not committed)"
            if uncommitted
            else "has unfinished steps"
        )
        raise UsageError(
            f"--repair: run {run.run_id} {what}; continue it with penstock resume {run.run_id}"
        )


def _repair_spec(stored: CopySpec, run: RunRow, target: TargetCatalog) -> CopySpec:
    """Return the spec of the run that repairs another.

    Raises:
        UsageError: the target's table has no key to partition it by.
    """
    unique_key = run.plan.load.conflict_columns or target.unique_key(stored.target_ref)
    pairs = {pair.target: pair.source for pair in run.plan.pairs}
    key = pairs.get(unique_key[0]) if unique_key else _range_key(run.plan)
    if key is None:
        raise UsageError(
            f"--repair: expected {stored.target_name} to have a primary or unique key whose "
            "first column is copied, to compare rows by ranges of it; found none; copy the "
            "table again with --mode truncate, recreate or swap"
        )
    options = {name: getattr(stored, name) for name in _KEPT}
    return CopySpec(
        source=stored.source,
        target=stored.target,
        mode=REPLACE.name,
        key=key,
        sequences="keep",
        verify="checksums",
        **options,
    )


def _cut(request: PlanRequest, source: SourceCatalog, target: TargetCatalog) -> PartitionPlan:
    """Plan ranges of the rows by a key.

    Raises:
        PlanningError: the rows cannot be partitioned by a key, or the target cannot replace ranges
            of it.
    """
    try:
        plan = plan_table(request, source, target)
    except PlanningError as error:
        raise PlanningError(
            "--repair compares and replaces rows by ranges of a key (--mode replace): "
            f"{error.message}; if this cannot be changed, copy the table again",
            error.diagnosis,
        ) from error
    return plan


def _range_key(plan: PartitionPlan) -> str | None:
    """Return the column by which a plan partitions; None if it partitions by anything else."""
    for partition in plan.partitions:
        extent = partition.extent
        if isinstance(extent, KeyRange) and not extent.key.expression:
            return extent.key.text
    return None


def _compare_ranges(
    comparison: Comparison,
    partitions: Sequence[Partition],
    note: Callable[[int, int], object],
) -> tuple[list[DifferingRange], int]:
    """Compare the ranges on both sides.

    Returns: the ranges that differ, and the target's rows in all ranges.
    """
    spec, differing, rows = comparison.spec, [], 0
    for number, partition in enumerate(partitions, start=1):
        mine = comparison.source.checksum(
            spec.relation, spec.where, partition.extent, comparison.compared
        )
        theirs = comparison.target.checksum(
            comparison.table, spec.where, partition.extent, comparison.compared
        )
        rows += theirs.rows
        if mine != theirs:
            differing.append(DifferingRange(partition, mine.rows, theirs.rows))
        note(number, len(partitions))
    return differing, rows


def _check_surplus(repair: Repair, repaired: CopySpec, max_deletes: str | None) -> None:
    """Check that the repair deletes no more rows than allowed.

    Raises:
        PermanentError: more rows of the target would be deleted than allowed.
    """
    owns_rows = repaired.load_mode.owns_selection or repaired.deletion.how == HARD
    text = max_deletes or (MOST_DELETED if owns_rows else "0%")
    if not repair.surplus or parse_most_deleted(text, "--max-deletes").allows(
        repair.surplus, repair.rows
    ):
        return
    why = (
        "check whether rows are missing from the source"
        if owns_rows
        else f"in mode {repaired.mode} they may come from elsewhere"
    )
    raise PermanentError(
        f"--repair would delete at least {quantity(repair.surplus, 'row')} of {repair.rows:,} in "
        f"{repaired.target_name} that the source does not have, so nothing was changed; {why}; "
        "to delete them, repeat the command with --max-deletes SHARE[,ROWS]"
    )
