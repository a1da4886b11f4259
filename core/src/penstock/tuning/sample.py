"""Which partitions of a plan are a sample of its table. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.model.plans import Partition, PartitionPlan
from penstock.planning.choice import SMALLEST_PARTITION_BYTES

SAMPLE = 10**9
"""Bytes of the source, unless somebody asks for others."""
PER_STREAM = 4
"""Partitions in a sample for each stream, so that all streams have something to do to the end."""
LEAST_PER_STREAM = 2


def bytes_per_partition(sample: int, most: int) -> int:
    """How finely to cut the table.

    Parameters:
        sample: bytes.
        most: streams.
    """
    return max(SMALLEST_PARTITION_BYTES, sample // (PER_STREAM * most))


def choose_sample(plan: PartitionPlan, wanted: int, most: int) -> tuple[Partition, ...]:
    """Partitions of about so many bytes together, evenly over the extent of the table.

    Parameters:
        most: streams that share them: there are enough for each, whatever they hold.
    """
    partitions = plan.partitions
    total = plan.bytes or 0
    count = round(len(partitions) * wanted / total) if total else len(partitions)
    return evenly(partitions, max(count, LEAST_PER_STREAM * most))


def evenly(partitions: Sequence[Partition], count: int) -> tuple[Partition, ...]:
    """So many of them, or all: from the middle of as many equal parts."""
    whole = len(partitions)
    if count >= whole:
        return tuple(partitions)
    return tuple(partitions[(2 * place + 1) * whole // (2 * count)] for place in range(count))


def sampled_bytes(partitions: Sequence[Partition], plan: PartitionPlan) -> int:
    """What they hold in the source, by its own estimate; 0 if that is not known."""
    if all(partition.bytes is not None for partition in partitions):
        return sum(partition.bytes or 0 for partition in partitions)
    return (plan.bytes or 0) * len(partitions) // len(plan.partitions)
