"""The strategy that cuts a table, the number of partitions, and why. Pure: no I/O, no database.

Planning takes two steps, because the facts needed about a key depend on the strategy: `choose`
takes the table's statistics, and picks a strategy and a number of partitions to aim for; then one
of the functions in `cuts` builds the partitions from the source's facts about the key.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.backends.api.facts import TableStatistics
from penstock.errors import PlanningError, UsageError
from penstock.planning.cuts import MOST_PARTITIONS, quantity
from penstock.spec.degrees import Streams
from penstock.spec.groups.cutting import Cutting
from penstock.spec.partition_sizes import PartitionSize
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
    cutting: Cutting,
    table: TableStatistics,
    streams: Streams,
    blocks: str,
    few: TableStatistics | None = None,
) -> Choice:
    """Choose the strategy.

    Args:
        cutting: the options for cutting.
        table: statistics of the table.
        streams: the numbers of streams.
        blocks: the name of strategy blocks in the source's system.
        few: statistics of the rows that are read, if an index finds them; None if a scan does.

    Raises:
        PlanningError: the requested strategy cannot be used on this table.
    """
    how = cutting.cut_strategy
    if how.chooses and few is not None and cutting.key is None and not _is_sized(cutting):
        size = round(few.bytes * few.selected)
        if size < DEFAULT_PARTITION_BYTES:
            why = f"whole: an index finds the rows to read, about {_size(size)}"
            return Choice(WHOLE, (why,))
    if how.chooses:
        return _choose_automatically(cutting, table, streams, blocks)
    reason = f"{cutting.strategy}: as requested"
    if how.cuts_blocks:
        return _choose_blocks(cutting, table, streams, blocks, reason)
    if how.cuts_children:
        return _choose_children(cutting, table, streams, reason)
    if how.cuts_files:
        if not table.files:
            raise PlanningError(
                f"--strategy {how}: {cutting.source_name} does not consist of files that can be "
                f"read separately: it is {table.storage}"
            )
        return _with_count(cutting, table, streams, how, None, reason)
    if how.needs_statistics:
        key = cutting.key or table.default_key
        if key is None:
            raise PlanningError(
                f"--strategy {how}: expected --key COLUMN, since {cutting.source_name} has no "
                "primary key to cut into ranges; found none"
            )
        if not table.sampled:
            raise PlanningError(
                f"--strategy {how}: {cutting.source_name} has no statistics to take bounds from, "
                f"and cannot be sampled: it is {table.storage}; use --strategy ntile, which "
                "reads the key of every row"
            )
        return _with_count(cutting, table, streams, how, key, reason)
    if how.hashes:
        return _scanning(cutting, table, streams, HASH, cutting.key, reason)
    if how.counts and cutting.interval is None:
        return _with_count(cutting, table, streams, how, cutting.key, reason)
    return Choice(how, (reason,), cutting.key)


def _is_sized(cutting: Cutting) -> bool:
    """Whether the user has specified the number of partitions."""
    return cutting.partition_size != PartitionSize()


def _asked_for(count: int) -> str:
    return f"{quantity(count, 'partition')}, as requested"


def _choose_automatically(
    cutting: Cutting, table: TableStatistics, streams: Streams, blocks: str
) -> Choice:
    if cutting.key is not None:
        if cutting.interval is not None:
            return Choice(TIME, ("time: an interval is set",), cutting.key)
        if cutting.values_query is not None:
            return Choice(VALUES, ("values: a query lists them",), cutting.key)
        if not table.sampled:
            why = f"ntile: by key {cutting.key}, without statistics, since it is {table.storage}"
            return _with_count(cutting, table, streams, NTILE, cutting.key, why)
        why = f"range: by key {cutting.key}, as requested"
        return _with_count(cutting, table, streams, RANGE, cutting.key, why)
    if table.bytes < SMALLEST_PARTITION_BYTES and not _is_sized(cutting):
        files = (quantity(len(table.files), "file"),) if table.files else ()
        return Choice(WHOLE, (f"whole: {_size(table.bytes)}, one stream is enough", *files))
    if table.files:
        why = f"files: {table.storage}; no key needed"
        return _with_count(cutting, table, streams, FILES, None, why)
    moving = cutting.rows_may_move
    if table.blocks is not None and not table.blocks_scan and not moving:
        return _choose_blocks(cutting, table, streams, blocks, "")
    cut = any(child.blocks is not None for child in table.children)
    if table.children and not moving and (cut or table.default_key is None):
        return _choose_children(cutting, table, streams, "")
    if table.blocks_scan:
        obstacle = f"{blocks} would scan the whole table for each partition"
    elif moving and (table.blocks is not None or table.children):
        obstacle = f"{blocks} needs a shared snapshot, since updated rows move"
    else:
        obstacle = f"{blocks} cannot be used: {table.storage}"
    if table.default_key is not None:
        why = f"range: by the primary key's first column, {table.default_key}; {obstacle}"
        return _with_count(cutting, table, streams, RANGE, table.default_key, why)
    return Choice(WHOLE, (f"whole: {obstacle}, and there is no primary key; pass --key",))


def _choose_blocks(
    cutting: Cutting, table: TableStatistics, streams: Streams, blocks: str, reason: str
) -> Choice:
    if table.blocks is None:
        raise PlanningError(
            f"--strategy {cutting.strategy}: {cutting.source_name} cannot be cut by "
            f"{blocks}: {table.storage}"
        )
    if cutting.rows_may_move:
        raise UsageError(
            f"--strategy {cutting.strategy} with --snapshot none: a row that is updated during the "
            "copy moves to another block, and may be lost or copied twice; use --snapshot shared, "
            "or a strategy by a key"
        )
    counts = _scanning if table.blocks_scan else _with_count
    choice = counts(
        cutting, table, streams, BLOCKS, None, f"{blocks}: {table.storage}; no key needed"
    )
    reasons = (reason, *choice.reasons) if reason else choice.reasons
    return replace(choice, reasons=reasons, strategy=blocks)


def _choose_children(
    cutting: Cutting, table: TableStatistics, streams: Streams, reason: str
) -> Choice:
    if reason and not table.children:
        raise PlanningError(
            f"--strategy children: expected {cutting.source_name} to have child tables, all of "
            f"which the user may read; found {table.storage}"
        )
    if reason:
        return Choice(CHILDREN, (reason,), None, len(table.children))
    return _with_count(cutting, table, streams, CHILDREN, None, f"children: {table.storage}")


def _scanning(
    cutting: Cutting,
    table: TableStatistics,
    streams: Streams,
    how: Strategy,
    key: str | None,
    why: str,
) -> Choice:
    """Choose the fewest partitions that keep all streams busy, as each scans the whole table."""
    if _is_sized(cutting):
        return _with_count(cutting, table, streams, how, key, why)
    count = streams.usual
    reason = f"{quantity(count, 'partition')}, one per stream: each scans the whole table"
    return Choice(how, (why, reason), key, count)


def _with_count(
    cutting: Cutting,
    table: TableStatistics,
    streams: Streams,
    how: Strategy,
    key: str | None,
    why: str,
) -> Choice:
    count, reason = _count(cutting, table, streams)
    if count > MOST_PARTITIONS:
        reason += f"; limited to {MOST_PARTITIONS:,}"
    return Choice(how, (why, reason), key, min(count, MOST_PARTITIONS))


def _count(cutting: Cutting, table: TableStatistics, streams: Streams) -> tuple[int, str]:
    """Return the number of partitions to aim for, and why."""
    size = cutting.partition_size
    if size.count is not None:
        return size.count, _asked_for(size.count)
    selected = int(table.bytes * table.selected)
    if size.rows is not None:
        if table.rows is None:
            raise PlanningError(
                f"--partitions: the source has no row estimate for {cutting.source_name}; "
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
    usual = min(PARTITIONS_PER_STREAM * streams.usual, selected // SMALLEST_PARTITION_BYTES)
    most = min(PARTITIONS_PER_STREAM * streams.most, selected // SMALLER_PARTITION_BYTES)
    count = max(1, by_size, usual, most)
    return count, f"{quantity(count, 'partition')} of about {_size(selected // count)}"


def _size(amount: int) -> str:
    if amount < 100_000:
        return f"{amount:,} B"
    megabytes = amount / 1_000_000
    return f"{megabytes:,.0f} MB" if megabytes >= 10 else f"{megabytes:,.1f} MB"
