"""Asset partitions as partitions of a copy: windows of time, ranges of a stored plan, values."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo

import dagster as dg

import penstock
from dagster_penstock.identity import plan_id_of
from penstock import (
    MODES,
    STRATEGIES,
    Bound,
    CopySpec,
    Crossing,
    Extent,
    Key,
    KeyIsNull,
    KeyRange,
    KeyValues,
    Partition,
    PartitionPlan,
    RunStatus,
    SpecMismatch,
    UsageError,
)

_BY_VALUE = (dg.StaticPartitionsDefinition, dg.DynamicPartitionsDefinition)
# The core's limit: ids are part of session names.
_ID_LENGTH = 10
_MINUTE = timedelta(minutes=1)
_ID = re.compile(rf"[A-Za-z0-9_.-]{{1,{_ID_LENGTH}}}")
MOST_RANGES = 1000
FIRST = "1"
# The options by which the core cuts a table.
_CUTS = ("partitions", "rows_per_partition", "bytes_per_partition", "interval", "values_query")


class Ranges(dg.StaticPartitionsDefinition):
    """Ranges of about equally many rows, named ``000`` and so on, with the bounds of a stored plan.

    Planning happens when the first range is copied, and the target keeps the plan: a range holds
    the same keys as long as `version` stays the same.
    """

    def __init__(self, count: int, version: str = FIRST) -> None:
        self.count = count
        self.version = version
        super().__init__([f"{number:03}" for number in range(count)])


def ranges(count: int, version: str = FIRST) -> Ranges:
    """Create asset partitions that are ranges of `CopySpec.key`.

    If the key can be NULL, the last one holds those rows. If the source has too few distinct values
    for that many ranges, the last ones are empty.

    Parameters:
        count: the number of ranges, 2 to 1,000.
        version: the name of the stored plan. A new version creates a new plan, after which every
            partition must be copied again; mode append would then double the rows, so do not change
            it there.

    Raises:
        DagsterInvalidDefinitionError: the count or the version is invalid.
    """
    if not 2 <= count <= MOST_RANGES:
        raise dg.DagsterInvalidDefinitionError(
            f"ranges: expected a count from 2 to {MOST_RANGES:,}, found {count:,}"
        )
    if not version.strip():
        raise dg.DagsterInvalidDefinitionError("ranges: expected a version, found an empty string")
    return Ranges(count, version)


def check_partitions(spec: CopySpec, partitions_def: dg.PartitionsDefinition) -> None:
    """Check that a copy can have asset partitions.

    Raises:
        UsageError: the copy cannot have these asset partitions.
    """
    if isinstance(partitions_def, Ranges):
        strategies = [name for name, how in STRATEGIES.items() if how.chooses or how.cuts_evenly]
    elif isinstance(partitions_def, dg.TimeWindowPartitionsDefinition):
        strategies = [name for name, how in STRATEGIES.items() if how.takes_interval]
    elif isinstance(partitions_def, _BY_VALUE):
        strategies = [name for name, how in STRATEGIES.items() if how.takes_values_query]
    elif isinstance(partitions_def, dg.MultiPartitionsDefinition):
        strategies = [name for name, how in STRATEGIES.items() if how.chooses]
        _check_dimensions(spec, partitions_def)
    else:
        raise UsageError(
            "partitions_def: expected time windows, ranges(), static or dynamic partitions, one "
            "for each value of the key, or time windows crossed with those; found "
            f"{type(partitions_def).__name__}"
        )
    if spec.key is None:
        raise UsageError("key: expected the column that the asset is partitioned by; found none")
    if spec.load_mode.merges_at_end:
        flag = "incremental" if spec.incremental else "atomic"
        raise UsageError(
            f"{flag}: all rows come in one transaction, so it goes without partitions; leave "
            "partitions_def out"
        )
    if spec.load_mode.starts_empty:
        modes = ", ".join(name for name, mode in MODES.items() if not mode.starts_empty)
        raise UsageError(
            f"mode: expected {modes}, which leave the asset's other partitions alone; found "
            f"{spec.mode}"
        )
    replanned = isinstance(partitions_def, Ranges) and partitions_def.version != FIRST
    if replanned and spec.load_mode.only_adds:
        raise UsageError(
            "ranges: version: mode append cannot remove what an older plan has loaded, so a new "
            f"plan would double the rows; expected {FIRST!r}, found another"
        )
    if spec.strategy not in strategies:
        raise UsageError(
            f"strategy: expected {', '.join(strategies)} with {type(partitions_def).__name__}; "
            f"found {spec.strategy}"
        )
    for name in _CUTS:
        if getattr(spec, name) is not None:
            raise UsageError(
                f"{name}: leave it out, since the asset's partitions cut the copy; found "
                f"{getattr(spec, name)!r}"
            )
    if spec.on_snapshot_lost == "restart":
        raise UsageError(
            "on_snapshot_lost: restart copies every partition of a run again, even those already "
            "materialized; expected fail or accept"
        )


def _check_dimensions(spec: CopySpec, partitions_def: dg.MultiPartitionsDefinition) -> None:
    """Check the two dimensions of asset partitions.

    Raises:
        UsageError: the dimensions are not time windows and values, or the copy cannot have both.
    """
    found = {each.name: each.partitions_def for each in partitions_def.partitions_defs}
    windows = [
        n for n, each in found.items() if isinstance(each, dg.TimeWindowPartitionsDefinition)
    ]
    values = [n for n, each in found.items() if isinstance(each, _BY_VALUE)]
    if not (windows and values) or any(isinstance(each, Ranges) for each in found.values()):
        raise UsageError(
            "partitions_def: expected a dimension of time windows, by key, and one of static or "
            "dynamic partitions, named as the column whose values they are; found "
            + ", ".join(f"{name}: {type(each).__name__}" for name, each in found.items())
        )
    if spec.key in values:
        raise UsageError(
            f"key: expected the column of the time windows ({windows[0]}); found {spec.key}, the "
            "name of the other dimension"
        )
    if spec.load_mode.attaches:
        raise UsageError(
            "mode: expected append, replace or upsert with two dimensions, since what is attached "
            f"is a partition by one key; found {spec.mode}"
        )


def copy_partitions(
    spec: CopySpec, partitions_def: dg.PartitionsDefinition, keys: Sequence[str]
) -> dict[str, Partition]:
    """Return the copy's partitions by key, for time windows or values; not for `Ranges`."""
    assert spec.key is not None
    if not isinstance(partitions_def, dg.MultiPartitionsDefinition):
        return {
            name: Partition(partition_id(name), _extent(Key(spec.key), partitions_def, name))
            for name in keys
        }
    dimensions = {each.name: each.partitions_def for each in partitions_def.partitions_defs}
    found = {}
    for name in keys:
        parts = partitions_def.get_partition_key_from_str(name).keys_by_dimension
        # The dimension of time windows comes first, because it is by the copy's key.
        windows, values = sorted(
            (
                _extent(Key(spec.key if _is_time(each) else dimension), each, parts[dimension])
                for dimension, each in dimensions.items()
            ),
            key=lambda extent: isinstance(extent, KeyValues),
        )
        found[name] = Partition(partition_id(name), Crossing(windows, values))
    return found


