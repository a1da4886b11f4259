"""How the partitions compare a key, and the proof that their bounds ascend as it is compared.

Everything rests on one comparison: values that are listed apart, bounds that follow one another,
rows that the source selects and rows that the target deletes must all mean the same by "equal" and
"less". Else a row is in two partitions, or in none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from penstock.backends.api.source import SourceCatalog
from penstock.backends.api.target import TargetCatalog
from penstock.model.extents import Bound, Extent, Key, KeyOther, KeyRange
from penstock.spec.copy_spec import CopySpec


def compared_key(
    spec: CopySpec, key: Key, source: SourceCatalog, target: TargetCatalog | None
) -> Key:
    """The key with the collation that all comparisons use.

    Parameters:
        target: where it decides by the same conditions what to delete.

    Raises:
        PlanningError: no order of the key is the same on both sides.
    """
    own = source.own_order(spec.relation, key)
    if target is not None and not (own and target.shares_order(spec.target_ref, key, own)):
        own = source.shared_order(spec.relation, key)
    return replace(key, collation=own)


def disorder(spec: CopySpec, source: SourceCatalog, extents: Iterable[Extent]) -> str:
    """Which bounds do not ascend, or which values are equal, as the source compares them; empty
    where there are none such.

    Ranges that follow one another, and the values that are listed, then have each row once,
    whatever they are.
    """
    for extent in (extents := list(extents)):
        if isinstance(extent, KeyOther):
            return _equal(spec, source, extent)
    ranges = [extent for extent in extents if isinstance(extent, KeyRange)]
    bounds = [extent.lower for extent in ranges if extent.lower is not None]
    place = source.misplaced(spec.relation, ranges[0].key, bounds) if len(bounds) > 1 else None
    if place is None:
        return ""
    low, high = bounds[place - 1 : place + 1]
    return (
        f"the source does not hold {low.text!r} to be less than {high.text!r}, which follows it "
        f"among {len(bounds):,} bounds"
    )


def _equal(spec: CopySpec, source: SourceCatalog, others: KeyOther) -> str:
    values = others.values
    if len(values) < 2 or source.misplaced(spec.relation, others.key, values) is None:
        return ""
    # They may be listed in another order, which does no harm.
    found = source.ranked(
        spec.relation, others.key, [value.text for value in values], ordered=False
    )
    seen: dict[int, Bound] = {}
    for value, ranked in zip(values, found, strict=True):
        if ranked.rank in seen:
            first = seen[ranked.rank].text
            return f"the source holds {first!r} and {value.text!r} equal, which it has listed apart"
        seen[ranked.rank] = value
    return ""
