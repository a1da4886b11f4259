"""Keys with a mask: their plain values must not leave the source, and rows must stay distinct."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from penstock.backends.api.facts import TableStatistics
from penstock.errors import PlanningError
from penstock.model.extents import Crossing, HashBucket, Key, KeyIsNull
from penstock.model.plans import LoadPlan, Partition
from penstock.planning.column_pairs import ColumnMapping
from penstock.spec.groups.route import Route
from penstock.spec.masks import DIGESTS, mentions


def without_masked_key(route: Route, statistics: TableStatistics) -> TableStatistics:
    """Return the statistics without a default key whose values are masked."""
    key = statistics.default_key
    if key is None or not (route.mask_of(key) or route.excludes(key)):
        return statistics
    what = "masked" if route.mask_of(key) else "left out"
    note = f"not partitioned by {key}, which is {what}: bounds would show its values"
    return replace(statistics, default_key=None, notes=(*statistics.notes, note))


def check_bounds(route: Route, columns: Collection[str], partitions: Sequence[Partition]) -> None:
    """Check that bounds show no plain values of a masked column.

    Args:
        route: the route of the copy.
        columns: the names of the source's columns.
        partitions: the partitions with their bounds.

    Raises:
        PlanningError: bounds of partitions hold plain values of a masked column.
    """
    if not route.masks:
        return
    masked = [name for name in columns if route.mask_of(name)]
    for key in {key for partition in partitions for key in _shown(partition)}:
        masked_columns = [name for name in masked if mentions(key.text, [name])]
        if masked_columns:
            raise PlanningError(
                f"--key {key.text}: column {masked_columns[0]} has a --mask, but bounds of "
                "partitions would show its values in the plan, in events and in the control "
                "tables; partition by another column, or use --strategy hash, whose partitions "
                "have no bounds"
            )


def _shown(partition: Partition) -> tuple[Key, ...]:
    """Return the keys whose values a partition shows."""
    extent = partition.extent
    if isinstance(extent, Crossing):
        return extent.keys
    if isinstance(extent, HashBucket | KeyIsNull) or not hasattr(extent, "key"):
        return ()
    key: Key = extent.key
    return (key,)


def check_key(route: Route, mapping: ColumnMapping, load: LoadPlan) -> None:
    """Check that different rows keep different keys after masking.

    Args:
        route: the route of the copy.
        mapping: the mapping of the columns.
        load: the load plan.

    Raises:
        PlanningError: a mask gives different rows the same key of mode upsert.
    """
    pairs = {pair.target: pair for pair in mapping.pairs}
    for name in load.conflict_columns:
        mask = route.mask_of(pairs[name].source) if name in pairs else None
        if mask is not None and mask.kind not in DIGESTS:
            raise PlanningError(
                f"--mode upsert identifies rows by {name}, but --mask {name}={mask} gives "
                "different rows the same key: expected hash or hmac, or other --conflict-columns"
            )