def _is_time(partitions_def: dg.PartitionsDefinition) -> bool:
    return isinstance(partitions_def, dg.TimeWindowPartitionsDefinition)


def _extent(key: Key, partitions_def: dg.PartitionsDefinition, name: str) -> KeyRange | KeyValues:
    if isinstance(partitions_def, dg.TimeWindowPartitionsDefinition):
        window = partitions_def.time_window_for_partition_key(name)
        return KeyRange(key, Bound("", bound_text(window.start)), Bound("", bound_text(window.end)))
    return KeyValues(key, (Bound("", name),))


def bound_text(moment: datetime) -> str:
    """Return the start or the end of a window as text.

    A column with a time zone gets the moment, one without gets the time of day.

    When clocks are put back, an hour of local times repeats, and rows of a column without a time
    zone are ambiguous in it. They belong to the later windows, which begin after all of them have
    been written, and the earlier ones are empty. So windows never overlap, and leave nothing out.
    """
    utc = moment.astimezone(UTC)
    local = moment.replace(tzinfo=None)
    zone = moment.tzinfo
    if moment.fold == 0:
        while _comes_twice(local, zone) and _comes_twice(local - _MINUTE, zone):
            local -= _MINUTE
    return local.replace(tzinfo=timezone(local - utc.replace(tzinfo=None))).isoformat()


def _comes_twice(local: datetime, zone: tzinfo | None) -> bool:
    first, second = (local.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    return first is not None and second is not None and first > second


def partition_id(name: str) -> str:
    """Return a partition's id: its key, or a hash if it is too long or has other characters."""
    if _ID.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode()).digest()
    return base64.b32encode(digest).decode()[:_ID_LENGTH].lower()


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
