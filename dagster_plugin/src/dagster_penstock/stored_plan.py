"""The bounds of `ranges`: of a plan that is made once, and kept in the target."""

from __future__ import annotations

from dataclasses import replace

import penstock
from dagster_penstock.identity import plan_id_of
from dagster_penstock.partitions import Ranges
from penstock import CopySpec, Extent, KeyIsNull, PartitionPlan, RunStatus, SpecMismatch, UsageError


def stored_ranges(spec: CopySpec, ranges: Ranges, series: str) -> dict[str, Extent]:
    """What each of the asset's partitions selects; one that holds nothing is not there.

    Raises:
        UsageError: the plan that is stored under this version is another one.
        PenstockError: it cannot be made.
    """
    stored = _stored(spec, ranges, series)
    plan = stored.run.plan
    key, count = stored.run.spec["key"], _count(stored)
    if (key, count) != (spec.key, ranges.count):
        raise UsageError(
            f"ranges: the plan that is stored as version {ranges.version!r} has {count} ranges of "
            f"{key}; found {ranges.count} of {spec.key}: expected another version, and then every "
            "partition copied again"
        )
    names = ranges.get_partition_keys()
    extents = [partition.extent for partition in plan.partitions]
    ranged: list[Extent] = [extent for extent in extents if not isinstance(extent, KeyIsNull)]
    found = dict(zip(names, ranged, strict=False))
    if _with_null(plan):
        found[names[-1]] = extents[-1]
    return found


def _stored(spec: CopySpec, ranges: Ranges, series: str) -> RunStatus:
    strategy = "range" if spec.strategy == "auto" else spec.strategy
    run_id = plan_id_of(series)
    wanted = replace(spec, strategy=strategy, partitions=ranges.count, run_id=run_id, verify="none")
    if strategy != "hash" and _with_null(penstock.plan(replace(wanted, strategy="range"))):
        wanted = replace(wanted, partitions=ranges.count - 1)
    try:
        return penstock.create(wanted)
    except SpecMismatch:
        # Its bounds hold whatever columns, for instance, are copied by now.
        return penstock.status(run_id, target=spec.target, control_schema=spec.control_schema)


def _count(stored: RunStatus) -> int:
    return int(stored.run.spec["partitions"]) + _with_null(stored.run.plan)


def _with_null(plan: PartitionPlan) -> bool:
    return any(isinstance(partition.extent, KeyIsNull) for partition in plan.partitions)
