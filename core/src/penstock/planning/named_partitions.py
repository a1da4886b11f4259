"""Partitions that the caller defines: checked against the key's type, and for overlaps.

They need not cover the table. An orchestrator whose own partitions are ranges of a key copies some
of them today, and others tomorrow.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.errors import UsageError
from penstock.model.extents import (
    Bound,
    Crossing,
    Extent,
    HashBucket,
    Key,
    KeyIsNull,
    KeyOther,
    KeyRange,
    KeyValues,
)
from penstock.model.plans import CHOSEN, Partition
from penstock.model.tables import Relation
from penstock.planning.answers import KnownAnswers, evaluate_together
from penstock.planning.named_bounds import read_ranges, read_values
from penstock.planning.questions import KeyFacts, KeyType, Order, RankedValues
from penstock.spec.groups.loading import Loading
from penstock.spec.groups.route import Route
from penstock.spec.ids import MAX_PARTITION_ID
from penstock.spec.modes import Ending, Entry, Mode, mode_names

_ID = re.compile(rf"[A-Za-z0-9_.-]{{1,{MAX_PARTITION_ID}}}")
_BY_KEY = KeyRange | KeyValues | KeyIsNull | KeyOther | HashBucket


@dataclass(frozen=True, slots=True)
class ResolvedPartitions:
    """The caller's partitions with their values normalized by the source, and remarks on them."""

    partitions: tuple[Partition, ...]
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]


def check_explicit_partitions(
    loading: Loading, key: str | None, partitions: Sequence[Partition]
) -> None:
    """Check partitions that the caller defines.

    Args:
        loading: the options for loading.
        key: the key of the partitions; None if none is named.
        partitions: the partitions.

    Raises:
        UsageError: an id is malformed, or appears twice; an extent does not select by the key; the
            mode empties the table.
    """
    if loading.load_mode.ending is Ending.MERGE:
        flag = "--incremental" if loading.incremental else "--atomic"
        raise UsageError(
            f"{flag} commits all partitions in one transaction, but given partitions are committed "
            "one by one; use one or the other"
        )
    if loading.load_mode.starts_empty:
        modes = ", ".join(mode_names(lambda mode: not mode.starts_empty))
        raise UsageError(
            f"given partitions: expected --mode {modes}, which leave rows of "
            f"other partitions alone; found {loading.mode}"
        )
    for name, count in Counter(partition.id for partition in partitions).items():
        if _ID.fullmatch(name) is None:
            raise UsageError(
                f"given partitions: id: expected 1 to {MAX_PARTITION_ID} letters, digits or any of "
                f"_.-, found {name!r}"
            )
        if count > 1:
            raise UsageError(f"given partitions: expected each id once, found {name!r} twice")
    crossings: dict[Crossing, str] = {}
    for partition in partitions:
        extent = partition.extent
        if isinstance(extent, Crossing):
            first_id = crossings.setdefault(extent, partition.id)
            if first_id != partition.id:
                raise UsageError(
                    f"given partitions: expected partitions that do not overlap, found {first_id} "
                    f"and {partition.id}, which are both {extent}"
                )
            extent = extent.first
        if not isinstance(extent, _BY_KEY):
            raise UsageError(
                f"given partitions: {partition.id}: expected an extent that selects by a key, "
                f"found {partition.extent}"
            )
        if extent.key.text != key:
            raise UsageError(
                f"given partitions: {partition.id}: expected an extent by --key {key}, found one "
                f"by {extent.key.text}"
            )


def check_series(series: str) -> None:
    """Check the name of a series.

    Raises:
        UsageError: the name is empty.
    """
    if not series.strip():
        raise UsageError(f"series: expected a name, found {series!r}")


