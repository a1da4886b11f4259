"""The questions of planning, each with the type of its answer; see `asking.catalogs`."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.backends.api.facts import (
    Fit,
    HashStatistics,
    KeyStatistics,
    LoadRequest,
    RankedBound,
)
from penstock.backends.api.optional.children import ChildRequest, PlannedChildren
from penstock.model.extents import Bound, Extent, Key
from penstock.model.plans import LoadPlan
from penstock.model.tables import Column, ColumnPair, Relation, TableRef
from penstock.planning.answers import Question
from penstock.spec.amounts import AtomicLimit
from penstock.spec.modes import Mode

# Columns


class Fits(Question[list[Fit]]):
    """How each source column fits the target column at its position."""

    relation: Relation
    mine: tuple[Column, ...]
    """The source's columns."""
    theirs: tuple[Column, ...]
    """The target's columns, one for each of the source's."""


class ComparedColumns(Question[None]):
    """Whether checksums of columns can be computed; if not, an error says why."""

    relation: Relation
    table: TableRef | None
    """The target's table; None if the run creates it."""
    pairs: tuple[ColumnPair, ...]


# The load


class WritableTable(Question[None]):
    """Whether the target's table can be loaded; see `TargetCatalog.check_writable`."""

    table: TableRef
    mode: Mode
    columns: tuple[str, ...]
    """The names of the columns to write."""


class PlannedLoad(Question[LoadPlan]):
    """See `TargetCatalog.plan_load`."""

    request: LoadRequest


class StillMissing(Question[bool]):
    """Whether the mode still creates a table after its load is planned."""

    table: TableRef
    mode: Mode


class TargetCondition(Question[None]):
    """Whether the target can evaluate a condition; see `TargetCatalog.check_condition`."""

    table: TableRef
    where: str | None
    """The condition of `--where`; None for all rows."""
    extent: Extent
    """The rows of one partition, or all."""


class ChildTables(Question[PlannedChildren]):
    """See `AttachesChildren.plan_children`."""

    request: ChildRequest


# Nights


@dataclass(frozen=True, slots=True)
class RowCounts:
    """The number of rows that a night reads."""

    rows: float
    """The number of all rows, if it reads all."""
    changed: int | None = None
    """The number of rows that may have changed; None if they need not be counted."""


class MergedRows(Question[RowCounts]):
    """The number of rows that a night reads, as far as it decides whether to merge them."""

    relation: Relation
    where: str | None
    selection: str
    """The condition for rows that may have changed; empty if the night reads all rows."""
    rows: float | None
    """The number of all rows; None if unknown."""
    size: float
    """Bytes of all rows."""
    limit: AtomicLimit


class HeldRows(Question[bool]):
    """See `BuildsNights.holds_rows`."""

    table: TableRef


class NightRebuild(Question[LoadPlan | None]):
    """See `BuildsNights.plan_night_rebuild`."""

    request: LoadRequest
    """The load as a merge."""
    merged: LoadPlan
    """The plan of that load."""
    if_empty: bool
    """Whether to plan only if the target has no rows, and answer None otherwise."""


# Keys


class KeyType(Question[str]):
    """See `SourceCatalog.key_type`."""

    relation: Relation
    key: Key


class KeyHashes(Question[HashStatistics]):
    """How the key's common values hash, as far as the source knows; see `WithHashStatistics`."""

    relation: Relation
    key: Key


class KeyFacts(Question[tuple[bool, bool]]):
    """See `SourceCatalog.key_facts`."""

    relation: Relation
    key: Key


class Order(Question[str]):
    """The collation for all comparisons of a key; see `Key.collation`."""

    relation: Relation
    key: Key
    shared_with: TableRef | None
    """The target's table, if it uses the same conditions to decide what to delete."""


@dataclass(frozen=True, slots=True)
class KeyBounds:
    """Bounds of ranges."""

    statistics: KeyStatistics
    disorder: str = ""
    """The reason why these bounds do not ascend, empty if they do; see `orders.disorder`."""


class Bounds(Question[KeyBounds]):
    """The bounds that partition a key into ranges."""

    relation: Relation
    key: Key
    where: str | None
    count: int
    """The number of ranges."""
    by_rows: bool
    """Whether to read the key of every row instead of statistics."""


@dataclass(frozen=True, slots=True)
class KeyWindows:
    """The starts of windows of time, as narrow as needed."""

    starts: tuple[Bound, ...]
    origin: str
    interval: str
    disorder: str = ""


class TimeWindows(Question[KeyWindows]):
    """The windows of the first interval that yields enough of them."""

    relation: Relation
    key: Key
    where: str | None
    intervals: tuple[str, ...]
    """The widths to try, widest first, such as ``1 day``."""
    count: int
    """The number of windows that are enough."""


@dataclass(frozen=True, slots=True)
class ListedValues:
    """The values of a key."""

    values: tuple[Bound, ...]
    disorder: str = ""


class Values(Question[ListedValues]):
    """The distinct values of a key."""

    relation: Relation
    key: Key
    where: str | None
    query: str | None
    """A query that lists the values, instead of a scan."""


class RankedValues(Question[tuple[RankedBound, ...]]):
    """The user's values, parsed and ranked by the key's type; see `SourceCatalog.rank_values`."""

    relation: Relation
    key: Key
    texts: tuple[str, ...]
    ordered: bool
    """Whether they are bounds of ranges."""
