"""The strategy of a table, the number of partitions, and why. Pure: no I/O, no database.

Planning takes two steps, because the facts needed about a key depend on the strategy: `choose`
takes the table's statistics, and picks a strategy and a number of partitions to aim for; then one
of the functions in `partition_extents` builds the partitions from the source's facts about the key.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.backends.api.facts import TableStatistics
from penstock.errors import PlanningError, UsageError
from penstock.planning.partition_extents import MOST_PARTITIONS, quantity
from penstock.spec.amounts import PartitionSize
from penstock.spec.degrees import Streams
from penstock.spec.groups.partitioning import PartitionOptions
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

# Large enough that a partition's fixed cost (about 10 ms) is negligible, small enough that a retry
# is cheap and streams end together.
DEFAULT_PARTITION_BYTES = 128 * MIB
# Streams with slow partitions must not keep the others waiting at the end.
PARTITIONS_PER_STREAM = 4
# Streams that are added while the copy runs need work; smaller partitions would burden a copy that
# is over before that.
SMALLER_PARTITION_BYTES = 64 * MIB
# Below this a partition costs more than it saves.
SMALLEST_PARTITION_BYTES = 8 * MIB


@dataclass(frozen=True, slots=True)
class Aims:
    """What partitions should suit, besides the table.

    Args:
        streams: the numbers of streams.
        blocks: the name of strategy blocks in the source's system.
        least_rows: as in `TargetCapabilities`.
    """

    streams: Streams
    blocks: str
    least_rows: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy, what it needs, and why it was chosen."""

    how: Strategy
    reasons: tuple[str, ...]
    key: str | None = None
    count: int = 1
    """Partitions to aim for."""
    strategy: str = ""
    """The strategy's name in the source's system."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "strategy", self.strategy or self.how.name)


def choose(
    options: PartitionOptions,
    table: TableStatistics,
    aims: Aims,
    few: TableStatistics | None = None,
) -> Choice:
    """Choose the strategy.

    Args:
        options: how to partition.
        table: statistics of the table.
        aims: what partitions should suit.
        few: statistics of the rows that are read, if an index finds them; None if a scan does.

    Raises:
        PlanningError: the requested strategy cannot be used on this table.
    """
    how = options.partition_strategy
    if how.chooses and few is not None and options.key is None and not _is_sized(options):
        size = round(few.bytes * few.selected)
        if size < DEFAULT_PARTITION_BYTES:
            why = f"whole: an index finds the rows to read, about {_size(size)}"
            return Choice(WHOLE, (why,))
    if how.chooses:
        return _choose_automatically(options, table, aims)
    reason = f"{options.strategy}: as requested"
    if how.by_blocks:
        return _choose_blocks(options, table, aims, reason)
    if how.by_children:
        return _choose_children(options, table, aims, reason)
    if how.by_files:
        if not table.files:
            raise PlanningError(
                f"--strategy {how}: {options.source_name} does not consist of files that can be "
                f"read separately: it is {table.storage}"
            )
        return _with_count(options, table, aims, how, None, reason)
    if how.needs_statistics:
        key = options.key or table.default_key
        if key is None:
            raise PlanningError(
                f"--strategy {how}: expected --key COLUMN, since {options.source_name} has no "
                "primary key to partition into ranges; found none"
            )
        if not table.sampled:
            raise PlanningError(
                f"--strategy {how}: {options.source_name} has no statistics to take bounds from, "
                f"and cannot be sampled: it is {table.storage}; use --strategy ntile, which "
                "reads the key of every row"
            )
        return _with_count(options, table, aims, how, key, reason)
    if how.hashes:
        return _scanning(options, table, aims, HASH, options.key, reason)
    if how.counts and options.interval is None:
        return _with_count(options, table, aims, how, options.key, reason)
    return Choice(how, (reason,), options.key)


def _is_sized(options: PartitionOptions) -> bool:
    """Whether the user has specified the number of partitions."""
    return options.partition_size != PartitionSize()


def _choose_automatically(options: PartitionOptions, table: TableStatistics, aims: Aims) -> Choice:
    if options.key is not None:
        if options.interval is not None:
            return Choice(TIME, ("time: an interval is set",), options.key)
        if options.values_query is not None:
            return Choice(VALUES, ("values: a query lists them",), options.key)
        if not table.sampled:
            why = f"ntile: by key {options.key}, without statistics, since it is {table.storage}"
            return _with_count(options, table, aims, NTILE, options.key, why)
        why = f"range: by key {options.key}, as requested"
        return _with_count(options, table, aims, RANGE, options.key, why)
    if table.bytes < SMALLEST_PARTITION_BYTES and not _is_sized(options):
        files = (quantity(len(table.files), "file"),) if table.files else ()
        return Choice(WHOLE, (f"whole: {_size(table.bytes)}, one stream is enough", *files))
    if table.files:
        why = f"files: {table.storage}; no key needed"
        return _with_count(options, table, aims, FILES, None, why)
    moving = options.rows_may_move
    if table.blocks is not None and not table.blocks_scan and not moving:
        return _choose_blocks(options, table, aims, "")
    divisible = any(child.blocks is not None for child in table.children)
    if table.children and not moving and (divisible or table.default_key is None):
        return _choose_children(options, table, aims, "")
    if table.blocks_scan:
        obstacle = f"{aims.blocks} would scan the whole table for each partition"
    elif moving and (table.blocks is not None or table.children):
        obstacle = f"{aims.blocks} needs a shared snapshot, since updated rows move"
    else:
        obstacle = f"{aims.blocks} cannot be used: {table.storage}"
    if table.default_key is not None:
        why = f"range: by the primary key's first column, {table.default_key}; {obstacle}"
        return _with_count(options, table, aims, RANGE, table.default_key, why)
    return Choice(WHOLE, (f"whole: {obstacle}, and there is no primary key; pass --key",))


def _choose_blocks(
    options: PartitionOptions,
    table: TableStatistics,
    aims: Aims,
    reason: str,
) -> Choice:
    if table.blocks is None:
        raise PlanningError(
            f"--strategy {options.strategy}: {options.source_name} cannot be partitioned by "
            f"{aims.blocks}: {table.storage}"
        )
    if options.rows_may_move:
        raise UsageError(
            f"--strategy {options.strategy} with --snapshot none: a row that is updated during the "
            "copy moves to another block, and may be lost or copied twice; use --snapshot shared, "
            "or a strategy by a key"
        )
    counts = _scanning if table.blocks_scan else _with_count
    choice = counts(
        options, table, aims, BLOCKS, None, f"{aims.blocks}: {table.storage}; no key needed"
    )
    reasons = (reason, *choice.reasons) if reason else choice.reasons
    return replace(choice, reasons=reasons, strategy=aims.blocks)


def _choose_children(
    options: PartitionOptions, table: TableStatistics, aims: Aims, reason: str
) -> Choice:
    if reason and not table.children:
        raise PlanningError(
            f"--strategy children: expected {options.source_name} to have child tables, all of "
            f"which the user may read; found {table.storage}"
        )
    if reason:
        return Choice(CHILDREN, (reason,), None, len(table.children))
    return _with_count(options, table, aims, CHILDREN, None, f"children: {table.storage}")


def _scanning(
    options: PartitionOptions,
    table: TableStatistics,
    aims: Aims,
    how: Strategy,
    key: str | None,
    why: str,
) -> Choice:
    """Choose the fewest partitions that keep all streams busy, as each scans the whole table."""
    if _is_sized(options):
        return _with_count(options, table, aims, how, key, why)
    count = aims.streams.usual
    reason = f"{quantity(count, 'partition')}, one per stream: each scans the whole table"
    return Choice(how, (why, reason), key, count)


def _with_count(
    options: PartitionOptions,
    table: TableStatistics,
    aims: Aims,
    how: Strategy,
    key: str | None,
    why: str,
) -> Choice:
    count, reason = _count(options, table, aims)
    if count > MOST_PARTITIONS:
        reason += f"; limited to {MOST_PARTITIONS:,}"
    return Choice(how, (why, reason), key, min(count, MOST_PARTITIONS))


def _count(options: PartitionOptions, table: TableStatistics, aims: Aims) -> tuple[int, str]:
    """Return the number of partitions to aim for, and why."""
    size = options.partition_size
    if size.count is not None:
        return size.count, f"{quantity(size.count, 'partition')}, as requested"
    selected = int(table.bytes * table.selected)
    if size.rows is not None:
        if table.rows is None:
            raise PlanningError(
                f"--partitions: the source has no row estimate for {options.source_name}; "
                + (f"{table.rows_hint}, or pass " if table.rows_hint else "pass ")
                + "a number of partitions, or a size such as 64MB"
            )
        rows = int(table.rows * table.selected)
        count = max(1, -(-rows // size.rows))
        return count, f"{quantity(count, 'partition')} of about {size.rows:,} rows"
    if size.bytes is not None:
        count = max(1, -(-selected // size.bytes))
        return count, f"{quantity(count, 'partition')} of about {_size(size.bytes)}"
    by_size = -(-selected // DEFAULT_PARTITION_BYTES)
    streams = aims.streams
    usual = min(PARTITIONS_PER_STREAM * streams.usual, selected // SMALLEST_PARTITION_BYTES)
    most = min(PARTITIONS_PER_STREAM * streams.most, selected // SMALLER_PARTITION_BYTES)
    count, why = max(1, by_size, usual, most), ""
    if aims.least_rows and table.rows is not None:
        fewer = int(table.rows * table.selected) // aims.least_rows
        if fewer > streams.usual:
            fewer -= fewer % streams.usual  # so that streams end together
        fewer = max(1, by_size, fewer)
        if fewer < count:
            count, why = fewer, "; the target would write smaller ones twice"
    return count, f"{quantity(count, 'partition')} of about {_size(selected // count)}{why}"


def _size(amount: int) -> str:
    if amount < 100_000:
        return f"{amount:,} B"
    megabytes = amount / 1_000_000
    return f"{megabytes:,.0f} MB" if megabytes >= 10 else f"{megabytes:,.1f} MB"
