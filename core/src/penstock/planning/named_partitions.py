"""Partitions that the caller names: checked for the key's type, and for overlaps.

They need not cover the table. An orchestrator whose own partitions are ranges of a key copies some
of them today, and others tomorrow.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from penstock.backends.api.source import SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.errors import UsageError
from penstock.model.extents import (
    Bound,
    Extent,
    HashBucket,
    Key,
    KeyIsNull,
    KeyOther,
    KeyRange,
    KeyValues,
)
from penstock.model.plans import Partition
from penstock.planning.named_bounds import read_ranges, read_values
from penstock.planning.orders import compared_key
from penstock.spec.copy_spec import CopySpec
from penstock.spec.ids import MAX_PARTITION_ID
from penstock.spec.modes import mode_names

_ID = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_PARTITION_ID}}}")
_BY_KEY = KeyRange | KeyValues | KeyIsNull | KeyOther | HashBucket


@dataclass(frozen=True, slots=True)
class ResolvedPartitions:
    partitions: tuple[Partition, ...]
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]


def check_given_partitions(spec: CopySpec, given: Sequence[Partition]) -> None:
    """
    Raises:
        UsageError: an id is malformed, or appears twice; an extent does not select by the key; the
            mode empties the table.
    """
    if spec.load_mode.starts_empty:
        those = ", ".join(mode_names(lambda mode: not mode.starts_empty))
        raise UsageError(
            f"given partitions: expected --mode {those}, which leave rows of "
            f"other partitions alone; found {spec.mode}"
        )
    for name, count in Counter(partition.id for partition in given).items():
        if _ID.fullmatch(name) is None:
            raise UsageError(
                f"given partitions: id: expected 1 to {MAX_PARTITION_ID} letters, digits or any of "
                f"_.-, found {name!r}"
            )
        if count > 1:
            raise UsageError(f"given partitions: expected each id once, found {name!r} twice")
    for partition in given:
        if not isinstance(partition.extent, _BY_KEY):
            raise UsageError(
                f"given partitions: {partition.id}: expected an extent that selects by a key, "
                f"found {partition.extent}"
            )
        if partition.extent.key.text != spec.key:
            raise UsageError(
                f"given partitions: {partition.id}: expected one by --key {spec.key}, found one by "
                f"{partition.extent.key.text}"
            )


def check_series(series: str) -> None:
    """
    Raises:
        UsageError: the name is empty.
    """
    if not series.strip():
        raise UsageError(f"series: expected a name, found {series!r}")


def resolve_partitions(
    spec: CopySpec,
    given: Sequence[Partition],
    source: SourceCatalog,
    target: TargetCatalog,
    columns: Collection[str],
) -> ResolvedPartitions:
    """The partitions with bounds of the key's type, as the source writes them.

    Raises:
        PlanningError: a bound is not a value of the key's type, or partitions overlap.
    """
    assert spec.key is not None
    relation = spec.relation
    key = Key(spec.key, expression=spec.key not in columns)
    # Even if its type is not needed: an error in the expression shows now.
    source.key_type(relation, key)
    if not all(isinstance(partition.extent, HashBucket) for partition in given):
        deletes = spec.load_mode.deletes_by_partition
        key = compared_key(spec, key, source, target, on_both_sides=deletes)
    extents: dict[str, Extent] = {}
    for partition in given:
        assert isinstance(partition.extent, _BY_KEY)
        extents[partition.id] = replace(partition.extent, key=key)
    ranges = {id_: extent for id_, extent in extents.items() if isinstance(extent, KeyRange)}
    if ranges:
        texts = [(_text(extent.lower), _text(extent.upper)) for extent in ranges.values()]
        found = read_ranges(source, relation, key, texts)
        for id_, (lower, upper) in zip(ranges, found, strict=True):
            extents[id_] = KeyRange(key, lower, upper)
    lists = {id_: extent for id_, extent in extents.items() if isinstance(extent, KeyValues)}
    if lists:
        values = [value.text for extent in lists.values() for value in extent.values]
        read = iter(read_values(source, relation, key, values))
        for id_, extent in lists.items():
            extents[id_] = KeyValues(key, tuple(next(read) for _ in extent.values))
    hashed = all(isinstance(extent, HashBucket) for extent in extents.values())
    _, indexed = source.key_facts(relation, key)
    warnings = []
    if not indexed and not hashed:
        which = f"each of {len(given):,} partitions" if len(given) > 1 else "the partition"
        warnings.append(f"{key.text} has no index: {which} scans the whole table")
    return ResolvedPartitions(
        tuple(replace(partition, extent=extents[partition.id]) for partition in given),
        (
            f"given: {len(given):,} partition{'s' if len(given) > 1 else ''} by {key.text}, "
            "named by the caller",
        ),
        tuple(warnings),
    )


def _text(bound: Bound | None) -> str | None:
    return bound.text if bound else None
