"""Statistics in, `PartitionPlan` with reasons out. Pure: no I/O, no database.

Planning goes in two steps, because what has to be known about a key depends on the strategy:
`choose` takes the table's statistics and picks a strategy and how many partitions to aim for;
one of the `cut_*` functions makes the partitions from what the source then told about the key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from penstock.backends.api.facts import ChildTable, KeyStatistics, SourceFile, TableStatistics
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
from penstock.spec.copy_spec import CopySpec
from penstock.spec.strategies import (
    BLOCKS,
    CHILDREN,
    FILES,
    HASH,
    NTILE,
    RANGE,
    TIME,
    VALUES,
    WHOLE,
    Strategy,
)

MIB = 1 << 20

# Large enough that a partition's fixed cost (about 10 ms) is nothing, small enough that a retry
# is cheap and streams end together.
DEFAULT_PARTITION_BYTES = 128 * MIB
# So that streams which get slow partitions do not keep the others waiting at the end.
PARTITIONS_PER_STREAM = 4
# Below this a partition costs more than it saves.
SMALLEST_PARTITION_BYTES = 8 * MIB
MOST_PARTITIONS = 10_000
# One query reads them; to plan one of thousands of tables takes longer than to read them.
MOST_TABLES_TOGETHER = 100
# Of these the widest that gives as many windows as are aimed for, where none is asked for.
INTERVALS = ("1 year", "1 month", "1 week", "1 day", "1 hour")


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy, what it needs, and why it was chosen."""

    how: Strategy
    reasons: tuple[str, ...]
    key: str | None = None
    count: int = 1
    """Partitions to aim for."""
    strategy: str = ""
    """What the source's system calls it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "strategy", self.strategy or self.how.name)


@dataclass(frozen=True, slots=True)
class Cut:
    """Extents, each with its estimated fraction of the table's rows, and remarks."""

    extents: tuple[tuple[Extent, float | None], ...]
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def choose(spec: CopySpec, table: TableStatistics, degree: int) -> Choice:
    """Pick the strategy.

    Raises:
        PlanningError: the strategy that was asked for cannot be used on this table.
    """
    how = spec.cut_strategy
    if how.chooses:
        return _choose_automatically(spec, table, degree)
    asked = f"{spec.strategy}: as asked"
    if how.cuts_blocks:
        return _choose_blocks(spec, table, degree, asked)
    if how.cuts_children:
        return _choose_children(spec, table, degree, asked)
    if how.cuts_files:
        if not table.files:
            raise PlanningError(
                f"--strategy {how}: {spec.source_name} does not consist of files that could be "
                f"read alone: it is {table.storage}"
            )
        return _with_count(spec, table, degree, how, None, asked)
    if how.needs_statistics:
        key = spec.key or table.default_key
        if key is None:
            raise PlanningError(
                f"--strategy {how}: expected --key COLUMN, since {spec.source_name} has no "
                "primary key that could be ranged; found none"
            )
        if not table.sampled:
            raise PlanningError(
                f"--strategy {how}: {spec.source_name} has no statistics to take bounds from, and "
                f"no sample can be had: it is {table.storage}; expected --strategy ntile, which "
                "reads the key of every row"
            )
        return _with_count(spec, table, degree, how, key, asked)
    if how.hashes:
        return _choose_hash(spec, table, degree, asked)
    if how.counts and spec.interval is None:
        return _with_count(spec, table, degree, how, spec.key, asked)
    return Choice(how, (asked,), spec.key)