def resolve_partitions(
    route: Route,
    mode: Mode,
    key_text: str | None,
    partitions: Sequence[Partition],
    answers: KnownAnswers,
    columns: Collection[str],
) -> ResolvedPartitions:
    """Return the partitions with bounds of the key's type, in the source's notation.

    Args:
        route: the route of the copy.
        mode: the mode of the copy.
        key_text: the key of the partitions; crossings have keys of their own.
        partitions: the partitions as the caller defines them.
        answers: the answers so far.
        columns: the names of the source's columns.

    Raises:
        PlanningError: a bound is not a value of the key's type, or partitions overlap.
    """
    crossings = {p.id: p.extent for p in partitions if isinstance(p.extent, Crossing)}
    if crossings:
        return _resolve_crossings(route, mode, partitions, crossings, answers, columns)
    assert key_text is not None
    relation = route.relation
    plain_key = Key(key_text, expression=key_text not in columns)
    # Look the key up even if its type is not needed, to report an error in the expression now.
    _, key = evaluate_together(
        lambda: answers[KeyType(relation, plain_key)],
        lambda: _compared_key(route, mode, partitions, plain_key, answers),
    )
    extents: dict[str, Extent] = {}
    for partition in partitions:
        assert isinstance(partition.extent, _BY_KEY)
        extents[partition.id] = replace(partition.extent, key=key)
    ranges, values, (_, indexed) = evaluate_together(
        lambda: _resolve_ranges(relation, key, extents, answers),
        lambda: _resolve_values(relation, key, extents, answers),
        lambda: answers[KeyFacts(relation, key)],
    )
    extents |= ranges | values
    hashed = all(isinstance(extent, HashBucket) for extent in extents.values())
    warnings = []
    if not indexed and not hashed:
        which = (
            f"each of {len(partitions):,} partitions" if len(partitions) > 1 else "the partition"
        )
        warnings.append(f"{key.text} has no index: {which} scans the whole table")
    return ResolvedPartitions(
        tuple(replace(partition, extent=extents[partition.id]) for partition in partitions),
        (_reason(partitions, key.text),),
        tuple(warnings),
    )


def _compared_key(
    route: Route, mode: Mode, partitions: Sequence[Partition], key: Key, answers: KnownAnswers
) -> Key:
    """Return the key with the collation for all comparisons."""
    if all(isinstance(partition.extent, HashBucket) for partition in partitions):
        return key
    shared_with = route.target_ref if mode.entry is Entry.REPLACE else None
    return replace(key, collation=answers[Order(route.relation, key, shared_with)])


def _resolve_ranges(
    relation: Relation, key: Key, extents: Mapping[str, Extent], answers: KnownAnswers
) -> dict[str, Extent]:
    ranges = {id_: extent for id_, extent in extents.items() if isinstance(extent, KeyRange)}
    if not ranges:
        return {}
    texts = [(_text(extent.lower), _text(extent.upper)) for extent in ranges.values()]
    bounds = read_ranges(
        lambda each: answers[RankedValues(relation, key, each, ordered=True)], key, texts
    )
    return {
        id_: KeyRange(key, lower, upper) for id_, (lower, upper) in zip(ranges, bounds, strict=True)
    }


def _resolve_values(
    relation: Relation, key: Key, extents: Mapping[str, Extent], answers: KnownAnswers
) -> dict[str, Extent]:
    lists = {id_: extent for id_, extent in extents.items() if isinstance(extent, KeyValues)}
    if not lists:
        return {}
    values = [value.text for extent in lists.values() for value in extent.values]
    read = iter(
        read_values(
            lambda each: answers[RankedValues(relation, key, each, ordered=False)], key, values
        )
    )
    return {
        id_: KeyValues(key, tuple(next(read) for _ in extent.values))
        for id_, extent in lists.items()
    }


def _resolve_crossings(
    route: Route,
    mode: Mode,
    partitions: Sequence[Partition],
    crossings: Mapping[str, Crossing],
    answers: KnownAnswers,
    columns: Collection[str],
) -> ResolvedPartitions:
    """Resolve each side by itself: two crossings are disjoint if either side is."""

    def side(extents: Iterable[KeyRange | KeyValues]) -> tuple[dict[Extent, Extent], bool]:
        distinct = [*dict.fromkeys(extents)]
        parts = [Partition(str(number), extent) for number, extent in enumerate(distinct)]
        text = distinct[0].key.text
        planned = resolve_partitions(route, mode, text, parts, answers, columns)
        resolved = [partition.extent for partition in planned.partitions]
        return dict(zip(distinct, resolved, strict=True)), not planned.warnings

    (firsts, first_indexed), (seconds, second_indexed) = evaluate_together(
        lambda: side(each.first for each in crossings.values()),
        lambda: side(each.second for each in crossings.values()),
    )
    keys = " and ".join(key.text for key in next(iter(crossings.values())).keys)
    which = f"each of {len(partitions):,} partitions" if len(partitions) > 1 else "the partition"
    resolved = []
    for partition in partitions:
        extent = crossings[partition.id]
        first, second = firsts[extent.first], seconds[extent.second]
        assert isinstance(first, KeyRange | KeyValues)
        assert isinstance(second, KeyRange | KeyValues)
        resolved.append(replace(partition, extent=Crossing(first, second)))
    return ResolvedPartitions(
        tuple(resolved),
        (_reason(partitions, keys),),
        ()
        if first_indexed or second_indexed
        else (f"neither of {keys} has an index: {which} scans the whole table",),
    )


def _reason(partitions: Sequence[Partition], key: str) -> str:
    return f"{len(partitions):,} partition{'s' if len(partitions) > 1 else ''} by {key}, {CHOSEN}"


def _text(bound: Bound | None) -> str | None:
    return bound.text if bound else None
