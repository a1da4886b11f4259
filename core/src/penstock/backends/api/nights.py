"""A target that merges nights, and can tell which of its rows the source has no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from penstock.backends.api.control import RunRow
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
class Chosen:
    """The keys of some buckets."""

    bits: int
    buckets: Sequence[int]


@runtime_checkable
class FindsGone(Protocol):
    """A `TargetCatalog` in whose table rows may be looked for that the source has no more."""

    def count_after(self, run: RunRow) -> int:
        """How many rows the run's condition would select once the stage is merged."""
        ...

    def buckets_after(self, run: RunRow, bits: int) -> dict[int, Bucket]:
        """Their keys, in 2 to the power of `bits` buckets; empty ones may be left out."""
        ...

    def keys_there(self, run: RunRow, chosen: Chosen | None) -> Iterator[KeyDigest]:
        """The keys of the target's table that the run's condition selects, sorted as Python sorts.

        Parameters:
            chosen: those in these buckets; None: all.
        """
        ...

    def note_gone(self, run_id: str, digests: Sequence[int], check: Callable[[int], None]) -> bool:
        """Keep the keys that are to be deleted by the merge, and record that they were found; once
        per run. False where an earlier call has done it.

        Parameters:
            digests: of the keys.
            check: called with the number of rows that have them, before anything is recorded.
        """
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
class GroupsKeys(Protocol):
    """A `SourceCatalog` that puts keys into buckets itself, so that few of them travel."""

    def key_buckets(
        self, relation: Relation, where: str | None, key: Sequence[ColumnPair], bits: int
    ) -> dict[int, Bucket]:
        """The keys of the rows that a condition selects; empty buckets may be left out."""
        ...

    def chosen_keys(
        self, relation: Relation, where: str | None, key: Sequence[ColumnPair], chosen: Chosen
    ) -> Iterator[KeyDigest]:
        """Some of them, sorted as Python sorts."""
        ...
