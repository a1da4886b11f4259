"""A check that a run's partitions hold each row exactly once: their rows against one count of all.

Partitions by a key are conditions, and databases may order, list and compare values in different
ways. So the plan is not trusted: the partitions together must have as many rows as one statement
counts without them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from penstock.backends.api.source import SourceCatalog
from penstock.model.extents import Extent, HashBucket, KeyOther, KeyRange, KeyValues, Whole
from penstock.model.plans import PartitionPlan
from penstock.spec.copy_spec import CopySpec
from penstock.spec.groups.route import Route

# Tags of the types whose values every database orders, lists and compares alike.
_EXACT = frozenset(
    ("bool", "int2", "int4", "int8", "numeric", "date", "timestamp", "timestamptz", "uuid")
)


def is_checked(plan: PartitionPlan) -> bool:
    """Whether a run compares its partitions with one count of all rows.

    Partitions defined by the caller need not hold all rows, nor do those of new files.
    """
    some_files = plan.night is not None and plan.night.files is not None and plan.selection != ""
    if plan.has_given_partitions or plan.is_sample or some_files:
        return False
    return any(_is_doubtful(partition.extent) for partition in plan.partitions)


def is_compared(spec: CopySpec, plan: PartitionPlan) -> bool:
    """Whether a run reads the source once more after its last partition."""
    return spec.verify != "none" or spec.deletion.is_enabled or is_checked(plan)


def may_overlap(plan: PartitionPlan) -> bool:
    """Whether the partitions may miss rows or hold some twice, judged without reading any.

    This is so for partitions that compare a key.
    """
    return not plan.has_given_partitions and any(
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
    """The row counts of a run's partitions and of the whole."""

    rows: int
    """Rows of all partitions together, as committed or as the source has them now."""
    counted: int
    """Rows counted by one statement without partitions."""
    doubt: str = ""
    """Why the counts may differ though the partitions are right; empty if nothing explains it."""

    @property
    def ok(self) -> bool:
        return self.rows == self.counted

    @property
    def wrong(self) -> bool:
        """Whether the partitions hold rows twice or miss some."""
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
    """Compare a run's rows with one count of all.

    A difference counts only if the source was not written to between the two reads, and if the
    condition holds for the same rows throughout.

    Args:
        source: the source's catalog.
        route: the route of the run.
        plan: the plan of the run.
        committed: rows of all partitions, by their commit records.
        same_moment: whether all partitions were read as of the moment of `source`.
        counted: a count at that moment, if one exists already.
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
    recount = count(Whole())
    moving = "--where selects different rows each time" if recount != first else ""
    return Proof(committed, recount, moving)


def prove_now(plan: PartitionPlan, first: int, count: Callable[[Extent], int]) -> Proof:
    """Compare the rows that the partitions select now with one count of all.

    Args:
        plan: the plan.
        first: the count made before.
        count: counts the rows of an extent.
    """
    rows = sum(count(partition.extent) for partition in plan.partitions)
    recount = count(Whole())
    if rows in (first, recount):
        return Proof(rows, rows)
    return Proof(rows, recount, "the source is being written to" if recount != first else "")


def difference(route: Route, plan: PartitionPlan, proof: Proof) -> str:
    """Say what is wrong with the partitions and what to do.

    Args:
        route: the route of the copy.
        plan: the plan.
        proof: the counts of the partitions' rows and of all rows.
    """
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
        f"row exactly once: together they have {proof.rows:,} rows, but one count of all found "
        f"{proof.counted:,}; {wrong}"
    )


def unsure(proof: Proof) -> str:
    """Say why the partitions could not be checked."""
    return (
        f"the partitions have {proof.rows:,} rows together, but one count of all found "
        f"{proof.counted:,}: it is unknown whether each row is in one partition, since "
        f"{proof.doubt}"
    )


def remedy(plan: PartitionPlan) -> str:
    """Say what to do about wrong partitions."""
    hashed = any(isinstance(partition.extent, HashBucket) for partition in plan.partitions)
    alternative = "another --key" if hashed else "--strategy hash, which compares no values"
    return f"delete the loaded rows, and start a new run with {alternative}"
