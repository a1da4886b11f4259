"""How the partitions compare a key, and the proof that their bounds ascend as it is compared.

Everything rests on one comparison: values that are listed apart, bounds that follow one another,
rows that the source selects and rows that the target deletes must all mean the same by "equal" and
"less". Else a row is in two partitions, or in none.
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
    """The collation by which all comparisons of a key are made, where the target decides by the
    same conditions what to delete.

    Raises:
        PlanningError: no order of the key is the same on both sides.
    """
    own = source.own_order(relation, key)
    if own and target.shares_order(table, key, own):
        return own
    return source.shared_order(relation, key)


def disorder(source: SourceCatalog, relation: Relation, extents: Iterable[Extent]) -> str:
    """Which bounds do not ascend, or which values are equal, as the source compares them; empty
    where there are none such.

    Ranges that follow one another, and the values that are listed, then have each row once,
    whatever they are.
    """
    for extent in (extents := list(extents)):
        if isinstance(extent, KeyOther):
            return _equal(source, relation, extent)
    ranges = [extent for extent in extents if isinstance(extent, KeyRange)]
    bounds = [extent.lower for extent in ranges if extent.lower is not None]
    place = source.misplaced(relation, ranges[0].key, bounds) if len(bounds) > 1 else None
    if place is None:
        return ""
    low, high = bounds[place - 1 : place + 1]
    return (
        f"the source does not hold {low.text!r} to be less than {high.text!r}, which follows it "
        f"among {len(bounds):,} bounds"
    )


def _equal(source: SourceCatalog, relation: Relation, others: KeyOther) -> str:
    values = others.values
    if len(values) < 2 or source.misplaced(relation, others.key, values) is None:
        return ""
    # They may be listed in another order, which does no harm.
    found = source.ranked(relation, others.key, [value.text for value in values], ordered=False)
    seen: dict[int, Bound] = {}
    for value, ranked in zip(values, found, strict=True):
        if ranked.rank in seen:
            first = seen[ranked.rank].text
            return f"the source holds {first!r} and {value.text!r} equal, which it has listed apart"
        seen[ranked.rank] = value
    return ""
