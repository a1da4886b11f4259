"""The order in which partitions compare a key, and the proof that their bounds ascend in it.

Everything rests on one comparison: the listed values, the bounds of adjacent ranges, the rows that
the source selects and the rows that the target deletes must all use the same "equal" and "less".
Otherwise a row is in two partitions, or in none.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.backends.api.source import SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.model.extents import Bound, Extent, Key, KeyOther, KeyRange
from penstock.model.tables import Relation, TableRef


def shared_order(
    source: SourceCatalog, relation: Relation, key: Key, target: TargetCatalog, table: TableRef
) -> str:
    """Return the collation for all comparisons of a key that both sides must order alike.

    They must if the target uses the same conditions to decide what to delete.

    Args:
        source: the source's catalog.
        relation: the source's table or query.
        key: the key.
        target: the target's catalog.
        table: the target's table.

    Raises:
        PlanningError: no order of the key is the same on both sides.
    """
    native = source.native_order(relation, key)
    if native and target.shares_order(table, key, native):
        return native
    return source.shared_order(relation, key)


def disorder(source: SourceCatalog, relation: Relation, extents: Iterable[Extent]) -> str:
    """Return which bounds do not ascend, or which values are equal, as the source compares them.

    The result is empty if the order is sound: then adjacent ranges, and the listed values, have
    each row exactly once, whatever the rows are.

    Args:
        source: the source's catalog.
        relation: the source's table or query.
        extents: the extents of the partitions.
    """
    for extent in (extents := list(extents)):
        if isinstance(extent, KeyOther):
            return _equal(source, relation, extent)
    ranges = [extent for extent in extents if isinstance(extent, KeyRange)]
    bounds = [extent.lower for extent in ranges if extent.lower is not None]
    place = source.misplaced_bound(relation, ranges[0].key, bounds) if len(bounds) > 1 else None
    if place is None:
        return ""
    low, high = bounds[place - 1 : place + 1]
    return (
        f"the source does not order {low.text!r} before {high.text!r}, although they are adjacent "
        f"among {len(bounds):,} bounds"
    )


def _equal(source: SourceCatalog, relation: Relation, listed: KeyOther) -> str:
    values = listed.values
    if len(values) < 2 or source.misplaced_bound(relation, listed.key, values) is None:
        return ""
    # The source may list them in another order, which does no harm.
    ranks = source.rank_values(
        relation, listed.key, [value.text for value in values], ordered=False
    )
    by_rank: dict[int, Bound] = {}
    for value, ranked in zip(values, ranks, strict=True):
        if ranked.rank in by_rank:
            first = by_rank[ranked.rank].text
            return f"the source compares {first!r} and {value.text!r} as equal, but lists both"
        by_rank[ranked.rank] = value
    return ""
