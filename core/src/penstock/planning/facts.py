"""The facts that planning starts from: read from both ends because of the request alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from penstock.backends.api.facts import TableStatistics
from penstock.backends.api.optional.cursors import CursorRange, CursorState, SourceFiles
from penstock.errors import PenstockError
from penstock.model.nights import Horizon, SourceVersions, Watermark
from penstock.model.plans import Step
from penstock.model.source_columns import SourceColumn
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, SequencePosition, TableRef
from penstock.planning.drift import Drift
from penstock.planning.nights import TargetNow

T = TypeVar("T")

Fact: TypeAlias = T | PenstockError
"""A fact, or the error raised instead. Nothing is read after the first error, so each later fact
is that error."""


def fact(result: T | PenstockError) -> T:
    """Return a fact.

    Raises:
        PenstockError: it could not be read.
    """
    if isinstance(result, PenstockError):
        raise result
    return result


@dataclass(frozen=True, slots=True)
class TargetTable:
    """The table that rows go into: an existing one, or one that the run creates."""

    columns: Sequence[Column]
    """The columns that it has, or will have."""
    definition: TableDefinition | None = None
    """The definition from which it is created; None if it exists."""

    @property
    def is_there(self) -> bool:
        return self.definition is None

    @property
    def new_columns(self) -> tuple[Column, ...]:
        """The columns to create."""
        return () if self.is_there else tuple(self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class NightFacts:
    """The last night, which an incremental load continues, and the state to compare with it."""

    last: Watermark | None
    """The watermark of the last night."""
    refused: str = ""
    """Why a load without `--incremental` cannot move the watermark; then nothing else is known."""
    now: Horizon | None = None
    versions: SourceVersions | None = None
    max_transaction_distance: int = 0
    """See `VersionedSource`."""
    ahead: Watermark | None = None
    """The watermark of a later moment than the one at which the source is read now."""
    target: TargetNow | None = None
    """The state of the target, if rows are merged at the end."""
    changed: str = ""
    """The condition for the rows that may have changed since the last night."""
    cursor: CursorState | None = None
    """The state of the cursor's columns in the source; None if the night reads by versions."""
    range: CursorRange | None = None
    """The rows from the last night's value on; None if that value is not of these columns."""
    files: SourceFiles | None = None
    """The files of the source, if the night reads by files."""
    known_digests: frozenset[str] = frozenset()
    """The digests of the files that nights have read."""
    row_ahead: str = ""
    """A row whose value is too far ahead, by its key."""
    selected: TableStatistics | None = None
    """Statistics of the rows that may have changed, if an index finds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts about a source table and its target table, in the order in which they are read."""

    columns: Fact[tuple[Column, ...]]
    """The source's columns; with the trait `arrow` if the systems are unlike."""
    selected: Fact[tuple[Column, ...]] | None = None
    """The columns that are copied, before `--columns` chooses among them: without those left out,
    and with those that the source computes. None for all of the source's."""
    table: Fact[TargetTable | None] = None
    """None if there is no target."""
    heirs: Fact[tuple[TableRef, ...]] = ()
    """See `SourceCatalog.heirs`."""
    positions: Fact[Mapping[str, SequencePosition] | None] = None
    """See `SourceCatalog.positions`; None if sequences are left alone."""
    is_same: Fact[bool] = False
    """Whether source and target are the very same table."""
    pending_steps: Fact[tuple[tuple[str, Step], ...]] = ()
    """The steps that stopped runs left undone on the target's table, each with the run's id."""
    night: Fact[NightFacts | None] = None
    """None if the load moves no watermark."""
    columns_before: Fact[tuple[SourceColumn, ...]] = ()
    """The source's columns as the last night found them; empty if there was none, or none of this
    source."""
    drift: Fact[Drift | None] = None
    """None if the columns of an existing table have not diverged from the source's."""
    statistics: Fact[TableStatistics]
    heirs_columns: Fact[Mapping[TableRef, tuple[Column, ...]]] = field(default_factory=dict)
    finds_deleted: bool = False
    """Whether the target can look for rows that the source no longer has."""
    builds_nights: bool = False
    """See `BuildsNights`."""
