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
    Ending,
    Entry,
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

_VALUES = (dg.StaticPartitionsDefinition, dg.DynamicPartitionsDefinition)
# The core's limit, because ids are part of session names.
_ID_LENGTH = 10
_ID = re.compile(rf"[A-Za-z0-9_.-]{{1,{_ID_LENGTH}}}")
_MINUTE = timedelta(minutes=1)
MAX_RANGES = 1000
FIRST_VERSION = "1"
# The options by which the core partitions a table.
_PARTITION_OPTIONS = (
    "partitions",
    "interval",
    "values_query",
)


class Ranges(dg.StaticPartitionsDefinition):
    """Ranges with about the same number of rows, named ``000`` and so on, bounded by a stored plan.

    The first copy of a range creates the plan, and the target keeps it: a range holds the same keys
    as long as `version` stays the same. See `ranges`.

    Args:
        count: the number of ranges.
        version: the name of the stored plan.
    """

    def __init__(self, count: int, version: str = FIRST_VERSION) -> None:
        self.count = count
        self.version = version
        super().__init__([f"{number:03}" for number in range(count)])


def ranges(count: int, version: str = FIRST_VERSION) -> Ranges:
    """Create asset partitions that are ranges of `CopySpec.key`.

    If the key can be NULL, the last range holds those rows. If the source has fewer distinct values
    than there are ranges, the last ones are empty.

    Args:
        count: the number of ranges, 2 to 1,000.
        version: the name of the stored plan. A new version creates a new plan, after which every
            partition must be copied again. Mode append rejects it, since rows would double.

    Raises:
        DagsterInvalidDefinitionError: the count or the version is invalid.
    """
    if not 2 <= count <= MAX_RANGES:
        raise dg.DagsterInvalidDefinitionError(
            f"ranges: expected a count from 2 to {MAX_RANGES:,}, found {count:,}"
        )
    if not version.strip():
        raise dg.DagsterInvalidDefinitionError("ranges: expected a version, found an empty string")
    return Ranges(count, version)


def check_partitions(spec: CopySpec, partitions_def: dg.PartitionsDefinition) -> None:
    """Check that a copy works with asset partitions.

    Raises:
        UsageError: an option of the copy does not work with these partitions.
    """
    if isinstance(partitions_def, Ranges):
        strategies = [name for name, each in STRATEGIES.items() if each.chooses or each.is_even]
    elif isinstance(partitions_def, dg.TimeWindowPartitionsDefinition):
        strategies = [name for name, each in STRATEGIES.items() if each.takes_interval]
    elif isinstance(partitions_def, _VALUES):
        strategies = [name for name, each in STRATEGIES.items() if each.takes_values_query]
    elif isinstance(partitions_def, dg.MultiPartitionsDefinition):
        strategies = [name for name, each in STRATEGIES.items() if each.chooses]
        _check_dimensions(spec, partitions_def)
    else:
        raise UsageError(
            "partitions_def: expected time windows, ranges(), static or dynamic partitions (one "
            "for each value of the key), or time windows crossed with those; found "
            f"{type(partitions_def).__name__}"
        )
    if spec.key is None:
        raise UsageError("key: expected the column by which the asset is partitioned, found none")
    if spec.load_mode.ending is Ending.MERGE:
        flag = "incremental" if spec.incremental else "atomic"
        raise UsageError(
            f"{flag}: loads all rows in one transaction, so the asset cannot have partitions; "
            "leave partitions_def out"
        )
    if spec.load_mode.starts_empty:
        modes = ", ".join(name for name, mode in MODES.items() if not mode.starts_empty)
        raise UsageError(
            f"mode: expected {modes}, which keep the asset's other partitions; found {spec.mode}"
        )
    version = partitions_def.version if isinstance(partitions_def, Ranges) else FIRST_VERSION
    if version != FIRST_VERSION and spec.load_mode.only_adds:
        raise UsageError(
            "ranges: version: mode append cannot remove the rows that an older plan has loaded, so "
            f"a new plan would double them; expected {FIRST_VERSION!r}, found "
            f"{version!r}"
        )
    if spec.strategy not in strategies:
        raise UsageError(
            f"strategy: expected {', '.join(strategies)} with {type(partitions_def).__name__}; "
            f"found {spec.strategy}"
        )
    for name in _PARTITION_OPTIONS:
        if getattr(spec, name) is not None:
            raise UsageError(
                f"{name}: leave it out, since the asset's partitions are those of the copy; found "
                f"{getattr(spec, name)!r}"
            )
    if spec.on_snapshot_lost == "restart":
        raise UsageError(
            "on_snapshot_lost: expected fail or accept, found restart, which would copy partitions "
            "again that are already materialized"
        )


