"""Partitions that are far from the median."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from penstock.figures.run_report import Outlier, PartitionFigures

# Medians. Cuts by statistics are off by less than that as a rule.
FAR = 2.0
FEWEST = 3
# What takes less is not worth telling, whatever the others took.
LEAST = {"seconds": 0.5, "rows": 0}
MOST = 5


def outliers(partitions: Sequence[PartitionFigures]) -> tuple[Outlier, ...]:
    """Those with far more rows, or that took far longer, than half of the others; the farthest
    first, a few of each."""
    found: list[Outlier] = []
    for measure in ("seconds", "rows"):
        values = [float(getattr(partition, measure)) for partition in partitions]
        middle = median(values) if len(values) >= FEWEST else 0.0
        if middle <= 0:
            continue
        far = [
            Outlier(partition.partition_id, partition.label, measure, value, middle)
            for partition, value in zip(partitions, values, strict=True)
            if value > FAR * middle and value >= LEAST[measure]
        ]
        found += sorted(far, key=lambda outlier: -outlier.value)[:MOST]
    return tuple(found)
