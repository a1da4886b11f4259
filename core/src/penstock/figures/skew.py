"""Partitions that are far from the median."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from penstock.figures.run_report import Outlier, PartitionFigures

# Multiples of the median. Partitions by statistics usually deviate less.
FAR = 2.0
FEWEST = 3
# Partitions that take less are not reported, however little the others took.
LEAST = {"seconds": 0.5, "rows": 0}
MOST = 5


def outliers(partitions: Sequence[PartitionFigures]) -> tuple[Outlier, ...]:
    """Return a few partitions with far more rows or time than the median, the farthest first."""
    result: list[Outlier] = []
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
        result += sorted(far, key=lambda outlier: -outlier.value)[:MOST]
    return tuple(result)