def _choose_automatically(spec: CopySpec, table: TableStatistics, degree: int) -> Choice:
    if spec.key is not None:
        if spec.interval is not None:
            return Choice(TIME, ("time: an interval is given",), spec.key)
        if spec.values_query is not None:
            return Choice(VALUES, ("values: a query for the values is given",), spec.key)
        if not table.sampled:
            why = f"ntile: a key is given ({spec.key}), and no statistics: it is {table.storage}"
            return _with_count(spec, table, degree, NTILE, spec.key, why)
        why = f"range: a key is given ({spec.key})"
        return _with_count(spec, table, degree, RANGE, spec.key, why)
    sized = spec.partitions or spec.rows_per_partition or spec.bytes_per_partition
    if table.bytes < SMALLEST_PARTITION_BYTES and not sized:
        files = (_counted(len(table.files), "file"),) if table.files else ()
        return Choice(WHOLE, (f"whole: {_size(table.bytes)}, one stream is enough", *files))
    if table.files:
        why = f"files: {table.storage}; no key needed"
        return _with_count(spec, table, degree, FILES, None, why)
    moving = spec.snapshot == "none" and not spec.accept_moving_rows
    if table.blocks is not None and not moving:
        return _choose_blocks(spec, table, degree, "")
    if table.children and not moving:
        return _choose_children(spec, table, degree, "")
    obstacle = (
        f"{table.block_strategy} needs a shared snapshot, since rows that are updated move"
        if table.blocks is not None or table.children
        else f"{table.block_strategy} cannot be used: {table.storage}"
    )
    if table.default_key is not None:
        why = f"range: by the primary key's first column, {table.default_key}; {obstacle}"
        return _with_count(spec, table, degree, RANGE, table.default_key, why)
    return Choice(WHOLE, (f"whole: {obstacle}, and there is no primary key; give --key",))


def _choose_blocks(spec: CopySpec, table: TableStatistics, degree: int, asked: str) -> Choice:
    if table.blocks is None:
        raise PlanningError(
            f"--strategy {spec.strategy}: {spec.source_name} cannot be cut by "
            f"{table.block_strategy}: {table.storage}"
        )
    if spec.snapshot == "none" and not spec.accept_moving_rows:
        raise PlanningError(
            f"--strategy {spec.strategy} with --snapshot none: a row that is updated meanwhile "
            "moves to another block, and may be lost or copied twice; expected --snapshot shared, "
            "or --accept-moving-rows where nothing writes to the table"
        )
    name = table.block_strategy
    choice = _with_count(
        spec, table, degree, BLOCKS, None, f"{name}: {table.storage}; no key needed"
    )
    reasons = (asked, *choice.reasons) if asked else choice.reasons
    return replace(choice, reasons=reasons, strategy=name)


def _choose_children(spec: CopySpec, table: TableStatistics, degree: int, asked: str) -> Choice:
    if asked and not table.children:
        raise PlanningError(
            f"--strategy children: expected a table that consists of others, and the right to read "
            f"each of them; found {table.storage}"
        )
    if asked:
        return Choice(CHILDREN, (asked,), None, len(table.children))
    return _with_count(spec, table, degree, CHILDREN, None, f"children: {table.storage}")


def _choose_hash(spec: CopySpec, table: TableStatistics, degree: int, asked: str) -> Choice:
    if spec.partitions or spec.rows_per_partition or spec.bytes_per_partition:
        return _with_count(spec, table, degree, HASH, spec.key, asked)
    return Choice(
        HASH,
        (asked, f"{_counted(degree, 'partition')}, one a stream: each one scans the whole table"),
        spec.key,
        degree,
    )


def _with_count(
    spec: CopySpec, table: TableStatistics, degree: int, how: Strategy, key: str | None, why: str
) -> Choice:
    count, reason = _count(spec, table, degree)
    if count > MOST_PARTITIONS:
        reason += f"; limited to {MOST_PARTITIONS:,}"
    return Choice(how, (why, reason), key, min(count, MOST_PARTITIONS))


