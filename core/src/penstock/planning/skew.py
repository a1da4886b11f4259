"""Partitions that are far larger than the others, because many rows have the same key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.backends.api.facts import TableStatistics
from penstock.model.extents import HashBucket, KeyIsNull, KeyRange
from penstock.planning.choice import SMALLEST_PARTITION_BYTES, Choice
from penstock.planning.partition_extents import Partitioning, quantity
from penstock.spec.groups.partitioning import PartitionOptions
from penstock.spec.option import derived
from penstock.spec.strategies import AUTO

# Times the mean: streams that copy the other partitions wait for a larger one at the end.
MOST_TIMES = 2.0


@dataclass(frozen=True, slots=True)
class Skew:
    """The largest partition, if it is far larger than the mean."""

    place: int
    """The partition's position, from 0."""
    share: float
    """Its estimated share of the rows."""
    mean: float
    """The mean share."""
    cause: str
    """The condition that many of its rows meet, such as ``k = 7``; empty if unknown."""
    cause_share: float
    """The share of all rows that meet it."""
    others: int
    """The number of other partitions that are as far above the mean."""

    @property
    def by_one_value(self) -> bool:
        """Whether one value alone is far larger than the mean."""
        return self.cause_share > MOST_TIMES * self.mean

    @property
    def reason(self) -> str:
        """The cause, as part of a sentence."""
        return f"{self.cause} in {_percent(self.cause_share)} of all rows, which stay together"

    def warning(self, partition_id: str, extent: str, way: str) -> str:
        """Return a warning that names the partition and what may help.

        Args:
            partition_id: the id of the partition.
            extent: the description of its extent.
            way: the strategy that needs no key; empty if none can be used.
        """
        text = (
            f"{partition_id} ({extent}) has about {_percent(self.share)} of the rows, "
            f"{self.share / self.mean:,.1f} times the mean"
        )
        if self.others:
            text += f", and {quantity(self.others, 'other')} more than {MOST_TIMES:.0f} times"
        if self.cause and self.cause != extent:
            text += f": {self.reason}"
        ways = [f"--strategy {way}"] if way else []
        return f"{text}; use {' or '.join([*ways, 'another --key'])}"


def find_skew(planned: Partitioning, table: TableStatistics, *, shows_values: bool) -> Skew | None:
    """Return the largest partition by a key, if it is far larger than the mean.

    None if the table is so small that it does not matter.

    Args:
        planned: the extents with their estimated fractions.
        table: statistics of the table.
        shows_values: whether messages may show values of the key.
    """
    shares = [share or 0.0 for _, share in planned.extents]
    if not shares:
        return None
    share, mean = max(shares), 1.0 / len(shares)
    if (
        share <= MOST_TIMES * mean
        or share * table.bytes * table.selected < SMALLEST_PARTITION_BYTES
    ):
        return None
    place = shares.index(share)
    extent = planned.extents[place][0]
    cause, cause_share = "", 0.0
    if isinstance(extent, KeyIsNull):
        cause, cause_share = str(extent), share
    elif isinstance(extent, KeyRange | HashBucket) and extent in planned.common and shows_values:
        bound, cause_share = planned.common[extent]
        cause = f"{extent.key.text} = {bound}"
    others = sum(each > MOST_TIMES * mean for each in shares) - 1
    return Skew(place, share, mean, cause, cause_share, others)


def without_key(
    options: PartitionOptions, choose: Callable[[PartitionOptions], Choice]
) -> Choice | None:
    """Return the automatic choice that divides rows with equal keys; None if there is none.

    Args:
        options: how to partition.
        choose: chooses the strategy by other options.
    """
    choice = choose(derived(options, strategy=AUTO.name, key=None))
    divides = choice.how.by_blocks or choice.how.by_children or choice.how.by_files
    return choice if divides else None


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")
