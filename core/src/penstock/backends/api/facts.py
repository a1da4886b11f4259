"""Facts of a source and a target about tables, keys and loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.model.drift import ColumnChange
from penstock.model.extents import Bound, Extent, Key
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, ColumnPair, Relation, SequencePosition, TableRef
from penstock.spec.modes import Mode
from penstock.spec.source_changes import IGNORE, Deletes


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """The facts that a source has about a table without reading it."""

    rows: int | None
    """Estimated; None if unknown."""
    bytes: int
    """The actual size of the rows' storage."""
    selected: float
    """The estimated share of rows that the run's condition selects, 0 to 1."""
    blocks: int | None
    """The actual size in blocks; None if the table cannot be partitioned by blocks."""
    storage: str
    """Describes the storage and its size, or why it cannot be partitioned by blocks."""
    default_key: str | None
    """A column with an index and a usable order that is never NULL: the primary key's first."""
    children: tuple[ChildTable, ...] = ()
    """The readable tables that hold its rows, if it is not the table itself."""
    sampled: bool = True
    """Whether bounds of ranges are known, or available from a small sample."""
    files: tuple[SourceFile, ...] = ()
    """The files that hold its rows, from their footers, if it consists of files."""
    blocks_scan: bool = False
    """Whether finding the rows of some blocks requires a full scan."""
    rows_hint: str = ""
    """Advice on how to give the source an estimate of the rows, if it has none."""
    notes: tuple[str, ...] = ()
    """Further remarks on how it is read."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a source, and what its row groups hold."""

    path: str
    size: int
    """In bytes."""
    version: str
    """As in `FilePart`."""
    groups: tuple[tuple[int, int], ...]
    """Rows and stored bytes of each row group."""


@dataclass(frozen=True, slots=True)
class ChildTable:
    """One of the tables that make up a table."""

    table: TableRef
    rows: int | None
    """Estimated; None if unknown."""
    bytes: int
    blocks: int | None
    """The actual size in blocks; None if it cannot be partitioned by blocks."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How a column of the source fits one of the target."""

    reason: str = ""
    """The reason why it does not fit; empty if it does."""
    cast: str = ""
    """The type to which the source must cast first; empty if none."""
    formats: tuple[str, ...] = ()
    """The stream formats that can carry it, best first."""
    warning: str = ""
    lossy: bool = False
    """Whether values may change."""
    canonical: str = ""
    """As in `ColumnPair`."""


@dataclass(frozen=True, slots=True)
class Siblings:
    """The tables copied in the same batch as a table, including the table."""

    targets: Mapping[TableRef, TableRef] = field(default_factory=dict)
    """The target of each of the source's tables."""
    recreated: frozenset[TableRef] = frozenset()
    """Target tables that are dropped and recreated."""
    filled: frozenset[TableRef] = frozenset()
    """Existing target tables whose foreign keys to each other are removed during the load."""
    merged: frozenset[TableRef] = frozenset()
    """Target tables that are merged in one transaction, so that foreign keys between them hold."""

    @property
    def held_together(self) -> Siblings:
        """The tables between which foreign keys hold whenever a load of the batch is committed."""
        targets = {of: target for of, target in self.targets.items() if target in self.merged}
        return Siblings(targets, merged=self.merged)


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """The facts a target needs to plan a load."""

    run_id: str
    source: Relation
    target: TableRef
    mode: Mode
    pairs: tuple[ColumnPair, ...]
    conflict_columns: tuple[str, ...] | None
    indexes: str
    unlogged: bool
    definition: TableDefinition | None
    """The definition of the source's table, if the target's is created like it."""
    new_columns: tuple[Column, ...] = ()
    """The columns of the new table; see `TargetCatalog.defined_columns`."""
    where: str | None = None
    has_given_partitions: bool = False
    """Whether the caller defines the partitions, which then need not cover the table."""
    extents: tuple[tuple[str, Extent], ...] = ()
    """The given partitions' ids and extents."""
    writing: Mapping[str, Any] = field(default_factory=dict)
    """The specified options for writing files; see `CopySpec`."""
    heirs: tuple[TableRef, ...] = ()
    """The heirs of the source's table whose rows are read with it; see `SourceCatalog.heirs`."""
    siblings: Siblings = field(default_factory=Siblings)
    deletes: Deletes = field(default_factory=lambda: Deletes(IGNORE))
    """How rows deleted from the source are treated."""
    merges_together: bool = False
    """Whether the rows of all tables of the batch are merged in one transaction."""
    sequence_positions: Mapping[str, SequencePosition] | None = None
    """The source's `SourceCatalog.positions`, by column. The sequences of the target columns
    continue from there, or from their own later positions. None to leave the target's sequences
    unchanged.
    """
    changes: tuple[ColumnChange, ...] = ()
    """The changes to the columns of an existing table. The pairs are those after the changes, and
    columns of its key keep their names.
    """
    columns_after_changes: tuple[Column, ...] = ()
    """The columns of that table after the changes."""
    schema_only: bool = False
    """Whether no rows are loaded, so that an existing table need not stay until they are."""


@dataclass(frozen=True, slots=True)
class Checksum:
    """The checksum of some rows, in any order."""

    rows: int
    digest: str
    """A whole number; for several rows, the sum of their digests."""


@dataclass(frozen=True, slots=True)
class WeightedBound:
    """A key value, and the share of non-NULL rows from it up to the next one."""

    bound: Bound
    weight: float
    value_share: float = 0.0
    """The part of the weight that this value alone has; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class RankedBound:
    """A key value that the user wrote, as the source parses it."""

    bound: Bound
    rank: int
    """Its position among the requested values, from 1, in the key's order; equal values share one.
    """
    exact: bool
    """Whether the type holds the value without rounding."""


@dataclass(frozen=True, slots=True)
class KeyStatistics:
    """The distribution of a key's values, as far as it is known without reading all rows."""

    key: Key
    nullable: bool
    null_fraction: float
    bounds: tuple[WeightedBound, ...]
    """Distinct, and in the source's own order."""
    origin: str
    """Describes where the bounds come from."""
    indexed: bool


@dataclass(frozen=True, slots=True)
class CommonValue:
    """A key value that many rows have."""

    bound: Bound
    share: float
    """Its share of all rows."""
    number: int
    """The value's hash, which modulo the number of buckets is the value's bucket."""


@dataclass(frozen=True, slots=True)
class HashStatistics:
    """The distribution of a key's hashes, as far as it is known without reading rows."""

    null_fraction: float = 0.0
    common: tuple[CommonValue, ...] = ()
    """The values known to be common; the other rows are assumed to be spread evenly."""