def _count(spec: CopySpec, table: TableStatistics, degree: int) -> tuple[int, str]:
    """How many partitions to aim for, and why."""
    if spec.partitions is not None:
        return spec.partitions, f"{_counted(spec.partitions, 'partition')} asked for"
    selected = int(table.bytes * table.selected)
    if spec.rows_per_partition is not None:
        if table.rows is None:
            raise PlanningError(
                f"--rows-per-partition: the source has no row estimate for {spec.source_name}; "
                + (f"{table.rows_hint}, or pass " if table.rows_hint else "pass ")
                + "--partitions or --bytes-per-partition"
            )
        rows = int(table.rows * table.selected)
        count = max(1, -(-rows // spec.rows_per_partition))
        return count, f"{_counted(count, 'partition')} of about {spec.rows_per_partition:,} rows"
    if spec.bytes_per_partition is not None:
        count = max(1, -(-selected // spec.bytes_per_partition))
        return count, f"{_counted(count, 'partition')} of about {_size(spec.bytes_per_partition)}"
    by_size = -(-selected // DEFAULT_PARTITION_BYTES)
    by_degree = min(PARTITIONS_PER_STREAM * degree, selected // SMALLEST_PARTITION_BYTES)
    count = max(1, by_size, by_degree)
    return count, f"{_counted(count, 'partition')} of about {_size(selected // count)}"


def cut_whole() -> Cut:
    return Cut(((Whole(), 1.0),))


def cut_blocks(blocks: int, count: int) -> Cut:
    """Equal block ranges; the last one is open, for the table may have grown."""
    count = max(1, min(count, blocks))
    starts = [blocks * index // count for index in range(count)]
    ends: list[int | None] = [*starts[1:], None]
    return Cut(
        tuple(
            (BlockRange(lower, upper), ((upper or blocks) - lower) / blocks if blocks else 0.0)
            for lower, upper in zip(starts, ends, strict=True)
        )
    )


def cut_children(children: Sequence[ChildTable], count: int) -> Cut:
    """Every table that a table consists of in one partition of its own."""
    total = sum(child.bytes for child in children) or 1
    return Cut(
        tuple((Children((child.table,)), child.bytes / total) for child in children),
        (_counted(len(children), "table"),),
    )


def cut_tables(children: Sequence[ChildTable], count: int) -> Cut:
    """Tables in parts of about equal size: large ones cut by blocks, small ones together.

    One that is neither small nor can be cut is a part by itself.
    """
    total = sum(child.bytes for child in children)
    # Tables do not divide evenly: there may be twice as many parts as were aimed for.
    most = MOST_PARTITIONS // 2 - len(children) // MOST_TABLES_TOGETHER
    target = max(total / max(1, min(count, most)), 1)
    extents: list[tuple[Extent, float | None]] = []
    pack: list[ChildTable] = []
    packs = cuts = 0

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
            cuts += 1
            for extent, part in cut_blocks(child.blocks, pieces).extents:
                assert isinstance(extent, BlockRange) and part is not None
                blocks = ChildBlocks(child.table, extent.lower, extent.upper)
                extents.append((blocks, share(child) * part))
            continue
        full = sum(packed.bytes for packed in pack) + child.bytes > target
        if full or len(pack) == MOST_TABLES_TOGETHER:
            close()
        pack.append(child)
    close()
    reasons = [f"{_counted(cuts, 'table')} cut by blocks"] if cuts else []
    if packs:
        reasons.append(f"small tables together in {_counted(packs, 'partition')}")
    return Cut(tuple(extents), tuple(reasons))


def cut_files(files: Sequence[SourceFile], count: int) -> Cut:
    """Parts of about equal size: large files cut between row groups, small ones together."""
    total = sum(stored for file in files for _, stored in file.groups) or 1
    target = total / max(1, count)
    extents: list[tuple[Extent, float | None]] = []
    pack: list[FilePart] = []
    packed = 0
    cuts = packs = 0

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
            cuts += 1
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
    reasons = [_counted(len(files), "file")]
    if cuts:
        reasons.append(f"{_counted(cuts, 'large file')} cut between row groups")
    if packs:
        reasons.append(f"small files together in {_counted(packs, 'partition')}")
    return Cut(tuple(extents), tuple(reasons))


def _equal_groups(sizes: Sequence[int], pieces: int) -> Iterable[tuple[int, int, int]]:
    """Neighbouring row groups in so many pieces of about equal size: from, to, and the size."""
    lower = passed = 0
    total = sum(sizes) or 1
    for piece in range(1, pieces + 1):
        upper, size = lower, 0
        # Every piece gets one, and leaves one for each that follows.
        while upper < len(sizes) - (pieces - piece) and (
            upper == lower or piece == pieces or passed + sizes[upper] / 2 <= total * piece / pieces
        ):
            passed += sizes[upper]
            size += sizes[upper]
            upper += 1
        yield lower, upper, size
        lower = upper


def cut_range(statistics: KeyStatistics, count: int) -> Cut:
    """Ranges of about equal row counts, open at both ends; NULLs in one of their own.

    The weighted bounds come in the source's own order, so nothing is compared here: any
    ascending choice of them covers every value exactly once.
    """
    bounds = statistics.bounds
    not_null = 1.0 - statistics.null_fraction
    total = sum(item.weight for item in bounds) or 1.0
    cuts: list[int] = []
    weights: list[float] = []
    passed = pending = 0.0
    for index, item in enumerate(bounds):
        # What is left, over the partitions that are left: one heavy value, which cannot be cut,
        # does not make the ones after it too small.
        target = (total - passed + pending) / (count - len(cuts))
        # The first bound opens no partition of its own: what lies below it is next to nothing.
        if index > 0 and len(cuts) < count - 1 and pending + item.weight / 2 > target:
            cuts.append(index)
            weights.append(pending)
            pending = 0.0
        passed += item.weight
        pending += item.weight
    weights.append(pending)
    edges: list[Bound | None] = [None, *(bounds[index].bound for index in cuts), None]
    extents: list[tuple[Extent, float | None]] = [
        (
            KeyRange(statistics.key, edges[position], edges[position + 1]),
            not_null * weight / total if bounds else None,
        )
        for position, weight in enumerate(weights)
    ]
    if statistics.nullable:
        extents.append((KeyIsNull(statistics.key), statistics.null_fraction))
    reasons = [f"bounds from {statistics.origin}"]
    warnings = []
    ranges = len(weights)
    if ranges < count:
        reasons.append(f"{_counted(ranges, 'range')}: more would need more bounds than are known")
    if ranges > 1 and not statistics.indexed:
        warnings.append(
            f"{statistics.key.text} has no index: each of the {ranges:,} ranges scans the whole "
            "table"
        )
    return Cut(tuple(extents), tuple(reasons), tuple(warnings))


def cut_windows(
    starts: Sequence[Bound], key: Key, *, nullable: bool, indexed: bool, origin: str
) -> Cut:
    """Windows between ascending starts; the first is open below, the last above.

    The first start opens nothing: the first window reaches from below up to the second.
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
    return Cut(
        tuple(extents), (f"{_counted(len(edges) - 1, 'window')} from {origin}",), tuple(warnings)
    )


def cut_values(values: Sequence[Bound], key: Key, *, nullable: bool) -> Cut:
    """One partition for each value, one for any other value, and one for NULL.

    Any other value: a list that somebody wrote may lack some, and a run that goes on with a newer
    snapshot may meet values that were not there when it was planned.
    """
    extents: list[tuple[Extent, float | None]] = [(KeyValues(key, (v,)), None) for v in values]
    extents.append((KeyOther(key, tuple(values)), None))
    if nullable:
        extents.append((KeyIsNull(key), None))
    return Cut(tuple(extents), (_counted(len(values), "value"),))


def cut_hash(key: Key, count: int) -> Cut:
    """Buckets of a hash of the key, modulo their number."""
    return Cut(tuple((HashBucket(key, count, index), 1.0 / count) for index in range(count)))


def number(
    cuts: Iterable[tuple[Extent, float | None]], table: TableStatistics
) -> tuple[Partition, ...]:
    """Give the extents their ids and estimates."""
    extents = list(cuts)
    if len(extents) > MOST_PARTITIONS + 2:
        raise PlanningError(
            f"the plan would have {len(extents):,} partitions, and {MOST_PARTITIONS:,} is the "
            "limit: "
            "choose a wider interval, a key with fewer values, or --strategy auto"
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


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def _size(amount: int) -> str:
    if amount < 100_000:
        return f"{amount:,} B"
    megabytes = amount / 1_000_000
    return f"{megabytes:,.0f} MB" if megabytes >= 10 else f"{megabytes:,.1f} MB"
