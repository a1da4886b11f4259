"""Functions from facts about a table or a key to extents. Pure: no I/O, no database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from penstock.backends.api.facts import (
    ChildTable,
    HashStatistics,
    KeyStatistics,
    SourceFile,
    TableStatistics,
)
from penstock.backends.api.optional.children import Windows
from penstock.errors import PlanningError
from penstock.model.extents import (
    BlockRange,
    Bound,
    ChildBlocks,
    Children,
    Extent,
    FilePart,
    Files,
    HashBucket,
    Key,
    KeyIsNull,
    KeyOther,
    KeyRange,
    KeyValues,
    Whole,
)
from penstock.model.plans import Partition

MOST_PARTITIONS = 10_000
# One query reads up to this many; a query over thousands takes longer to plan than to run.
MOST_TABLES_TOGETHER = 100
EVENLY = HashStatistics()
# The default interval is the widest of these that gives enough windows.
INTERVALS = ("1 year", "1 month", "1 week", "1 day", "1 hour")


@dataclass(frozen=True, slots=True)
class Partitioning:
    """Extents, each with its estimated fraction of the table's rows, and remarks."""

    extents: tuple[tuple[Extent, float | None], ...]
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    windows: Windows | None = None
    """The windows of time, if the extents are such."""
    common: Mapping[Extent, tuple[Bound, float]] = field(default_factory=dict)
    """The most common value of an extent and its fraction of the table's rows, if known."""


def as_whole() -> Partitioning:
    """Return the whole table as one partition."""
    return Partitioning(((Whole(), 1.0),))


