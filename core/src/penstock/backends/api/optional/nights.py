"""A target that merges nights, and finds rows deleted from the source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from penstock.backends.api.execution.control import RunRow
from penstock.backends.api.facts import LoadRequest
from penstock.model.plans import LoadPlan
from penstock.model.tables import ColumnPair, Relation, TableRef

KeyDigest = tuple[str, str]
"""The text of a key, truncated if it is long, and the digest of its values as a whole number."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """The keys whose digests share their lowest bits."""

    count: int
    total: int
    """The sum of the keys' digests."""


@dataclass(frozen=True, slots=True)
class KeyRanges:
    """Ranges of a key's first column, each a power of two wide.

    The column holds whole numbers on both sides.
    """

    bits: int
    """A key's range is its number without this many lowest bits."""
    ranges: Sequence[int]

    def spans(self) -> list[tuple[int, int]]:
        """Return the first and last number of each range, with adjacent ranges joined."""
        spans: list[tuple[int, int]] = []
        for each in sorted(self.ranges):
            first, last = each << self.bits, ((each + 1) << self.bits) - 1
            if spans and spans[-1][1] + 1 == first:
                first = spans.pop()[0]
            spans.append((first, last))
        return spans


@dataclass(frozen=True, slots=True)
class KeySelection:
    """The keys of some buckets."""

    bits: int
    buckets: Sequence[int]
    within: KeyRanges | None = None
    """The ranges to choose from; None for all keys."""


@runtime_checkable
class FindsDeletedRows(Protocol):
    """A `TargetCatalog` that can find rows deleted from the source."""

    def count_after_merge(self, run: RunRow) -> int:
        """Return how many rows the run's condition will select after the stage is merged."""
        ...

    def buckets_after_merge(
        self, run: RunRow, bits: int, within: KeyRanges | None = None
    ) -> dict[int, Bucket]:
        """Return the keys of these rows in ``2 ** bits`` buckets; empty ones may be missing.

        Args:
            run: the record of the run.
            bits: the number of leading bits of a digest that select its bucket.
            within: limits the keys to these; only if the target is a `CountsRanges`.
        """
        ...

    def target_keys(self, run: RunRow, selection: KeySelection | None) -> Iterator[KeyDigest]:
        """Yield the keys of the target's rows that the run's condition selects, in Python's order.

        Args:
            run: the record of the run.
            selection: the buckets to include; all if None.
        """
        ...

    def record_deleted_keys(
        self,
        run_id: str,
        digests: Sequence[int],
        check: Callable[[int], None],
        within: KeyRanges | None = None,
    ) -> bool:
        """Store the keys that the merge will delete, and record that they were found; once per run.

        Return False if an earlier call has done it.

        Args:
            run_id: the id of the run.
            digests: the digests of the keys.
            check: called with the number of matching rows, before anything is recorded.
            within: as for `buckets_after_merge`.
        """
        ...


@runtime_checkable
class RespellsKeys(Protocol):
    """A `FindsDeletedRows` whose keys may be equal and not the same, such as 'a' and 'A'."""

    def respelled_keys(self, run: RunRow) -> Sequence[int]:
        """Return the digests of the target's keys that the merge will spell differently."""
        ...


@runtime_checkable
class CountsRanges(Protocol):
    """A `FindsDeletedRows` that counts keys by range: cheaper than computing their digests."""

    def ranges_after_merge(self, run: RunRow, bits: int) -> dict[int, int] | None:
        """Return, by range, how many keys the run's condition will select after the merge.

        For the ranges see `KeyRanges`; None if the keys' first column is not a whole number.
        """
        ...


@runtime_checkable
class CountsMany(Protocol):
    """A `TargetCatalog` that counts the rows of many tables in one statement."""

    def counts(self, tables: Sequence[TableRef]) -> Mapping[TableRef, int]:
        """Return the row counts of tables.

        Raises:
            PenstockError: one of the tables cannot be counted.
        """
        ...


@runtime_checkable
class BuildsNights(Protocol):
    """A `TargetCatalog` that can load all rows of a night into a new table instead of merging them.

    The new table then replaces the target, so no row is written twice.
    """

    def holds_rows(self, table: TableRef) -> bool:
        """Whether a table exists and has rows."""
        ...

    def plan_night_rebuild(
        self, request: LoadRequest, merge_plan: LoadPlan, *, replaces: bool
    ) -> LoadPlan:
        """Plan the load of such a night.

        Args:
            request: the request of the same night as a merge.
            merge_plan: its plan as a merge.
            replaces: whether the target has rows.

        Raises:
            PlanningError: the night cannot be loaded like this; gives the reason.
        """
        ...


@runtime_checkable
class GroupsKeys(Protocol):
    """A `SourceCatalog` that groups keys into buckets itself, so that few of them travel."""

    def key_buckets(
        self,
        relation: Relation,
        where: str | None,
        key: Sequence[ColumnPair],
        bits: int,
        within: KeyRanges | None = None,
    ) -> dict[int, Bucket]:
        """Return the keys of the rows that a condition selects, in buckets.

        Empty buckets may be missing.

        Args:
            relation: the source's table or query.
            where: the condition of `--where`; None for all rows.
            key: the columns of the key.
            bits: the number of leading bits of a digest that select its bucket.
            within: the ranges to count in; None for all keys.
        """
        ...

    def key_ranges(
        self, relation: Relation, where: str | None, key: Sequence[ColumnPair], count: int
    ) -> tuple[int, dict[int, int]] | None:
        """Count the keys of the rows that a condition selects, by range.

        Args:
            relation: the source's table or query.
            where: the condition of `--where`; None for all rows.
            key: the columns of the key.
            count: the number of ranges to aim for.

        Returns:
            the width of the ranges in bits, see `KeyRanges`, and the counts; None if the keys'
            first column is not a whole number.
        """
        ...

    def chosen_keys(
        self,
        relation: Relation,
        where: str | None,
        key: Sequence[ColumnPair],
        selection: KeySelection,
    ) -> Iterator[KeyDigest]:
        """Yield some of these keys, in Python's order.

        Args:
            relation: the source's table or query.
            where: the condition of `--where`; None for all rows.
            key: the columns of the key.
            selection: the buckets of the keys.
        """
        ...
