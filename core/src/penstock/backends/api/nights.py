"""A target that merges nights, and can tell which of its rows the source has no more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, runtime_checkable

from penstock.backends.api.control import RunRow
from penstock.model.extents import Extent
from penstock.model.tables import Relation

KeyDigest = tuple[str, str]
"""The text of a key, cut off if it is long, and the digest of its values."""


@runtime_checkable
class FindsGone(Protocol):
    """A `TargetCatalog` in whose table rows may be looked for that the source has no more."""

    def counts_after(self, run: RunRow, extents: Sequence[Extent]) -> list[int]:
        """How many rows of the run's condition each extent would have once the stage is merged."""
        ...

    def keys_there(self, run: RunRow, extent: Extent) -> Iterator[KeyDigest]:
        """The keys of the target's table that the run's condition selects, sorted as Python
        sorts."""
        ...

    def note_gone(self, run_id: str, found: Iterable[tuple[Extent, Sequence[KeyDigest]]]) -> bool:
        """Keep the keys that are to be deleted by the merge, and record that they were found; once
        per run. False where an earlier call has done it.

        Parameters:
            found: read within the transaction, which it may end by an error.
        """
        ...


@runtime_checkable
class CountsTogether(Protocol):
    """A `SourceCatalog` that counts the rows of many extents by one statement."""

    def counts(
        self, relation: Relation, where: str | None, extents: Sequence[Extent]
    ) -> list[int]: ...
