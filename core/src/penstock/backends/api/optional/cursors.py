"""A source that tells what has changed by a column whose values grow with each change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from penstock.model.extents import Bound
from penstock.model.nights import Cursor
from penstock.model.tables import Relation


@dataclass(frozen=True, slots=True)
class CursorNow:
    """What a source holds in a column that a night is to read by, or in several of which the first
    one counts that is not NULL."""

    columns: tuple[str, ...]
    type: str
    """See `Bound`."""
    text: str
    """Up to where a night may read by it: the greatest value, but none that is ahead of the
    source's clock, nor one from which on rows may still come. Empty: no row has a value."""
    nulls: int
    """Rows without a value."""
    ahead: str
    """The greatest value, where that is further ahead than allowed."""
    unproven: str
    """See `Cursor`."""
    indexed: bool
    """An index finds the values."""
    source: Mapping[str, str] = field(default_factory=dict)
    """See `Cursor`."""


@dataclass(frozen=True, slots=True)
class CursorRange:
    """The rows that a night reads."""

    lower: str
    """The least value."""
    condition: str
    behind: bool
    """The source's greatest value is less than when it was last read."""


@runtime_checkable
class ReadsByColumn(Protocol):
    """A `SourceCatalog` that compares the values of columns with what nights have kept of them."""

    def note_open(self) -> None:
        """Look at what is under way in the source, as a snapshot that is taken later will not see
        it. Called before that."""
        ...

    def cursor(
        self, relation: Relation, where: str | None, columns: Sequence[str], max_ahead: float
    ) -> CursorNow:
        """
        Parameters:
            max_ahead: seconds by which a time may be ahead of the source's clock; 0: any.

        Raises:
            PlanningError: there is no such column, or its type has no exact order.
        """
        ...

    def cursor_range(
        self, relation: Relation, since: Cursor, now: CursorNow, lookback: str, *, nulls: bool
    ) -> CursorRange:
        """
        Parameters:
            since: of the last night; of the same type, with a value.
            nulls: also read the rows without a value.

        Raises:
            PlanningError: a lookback of that unit does not go with the type.
        """
        ...

    def keys_at(
        self,
        relation: Relation,
        where: str | None,
        columns: Sequence[str],
        value: Bound,
        key: Sequence[str],
    ) -> str:
        """A row that has this value, by its key, for people."""
        ...
