"""A target that merges nights, and can tell which of its rows the source has no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from penstock.backends.api.execution.control import RunRow
from penstock.backends.api.facts import LoadRequest
from penstock.model.plans import LoadPlan
from penstock.model.tables import ColumnPair, Relation, TableRef

KeyDigest = tuple[str, str]
"""The text of a key, cut off if it is long, and the digest of its values as a whole number."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """The keys whose digests have the same lowest bits."""

    count: int
    total: int
    """The sum of their digests."""


@dataclass(frozen=True, slots=True)
class KeyRanges:
    """Keys whose first column is in some ranges, each as wide as a power of two. It is a whole
    number on both sides."""

    bits: int
    """The range of a key is the number without its lowest bits."""
    ranges: Sequence[int]

    def spans(self) -> list[tuple[int, int]]:
        """The first and the last number of each range, of neighbours together."""
        found: list[tuple[int, int]] = []
        for each in sorted(self.ranges):
            first, last = each << self.bits, ((each + 1) << self.bits) - 1
            if found and found[-1][1] + 1 == first:
                first = found.pop()[0]
            found.append((first, last))
        return found


@dataclass(frozen=True, slots=True)
class Chosen:
    """The keys of some buckets."""

    bits: int
    buckets: Sequence[int]
    within: KeyRanges | None = None
    """None: of all keys."""


@runtime_checkable
class FindsGone(Protocol):
    """A `TargetCatalog` in whose table rows may be looked for that the source has no more."""

    def count_after(self, run: RunRow) -> int:
        """How many rows the run's condition would select once the stage is merged."""
        ...

    def buckets_after(
        self, run: RunRow, bits: int, within: KeyRanges | None = None
    ) -> dict[int, Bucket]:
        """Their keys, in 2 to the power of `bits` buckets; empty ones may be left out.

        Parameters:
            within: of those alone; only where the target is a `CountsRanges`.
        """
        ...

    def keys_there(self, run: RunRow, chosen: Chosen | None) -> Iterator[KeyDigest]:
        """The keys of the target's table that the run's condition selects, sorted as Python sorts.

        Parameters:
            chosen: those in these buckets; None: all.
        """
        ...

    def note_gone(
        self,
        run_id: str,
        digests: Sequence[int],
        check: Callable[[int], None],
        within: KeyRanges | None = None,
    ) -> bool:
        """Keep the keys that are to be deleted by the merge, and record that they were found; once
        per run. False where an earlier call has done it.

        Parameters:
            digests: of the keys.
            check: called with the number of rows that have them, before anything is recorded.
            within: see `buckets_after`.
        """
        ...


@runtime_checkable
class CountsRanges(Protocol):
    """A `FindsGone` that counts keys by ranges, which costs less than to compute their digests."""

    def ranges_after(self, run: RunRow, bits: int) -> dict[int, int] | None:
        """How many keys the run's condition would select once the stage is merged, by range, see
        `KeyRanges`; None where their first column is no whole number."""
        ...


@runtime_checkable
class CountsMany(Protocol):
    """A `TargetCatalog` that counts the rows of many tables by one statement."""

    def counts(self, tables: Sequence[TableRef]) -> Mapping[TableRef, int]:
        """
        Raises:
            PenstockError: one of them cannot be counted.
        """
        ...


@runtime_checkable
class BuildsNights(Protocol):
    """A `TargetCatalog` that can load all rows of a night into a table beside the target, which
    takes its place in the end: no row is written twice."""

    def holds_rows(self, table: TableRef) -> bool:
        """Whether a table is there, and not empty."""
        ...

    def plan_built(self, request: LoadRequest, merged: LoadPlan, *, replaces: bool) -> LoadPlan:
        """
        Parameters:
            request, merged: of the same night, if it merged its rows.
            replaces: the target has rows.

        Raises:
            PlanningError: why it cannot be.
        """
        ...


@runtime_checkable
class GroupsKeys(Protocol):
    """A `SourceCatalog` that puts keys into buckets itself, so that few of them travel."""

    def key_buckets(
        self,
        relation: Relation,
        where: str | None,
        key: Sequence[ColumnPair],
        bits: int,
        within: KeyRanges | None = None,
    ) -> dict[int, Bucket]:
        """The keys of the rows that a condition selects; empty buckets may be left out."""
        ...

    def key_ranges(
        self, relation: Relation, where: str | None, key: Sequence[ColumnPair], count: int
    ) -> tuple[int, dict[int, int]] | None:
        """The bits of ranges, see `KeyRanges`, of which there are about as many as are asked for,
        and how many of these keys are in each; None where their first column is no whole number.
        """
        ...

    def chosen_keys(
        self, relation: Relation, where: str | None, key: Sequence[ColumnPair], chosen: Chosen
    ) -> Iterator[KeyDigest]:
        """Some of them, sorted as Python sorts."""
        ...
