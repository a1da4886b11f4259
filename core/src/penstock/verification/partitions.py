"""Whether a run's partitions hold each row exactly once: their rows against one count of all.

Partitions by a key are conditions, and a database may order, list and compare values in different
ways. So the plan is not believed: the partitions together have as many rows as one statement counts
without them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.backends.api.source import SourceCatalog
from penstock.model.extents import Extent, HashBucket, KeyOther, KeyRange, KeyValues, Whole
from penstock.model.plans import PartitionPlan
from penstock.spec.copy_spec import CopySpec
from penstock.spec.parts import Route

# Tags of the types whose values every database orders, lists and compares in the same way.
_EXACT = frozenset(
    ("bool", "int2", "int4", "int8", "numeric", "date", "timestamp", "timestamptz", "uuid")
)


def is_checked(spec: CopySpec, plan: PartitionPlan) -> bool:
    """Whether a run compares its partitions with one count of all rows, as its option says.

    Partitions that the caller names need not hold all rows, nor do those of files that are new.
    """
    some_files = plan.night is not None and plan.night.files is not None and plan.selection != ""
    if plan.given or some_files or spec.check_partitions == "never":
        return False
    return spec.check_partitions == "always" or any(
        _is_doubtful(partition.extent) for partition in plan.partitions
    )


def is_compared(spec: CopySpec, plan: PartitionPlan) -> bool:
    """Whether a run reads the source once more after its last partition."""
    return spec.verify != "none" or spec.gone.found or is_checked(spec, plan)


def may_overlap(plan: PartitionPlan) -> bool:
    """Whether the partitions may hold some rows twice, or not at all, as far as can be told without
    reading any: those that compare a key."""
    return not plan.given and any(
        _is_doubtful(partition.extent)
        or isinstance(partition.extent, KeyRange | KeyValues | KeyOther)
        for partition in plan.partitions
    )


def _is_doubtful(extent: Extent) -> bool:
    match extent:
        case HashBucket(key):
            return key.expression
        case KeyRange(key, lower, upper):
            bounds = [bound for bound in (lower, upper) if bound is not None]
        case KeyValues(key, values) | KeyOther(key, values):
            bounds = list(values)
        case _:
            return False
    return key.expression or any(bound.type not in _EXACT for bound in bounds)


@dataclass(frozen=True, slots=True)
class Proof:
    """What was found of a run's partitions."""

    rows: int
    """Of all partitions together, as they are committed, or as the source has them now."""
    counted: int
    """By one statement without partitions."""
    doubt: str = ""
    """Why the two differ though the partitions may be right; empty where nothing else explains
    it."""

    @property
    def ok(self) -> bool:
        return self.rows == self.counted

    @property
    def wrong(self) -> bool:
        """Whether the partitions hold rows twice, or miss some."""
        return not self.ok and not self.doubt


def prove(
    source: SourceCatalog,
    route: Route,
    plan: PartitionPlan,
    committed: int,
    *,
    same_moment: bool,
    counted: int | None = None,
) -> Proof:
    """Compare a run's rows with one count.

    A difference counts only if nobody has written to the source between the two, and if the
    condition holds for the same rows all the time.

    Parameters:
        committed: rows of all partitions, by their commit records.
        same_moment: all of them were read as of the moment that the source is read as of.
        counted: one count at the same moment, if there is one already.
    """

    def count(extent: Extent) -> int:
        return source.checksum(route.relation, plan.where(route.where), extent, ()).rows

    first = count(Whole()) if counted is None else counted
    if first == committed:
        return Proof(committed, first)
    if not same_moment:
        if not may_overlap(plan):
            return Proof(committed, first, "the source may have been written to since")
        return prove_now(plan, first, count)
    again = count(Whole())
    moving = "--where selects other rows at every moment" if again != first else ""
    return Proof(committed, again, moving)


def prove_now(plan: PartitionPlan, first: int, count: Callable[[Extent], int]) -> Proof:
    """Compare the rows that the partitions select by now with one count.

    Parameters:
        first: that count, as it was before.
    """
    rows = sum(count(partition.extent) for partition in plan.partitions)
    again = count(Whole())
    if rows in (first, again):
        return Proof(rows, rows)
    return Proof(rows, again, "the source is being written to" if again != first else "")


def difference(route: Route, plan: PartitionPlan, proof: Proof) -> str:
    """What is wrong with the partitions, and what to do, for people."""
    keys = dict.fromkeys(
        partition.extent.key.text
        for partition in plan.partitions
        if isinstance(partition.extent, HashBucket | KeyRange | KeyValues | KeyOther)
    )
    by = f" by {', '.join(keys)}" if keys else ""
    wrong = (
        "some rows are in several partitions, so they were copied more than once"
        if proof.rows > proof.counted
        else "some rows are in no partition, so they are missing"
    )
    return (
        f"the partitions of {route.source_name} (strategy {plan.strategy}{by}) do not hold each "
        f"row exactly once: together they have {proof.rows:,} rows, one count of them all found "
        f"{proof.counted:,}; {wrong}"
    )


def unsure(proof: Proof) -> str:
    """Why the partitions could not be proved, for people."""
    return (
        f"the partitions have {proof.rows:,} rows together, and one count of them all found "
        f"{proof.counted:,}: whether each row is in one partition is not known, since {proof.doubt}"
    )


def remedy(plan: PartitionPlan) -> str:
    """What to do about wrong partitions, for people."""
    hashed = any(isinstance(partition.extent, HashBucket) for partition in plan.partitions)
    other = "another --key" if hashed else "--strategy hash, which compares no values"
    return f"remove what was loaded, and start a new run with {other}"