def by_blocks(blocks: int, count: int) -> Partitioning:
    """Return equal block ranges; the last one is open, since the table may grow."""
    count = max(1, min(count, blocks))
    starts = [blocks * index // count for index in range(count)]
    ends: list[int | None] = [*starts[1:], None]
    return Partitioning(
        tuple(
            (BlockRange(lower, upper), ((upper or blocks) - lower) / blocks if blocks else 0.0)
            for lower, upper in zip(starts, ends, strict=True)
        )
    )


def by_children(children: Sequence[ChildTable], count: int) -> Partitioning:
    """Return one partition for each child table."""
    total = sum(child.bytes for child in children) or 1
    return Partitioning(
        tuple((Children((child.table,)), child.bytes / total) for child in children),
        (quantity(len(children), "table"),),
    )


def by_tables(children: Sequence[ChildTable], count: int) -> Partitioning:
    """Return parts of about equal size: large child tables by blocks, small ones grouped.

    A table that is large and cannot be partitioned is a part by itself.
    """
    total = sum(child.bytes for child in children)
    # Tables do not divide evenly: the parts may be up to twice as many as aimed for.
    most = MOST_PARTITIONS // 2 - len(children) // MOST_TABLES_TOGETHER
    target = max(total / max(1, min(count, most)), 1)
    extents: list[tuple[Extent, float | None]] = []
    pack: list[ChildTable] = []
    packs = divided = 0

    def share(child: ChildTable) -> float:
        return child.bytes / total if total else 1 / len(children)

    def close() -> None:
        nonlocal packs
        if pack:
            packs += len(pack) > 1
            tables = tuple(child.table for child in pack)
            extents.append((Children(tables), sum(map(share, pack))))
            pack.clear()

    for child in children:
        pieces = round(child.bytes / target)
        if child.blocks is not None and pieces > 1:
            divided += 1
            for extent, part in by_blocks(child.blocks, pieces).extents:
                assert isinstance(extent, BlockRange) and part is not None
                blocks = ChildBlocks(child.table, extent.lower, extent.upper)
                extents.append((blocks, share(child) * part))
            continue
        full = sum(packed.bytes for packed in pack) + child.bytes > target
        if full or len(pack) == MOST_TABLES_TOGETHER:
            close()
        pack.append(child)
    close()
    reasons = [f"{quantity(divided, 'table')} partitioned by blocks"] if divided else []
    if packs:
        reasons.append(f"small tables grouped in {quantity(packs, 'partition')}")
    return Partitioning(tuple(extents), tuple(reasons))


def by_files(files: Sequence[SourceFile], count: int) -> Partitioning:
    """Return parts of about equal size: large files between row groups, small ones grouped."""
    total = sum(stored for file in files for _, stored in file.groups) or 1
    target = total / max(1, count)
    extents: list[tuple[Extent, float | None]] = []
    pack: list[FilePart] = []
    packed = 0
    divided = packs = 0

    def close() -> None:
        nonlocal packed, packs
        if pack:
            packs += len(pack) > 1
            extents.append((Files(tuple(pack)), packed / total))
            pack.clear()
            packed = 0

    for file in files:
        stored = sum(size for _, size in file.groups)
        pieces = min(round(stored / target), len(file.groups))
        if pieces > 1:
            close()
            divided += 1
            for lower, upper, size in _equal_groups([size for _, size in file.groups], pieces):
                last = upper == len(file.groups)
                part = FilePart(file.path, file.size, file.version, lower, None if last else upper)
                extents.append((Files((part,)), size / total))
            continue
        if packed + stored > target * 1.1:
            close()
        pack.append(FilePart(file.path, file.size, file.version))
        packed += stored
    close()
    reasons = [quantity(len(files), "file")]
    if divided:
        reasons.append(f"{quantity(divided, 'large file')} partitioned by row groups")
    if packs:
        reasons.append(f"small files grouped in {quantity(packs, 'partition')}")
    return Partitioning(tuple(extents), tuple(reasons))


def _equal_groups(sizes: Sequence[int], pieces: int) -> Iterable[tuple[int, int, int]]:
    """Group adjacent row groups into pieces of about equal size: yield start, end and size."""
    lower = passed = 0
    total = sum(sizes) or 1
    for piece in range(1, pieces + 1):
        upper, size = lower, 0
        # Every piece gets at least one row group, and leaves one for each piece that follows.
        while upper < len(sizes) - (pieces - piece) and (
            upper == lower or piece == pieces or passed + sizes[upper] / 2 <= total * piece / pieces
        ):
            passed += sizes[upper]
            size += sizes[upper]
            upper += 1
        yield lower, upper, size
        lower = upper


def by_range(statistics: KeyStatistics, count: int) -> Partitioning:
    """Return ranges with about equal row counts, open at both ends; NULLs get their own partition.

    The weighted bounds come in the source's own order, so nothing is compared here: any
    ascending choice of them covers every value exactly once.
    """
    bounds = statistics.bounds
    not_null = 1.0 - statistics.null_fraction
    total = sum(item.weight for item in bounds) or 1.0
    starts: list[int] = []
    weights: list[float] = []
    passed = pending = 0.0
    for index, item in enumerate(bounds):
        # Spread the remaining rows over the remaining partitions: one heavy value, which cannot
        # be divided, must not make the ones after it too small.
        target = (total - passed + pending) / (count - len(starts))
        # The first bound starts no partition: almost nothing lies below it.
        if index > 0 and len(starts) < count - 1 and pending + item.weight / 2 > target:
            starts.append(index)
            weights.append(pending)
            pending = 0.0
        passed += item.weight
        pending += item.weight
    weights.append(pending)
    edges: list[Bound | None] = [None, *(bounds[index].bound for index in starts), None]
    extents: list[tuple[Extent, float | None]] = [
        (
            KeyRange(statistics.key, edges[position], edges[position + 1]),
            not_null * weight / total if bounds else None,
        )
        for position, weight in enumerate(weights)
    ]
    edges_of = pairwise([0, *starts, len(bounds)])
    common = {
        extent: (found.bound, not_null * found.value_share / total)
        for (extent, _), places in zip(extents, edges_of, strict=True)
        if (found := max(bounds[slice(*places)], key=lambda each: each.value_share, default=None))
        and found.value_share
    }
    if statistics.nullable:
        extents.append((KeyIsNull(statistics.key), statistics.null_fraction))
    reasons = [f"bounds from {statistics.origin}"]
    warnings = []
    ranges = len(weights)
    if ranges < count:
        reasons.append(f"{quantity(ranges, 'range')}: too few bounds are known for more")
    if ranges > 1 and not statistics.indexed:
        warnings.append(
            f"{statistics.key.text} has no index: each of the {ranges:,} ranges scans the whole "
            "table"
        )
    return Partitioning(tuple(extents), tuple(reasons), tuple(warnings), common=common)


def by_windows(
    starts: Sequence[Bound], key: Key, *, nullable: bool, indexed: bool, origin: str
) -> Partitioning:
    """Return windows between ascending starts; the first is open below, the last above.

    The first start is not a bound: the first window ends at the second start.

    Args:
        starts: the starts of the windows, ascending.
        key: the key.
        nullable: whether the key takes NULL, which then gets its own partition.
        indexed: whether an index finds the rows of a window.
        origin: how the windows were found, for remarks.
    """
    edges: list[Bound | None] = [None, *starts[1:], None]
    extents: list[tuple[Extent, float | None]] = [
        (KeyRange(key, lower, upper), None) for lower, upper in pairwise(edges)
    ]
    if nullable:
        extents.append((KeyIsNull(key), None))
    warnings = []
    if len(starts) > 1 and not indexed:
        warnings.append(f"{key.text} has no index: each of {len(starts):,} windows scans the table")
    return Partitioning(
        tuple(extents), (f"{quantity(len(edges) - 1, 'window')} from {origin}",), tuple(warnings)
    )


def by_values(values: Sequence[Bound], key: Key, *, nullable: bool) -> Partitioning:
    """Return one partition for each value, one for all other values, and one for NULL.

    Other values exist because a query for the values may miss some, and a run that continues with a
    newer snapshot may meet new ones.

    Args:
        values: the distinct values of the key.
        key: the key.
        nullable: whether the key takes NULL.
    """
    extents: list[tuple[Extent, float | None]] = [(KeyValues(key, (v,)), None) for v in values]
    extents.append((KeyOther(key, tuple(values)), None))
    if nullable:
        extents.append((KeyIsNull(key), None))
    return Partitioning(tuple(extents), (quantity(len(values), "value"),))


def by_hash(key: Key, count: int, known: HashStatistics = EVENLY) -> Partitioning:
    """Return buckets of a hash of the key, modulo their number.

    Args:
        key: the key.
        count: the number of buckets.
        known: how often common values occur; the other rows are assumed to be spread evenly.
    """
    others = 1.0 - known.null_fraction - sum(each.share for each in known.common)
    shares = [max(0.0, others) / count] * count
    shares[0] += known.null_fraction
    common: dict[Extent, tuple[Bound, float]] = {}
    for each in sorted(known.common, key=lambda each: -each.share):
        bucket = each.number % count
        shares[bucket] += each.share
        common.setdefault(HashBucket(key, count, bucket), (each.bound, each.share))
    buckets = ((HashBucket(key, count, index), share) for index, share in enumerate(shares))
    return Partitioning(tuple(buckets), common=common)


def number(
    extents: Sequence[tuple[Extent, float | None]], table: TableStatistics
) -> tuple[Partition, ...]:
    """Give the extents ids and estimates."""
    if len(extents) > MOST_PARTITIONS + 2:
        raise PlanningError(
            f"the plan would have {len(extents):,} partitions; the limit is {MOST_PARTITIONS:,}: "
            "use a wider interval, a key with fewer values, or --strategy auto"
        )
    width = max(4, len(str(len(extents))))

    def share(amount: int | None, fraction: float | None) -> int | None:
        if amount is None or fraction is None:
            return None
        return round(amount * fraction * table.selected)

    return tuple(
        Partition(
            f"p{index:0{width}}", extent, share(table.rows, fraction), share(table.bytes, fraction)
        )
        for index, (extent, fraction) in enumerate(extents, start=1)
    )


def quantity(count: int, word: str) -> str:
    """Return a count with its noun: ``1 file``, ``1,200 files``."""
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"