def _check_dimensions(spec: CopySpec, partitions_def: dg.MultiPartitionsDefinition) -> None:
    """Check the two dimensions of asset partitions.

    Raises:
        UsageError: the dimensions are not time windows and values, or the copy cannot have both.
    """
    dimensions = {each.name: each.partitions_def for each in partitions_def.partitions_defs}
    windows = [
        n for n, each in dimensions.items() if isinstance(each, dg.TimeWindowPartitionsDefinition)
    ]
    values = [n for n, each in dimensions.items() if isinstance(each, _VALUES)]
    if not (windows and values) or any(isinstance(each, Ranges) for each in dimensions.values()):
        raise UsageError(
            "partitions_def: expected a dimension of time windows of the key, and one of static or "
            "dynamic partitions, with the name of the column whose values they are; found "
            + ", ".join(f"{name}: {type(each).__name__}" for name, each in dimensions.items())
        )
    if spec.key in values:
        raise UsageError(
            f"key: expected the column of the time windows ({windows[0]}); found {spec.key}, the "
            "name of the dimension of values"
        )
    if spec.load_mode.entry is Entry.ATTACH:
        raise UsageError(
            "mode: expected append, replace or upsert with two dimensions, since the target's "
            f"child tables are bounded by one key; found {spec.mode}"
        )


def copy_partitions(
    spec: CopySpec, partitions_def: dg.PartitionsDefinition, keys: Sequence[str]
) -> dict[str, Partition]:
    """Return the partitions of a copy, by the keys of asset partitions other than `Ranges`.

    Args:
        spec: the copy.
        partitions_def: the asset's partitions.
        keys: the keys of the partitions to copy.
    """
    assert spec.key is not None
    if not isinstance(partitions_def, dg.MultiPartitionsDefinition):
        return {
            name: Partition(partition_id(name), _extent(Key(spec.key), partitions_def, name))
            for name in keys
        }
    dimensions = {each.name: each.partitions_def for each in partitions_def.partitions_defs}
    partitions = {}
    for name in keys:
        parts = partitions_def.get_partition_key_from_str(name).keys_by_dimension
        # Time windows come first, because they are ranges of the copy's key.
        windows, values = sorted(
            (
                _extent(Key(spec.key if _is_time(each) else dimension), each, parts[dimension])
                for dimension, each in dimensions.items()
            ),
            key=lambda extent: isinstance(extent, KeyValues),
        )
        partitions[name] = Partition(partition_id(name), Crossing(windows, values))
    return partitions


def _is_time(partitions_def: dg.PartitionsDefinition) -> bool:
    return isinstance(partitions_def, dg.TimeWindowPartitionsDefinition)


def _extent(key: Key, partitions_def: dg.PartitionsDefinition, name: str) -> KeyRange | KeyValues:
    if isinstance(partitions_def, dg.TimeWindowPartitionsDefinition):
        window = partitions_def.time_window_for_partition_key(name)
        return KeyRange(key, Bound("", bound_text(window.start)), Bound("", bound_text(window.end)))
    return KeyValues(key, (Bound("", name),))


