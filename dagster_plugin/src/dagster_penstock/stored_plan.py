"""The bounds of `ranges`, from a plan that is created once and kept in the target."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import penstock
from dagster_penstock.identity import plan_id_of
from dagster_penstock.partitions import Ranges
from penstock import (
    STRATEGIES,
    CopySpec,
    Extent,
    KeyIsNull,
    PartitionPlan,
    RunStatus,
    SpecMismatch,
    UsageError,
)


def stored_ranges(spec: CopySpec, ranges: Ranges, series: str) -> dict[str, Extent]:
    """Return the extents of the asset's partitions, without the empty ones.

    Raises:
        UsageError: another plan is stored under this version.
        PenstockError: planning failed.
    """
    stored = _stored(spec, ranges, series)
    plan = stored.run.plan
    key, strategy, count = stored.run.spec["key"], stored.run.spec["strategy"], _count(stored)
    if (key, count) != (spec.key, ranges.count) or not _is_asked_for(strategy, spec):
        raise UsageError(
            f"ranges: the plan stored as version {ranges.version!r} has {count} ranges of "
            f"{key} by strategy {strategy}, not {ranges.count} of {spec.key} by "
            f"{spec.strategy}: "
            + (
                "keep those, since mode append cannot reload rows"
                if spec.load_mode.only_adds
                else "pass another version, and then copy every partition again"
            )
        )
    names = ranges.get_partition_keys()
    extents = [partition.extent for partition in plan.partitions]
    ranged: list[Extent] = [extent for extent in extents if not isinstance(extent, KeyIsNull)]
    found = dict(zip(names, ranged, strict=False))
    if _with_null(plan):
        found[names[-1]] = extents[-1]
    return found


def _stored(spec: CopySpec, ranges: Ranges, series: str) -> RunStatus:
    run_id = plan_id_of(series)
    # Either there is no plan yet, or the same error shows below.
    with suppress(UsageError):
        return penstock.status(run_id, target=spec.target, control_schema=spec.control_schema)
    wanted = replace(spec, partitions=ranges.count, run_id=run_id, verify="none")
    if not spec.cut_strategy.hashes:
        guess = penstock.plan(replace(wanted, strategy="range"))
        if _with_null(guess):
            wanted = replace(wanted, partitions=ranges.count - 1)
        if spec.cut_strategy.chooses:
            # Statistics have bounds for about a hundred ranges. For more, planning looks at every
            # key.
            enough = len(guess.partitions) >= ranges.count
            wanted = replace(wanted, strategy="range" if enough else "ntile")
    try:
        return penstock.create(wanted)
    except SpecMismatch:
        # Another run has just stored a plan, from an earlier state of the source.
        return penstock.status(run_id, target=spec.target, control_schema=spec.control_schema)


def _is_asked_for(strategy: str, spec: CopySpec) -> bool:
    how, asked = STRATEGIES[strategy], spec.cut_strategy
    return how.cuts_evenly and not how.hashes if asked.chooses else how is asked


def _count(stored: RunStatus) -> int:
    return int(stored.run.spec["partitions"]) + _with_null(stored.run.plan)


def _with_null(plan: PartitionPlan) -> bool:
    return any(isinstance(partition.extent, KeyIsNull) for partition in plan.partitions)
