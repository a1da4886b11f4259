"""What planning starts from: facts about both ends that the request alone decides to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from penstock.backends.api.facts import TableStatistics
from penstock.backends.api.optional.cursors import CursorNow, CursorRange
from penstock.backends.api.optional.files import FilesNow
from penstock.errors import PenstockError
from penstock.model.nights import Horizon, SourceVersions, Watermark
from penstock.model.plans import Step
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, SequencePosition, TableRef
from penstock.planning.drift import Drift
from penstock.planning.nights import TargetNow

T = TypeVar("T")

Fact: TypeAlias = T | PenstockError
"""A fact, or what was raised instead. After the first error nothing else is read, so each later
fact is that error."""


def fact(found: T | PenstockError) -> T:
    """
    Raises:
        PenstockError: it could not be read.
    """
    if isinstance(found, PenstockError):
        raise found
    return found


@dataclass(frozen=True, slots=True)
class TargetTable:
    """The table that rows go into: one that exists, or one that the run makes."""

    columns: Sequence[Column]
    """Those that it has, or will have."""
    definition: TableDefinition | None = None
    """What it is made by; None where it is there."""

    @property
    def is_there(self) -> bool:
        return self.definition is None

    @property
    def made(self) -> tuple[Column, ...]:
        """The columns that are made."""
        return () if self.is_there else tuple(self.columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class NightFacts:
    """What an incremental load continues, and what it compares that with."""

    last: Watermark | None
    """What the last night has left."""
    refused: str = ""
    """Why a load that was not asked to cannot move the watermark; then nothing else is known."""
    now: Horizon | None = None
    versions: SourceVersions | None = None
    furthest: int = 0
    """See `VersionedSource`."""
    ahead: Watermark | None = None
    """What was read as of a later moment than the source is read now."""
    target: TargetNow | None = None
    """Where rows are merged at the end."""
    changed: str = ""
    """The condition for the rows that may have changed since the last night."""
    cursor: CursorNow | None = None
    """What the source holds in the columns by which it is read; None: it is read by versions."""
    range: CursorRange | None = None
    """The rows from the last night's value on; None where that says nothing of these columns."""
    files: FilesNow | None = None
    """The files that the source consists of, where it is read by them."""
    seen: frozenset[str] = frozenset()
    """The digests of those that nights have read."""
    row_ahead: str = ""
    """A row that is too far ahead, by its key."""
    selected: TableStatistics | None = None
    """Of the rows that may have changed, where an index finds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts about a table of the source and the one that it goes to, in the order in which they
    are read."""

    columns: Fact[tuple[Column, ...]]
    """The source's; with the trait `arrow` where the systems are unlike."""
    selected: Fact[tuple[Column, ...]] | None = None
    """The columns that are copied, before `--columns` chooses among them: without those that are
    left out, and with those that the source computes. None: all of the source's."""
    table: Fact[TargetTable | None] = None
    """None: there is no target."""
    heirs: Fact[tuple[TableRef, ...]] = ()
    """See `SourceCatalog.heirs`."""
    positions: Fact[Mapping[str, SequencePosition] | None] = None
    """See `SourceCatalog.positions`; None where sequences stay as they are."""
    is_same: Fact[bool] = False
    """Source and target are the very same table."""
    steps_left: Fact[tuple[tuple[str, Step], ...]] = ()
    """What stopped runs have left undone on the target's table, each with the run's id."""
    night: Fact[NightFacts | None] = None
    """None where the load moves no watermark."""
    drift: Fact[Drift | None] = None
    """None where the columns of a table that is there have not parted from the source's."""
    statistics: Fact[TableStatistics]
    heirs_columns: Fact[Mapping[TableRef, tuple[Column, ...]]] = field(default_factory=dict)
    finds_gone: bool = False
    """The target can look for rows that the source has no more."""
    builds_nights: bool = False
    """See `BuildsNights`."""