def bound_text(moment: datetime) -> str:
    """Return the start or the end of a window as text: local time, and its offset from UTC.

    A column with a time zone is compared with the moment, one without with the local time.

    When clocks are put back, an hour of local times repeats, and rows in it are ambiguous if their
    column has no time zone. They belong to the later windows, which begin after all of them have
    been written, and the earlier ones are empty. So windows neither overlap nor leave gaps.
    """
    utc = moment.astimezone(UTC)
    local = moment.replace(tzinfo=None)
    zone = moment.tzinfo
    if moment.fold == 0:
        while _repeats(local, zone) and _repeats(local - _MINUTE, zone):
            local -= _MINUTE
    return local.replace(tzinfo=timezone(local - utc.replace(tzinfo=None))).isoformat()


def _repeats(local: datetime, zone: tzinfo | None) -> bool:
    """Whether a local time occurs twice, because clocks are put back."""
    first, second = (local.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    return first is not None and second is not None and first > second


def partition_id(name: str) -> str:
    """Return a partition's id: its key, or a hash if it is too long or has other characters."""
    if _ID.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode()).digest()
    return base64.b32encode(digest).decode()[:_ID_LENGTH].lower()


def stored_ranges(spec: CopySpec, partitions_def: Ranges, series: str) -> dict[str, Extent]:
    """Return the extents of ranges by their keys, without the empty ones.

    They are those of a plan in the target, which the first call creates.

    Args:
        spec: the copy.
        partitions_def: the ranges.
        series: the name of the series of the asset's copies, which identifies the plan.

    Raises:
        UsageError: a different plan is stored under this version.
        PenstockError: planning failed.
    """
    run = _stored_plan(spec, partitions_def, series).run
    key, strategy = run.spec["key"], run.spec["strategy"]
    count = int(run.spec["partitions"]) + _has_null(run.plan)
    if (key, count) != (spec.key, partitions_def.count) or not _allows(spec, strategy):
        raise UsageError(
            f"ranges: the plan stored as version {partitions_def.version!r} has {count} ranges of "
            f"{key} by strategy {strategy}, not {partitions_def.count} of {spec.key} by "
            f"{spec.strategy}: "
            + (
                "keep those, since mode append cannot reload rows"
                if spec.load_mode.only_adds
                else "pass another version, then copy every partition again"
            )
        )
    names = partitions_def.get_partition_keys()
    extents = [partition.extent for partition in run.plan.partitions]
    bounded: list[Extent] = [extent for extent in extents if not isinstance(extent, KeyIsNull)]
    ranges_by_name = dict(zip(names, bounded, strict=False))
    if _has_null(run.plan):
        ranges_by_name[names[-1]] = extents[-1]
    return ranges_by_name


def _stored_plan(spec: CopySpec, partitions_def: Ranges, series: str) -> RunStatus:
    """Return the run whose plan has the ranges, and create it first if necessary."""
    run_id = plan_id_of(series)
    # If this fails for another reason than a missing plan, the same error is raised below.
    with suppress(UsageError):
        return penstock.status(run_id, target=spec.target, control_schema=spec.control_schema)
    request = replace(spec, partitions=partitions_def.count, run_id=run_id, verify="none")
    if not spec.partition_strategy.hashes:
        draft = penstock.plan(replace(request, strategy="range"))
        if _has_null(draft):
            request = replace(request, partitions=partitions_def.count - 1)
        if spec.partition_strategy.chooses:
            # Statistics have bounds for about a hundred ranges. For more, planning reads every key.
            enough = len(draft.partitions) >= partitions_def.count
            request = replace(request, strategy="range" if enough else "ntile")
    try:
        return penstock.create(request)
    except SpecMismatch:
        # Another run has just stored a plan, from an earlier state of the source.
        return penstock.status(run_id, target=spec.target, control_schema=spec.control_schema)


def _allows(spec: CopySpec, strategy: str) -> bool:
    """Whether a copy may use ranges that were partitioned by a strategy."""
    stored_strategy, requested = STRATEGIES[strategy], spec.partition_strategy
    return (
        stored_strategy.is_even and not stored_strategy.hashes
        if requested.chooses
        else stored_strategy is requested
    )


def _has_null(plan: PartitionPlan) -> bool:
    """Whether a plan has a partition of the rows whose key is NULL."""
    return any(isinstance(partition.extent, KeyIsNull) for partition in plan.partitions)
