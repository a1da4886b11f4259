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
    spec: CopySpec, key: Key, source: SourceCatalog, target: TargetCatalog, *, on_both_sides: bool
) -> Key:
    """The key with the collation that all comparisons use.

    Parameters:
        on_both_sides: the target decides by the same conditions what to delete.

    Raises:
        PlanningError: no order of the key is the same on both sides.
    """
    own = source.own_order(spec.relation, key)
    if on_both_sides and not (own and target.shares_order(spec.target_ref, key, own)):
        own = source.shared_order(spec.relation, key)
    return replace(key, collation=own)


def disorder(spec: CopySpec, source: SourceCatalog, extents: Iterable[Extent]) -> str:
    """Which bounds do not ascend as the source compares them; empty where all of them do.

    Extents that share no bound cover each row once if their bounds ascend, whatever they are.
    """
    bounds: list[Bound] = []
    key: Key | None = None
    for extent in extents:
        if isinstance(extent, KeyRange) and extent.lower is not None:
            key = extent.key
            bounds.append(extent.lower)
        elif isinstance(extent, KeyOther):
            key = extent.key
            bounds.extend(extent.values)
    if key is None or len(bounds) < 2:
        return ""
    place = source.misplaced(spec.relation, key, bounds)
    if place is None:
        return ""
    low, high = bounds[place - 1 : place + 1]
    return (
        f"the source does not hold {low.text!r} to be less than {high.text!r}, which follows it "
        f"among {len(bounds):,} bounds of {key.text}"
    )
