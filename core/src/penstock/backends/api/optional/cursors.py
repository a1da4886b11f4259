"""Sources that find what is new since the last night: by a column that grows, or by files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from penstock.backends.api.facts import SourceFile
from penstock.model.extents import Bound
from penstock.model.nights import Cursor
from penstock.model.tables import Relation


@dataclass(frozen=True, slots=True)
class CursorState:
    """The current contents of the columns that a night reads by.

    Of several columns, the first that is not NULL counts.
    """

    columns: tuple[str, ...]
    type: str
    """As in `Bound`."""
    text: str
    """The limit up to which a night may read: the greatest value that is not ahead of the source's
    clock, and below which no more rows can come. Empty if no row has a value.
    """
    nulls: int
    """The number of rows without a value."""
    ahead: str
    """The greatest value, if it is further ahead than allowed."""
    unproven: str
    """As in `Cursor`."""
    indexed: bool
    """Whether an index finds the values."""
    source: Mapping[str, str] = field(default_factory=dict)
    """As in `Cursor`."""
    proof: Mapping[str, str] = field(default_factory=dict)
    """As in `Cursor`."""
    assumed: str = ""
    """As in `Cursor`."""


@dataclass(frozen=True, slots=True)
class CursorRange:
    """The rows that a night reads."""

    lower: str
    """The lowest value."""
    condition: str
    behind: bool
    """Whether the source's greatest value is less than at the last read."""
    broken: str = ""
    """Why rows may have changed without a new value since the last read, although that was proven
    to be impossible then; empty if they have not."""


@runtime_checkable
class ReadsByColumn(Protocol):
    """A `SourceCatalog` that compares columns with the values that earlier nights recorded."""

    def note_open(self) -> None:
        """Note the open transactions that a snapshot taken later will not see."""
        ...

    def cursor(
        self, relation: Relation, where: str | None, columns: Sequence[str], max_ahead: float
    ) -> CursorState:
        """Return the current state of the cursor's columns.

        Args:
            relation: the source's table or query.
            where: the condition of `--where`; None for all rows.
            columns: the columns of the cursor.
            max_ahead: seconds by which a time may be ahead of the source's clock; 0 for no
                limit.

        Raises:
            PlanningError: a column does not exist, or its type has no exact order.
        """
        ...

    def cursor_range(
        self, relation: Relation, since: Cursor, state: CursorState, lookback: str, *, nulls: bool
    ) -> CursorRange:
        """Return the rows to read.

        Args:
            relation: the source's table or query.
            since: from the last night; of the same type, with a value.
            state: the state of the columns in the source.
            lookback: how far below the last value to read.
            nulls: whether to read rows without a value too.

        Raises:
            PlanningError: the unit of the lookback does not fit the type.
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
        """Describe a row with this value by its key.

        Args:
            relation: the source's table or query.
            where: the condition of `--where`; None for all rows.
            columns: the columns of the cursor.
            value: the value of the first of these columns.
            key: the columns of the key.
        """
        ...


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """The files of a source."""

    place: str
    """The files' location."""
    files: Sequence[SourceFile]


@runtime_checkable
class ReadsByFile(Protocol):
    """A `SourceCatalog` of files."""

    def source_files(self, relation: Relation) -> SourceFiles:
        """Return the files as of the adopted snapshot, or now if there is none.

        Raises:
            PlanningError: the relation is a query, whose rows do not belong to single files.
        """
        ...
