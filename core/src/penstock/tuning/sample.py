"""The partitions of a plan that serve as a sample of its table. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.model.plans import Partition, PartitionPlan
from penstock.planning.choice import SMALLEST_PARTITION_BYTES

SAMPLE = 10**9
"""The default size of a sample, in bytes of the source."""
PER_STREAM = 4
"""Partitions in a sample for each stream, so that every stream stays busy to the end."""
LEAST_PER_STREAM = 2


def partition_size(sample: int, most: int) -> str:
    """Return the size of a partition, as `--partitions` takes it.

    Args:
        sample: the size of the sample, in bytes.
        most: the highest number of streams tried.
    """
    return f"{max(SMALLEST_PARTITION_BYTES, sample // (PER_STREAM * most))} B"


def choose_sample(plan: PartitionPlan, size: int, most: int) -> tuple[Partition, ...]:
    """Choose partitions of about `size` bytes in all, spread evenly over the table's extent.

    Args:
        plan: the plan of the whole table.
        size: the size of the sample, in bytes.
        most: the number of streams that share the sample; each gets enough partitions, even if
            `size` is exceeded.
    """
    partitions = plan.partitions
    total = plan.bytes or 0
    count = round(len(partitions) * size / total) if total else len(partitions)
    return evenly(partitions, max(count, LEAST_PER_STREAM * most))


def evenly(partitions: Sequence[Partition], count: int) -> tuple[Partition, ...]:
    """Return `count` partitions, or all: the middle one of each of `count` equal parts."""
    total = len(partitions)
    if count >= total:
        return tuple(partitions)
    return tuple(partitions[(2 * place + 1) * total // (2 * count)] for place in range(count))


def sampled_bytes(partitions: Sequence[Partition], plan: PartitionPlan) -> int:
    """Return the bytes of the partitions in the source, by its own estimate; 0 if unknown."""
    if all(partition.bytes is not None for partition in partitions):
        return sum(partition.bytes or 0 for partition in partitions)
    return (plan.bytes or 0) * len(partitions) // len(plan.partitions)
