"""What a source and a target know about tables, keys and loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.model.drift import ColumnChange
from penstock.model.extents import Bound, Extent, Key
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, ColumnPair, Relation, SequencePosition, TableRef
from penstock.spec.deletes import IGNORE, Deletes
from penstock.spec.modes import Mode


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """What a source knows about a table without reading it."""

    rows: int | None
    """Estimated; None where nothing is known."""
    bytes: int
    """Real size of the rows' storage."""
    selected: float
    """Estimated fraction of the rows that the run's condition selects, 0 to 1."""
    blocks: int | None
    """Real size in blocks; None where the table cannot be cut by blocks."""
    storage: str
    """What it is stored as and how large that is, or why it cannot be cut by blocks; for people."""
    default_key: str | None
    """A column that can be ranged, is indexed and never NULL: the primary key's first."""
    children: tuple[ChildTable, ...] = ()
    """The tables that hold its rows, where those are others than itself and may be read."""
    sampled: bool = True
    """Bounds of ranges are known, or a small sample gives them."""
    files: tuple[SourceFile, ...] = ()
    """The files that hold its rows, where it consists of files, from their footers."""
    blocks_scan: bool = False
    """To find the rows of some blocks takes reading all of them."""
    rows_hint: str = ""
    """What gives the source an estimate of the rows where it has none, for people."""
    notes: tuple[str, ...] = ()
    """What else is to be known of how it is read, for people."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a source, and what its row groups hold."""

    path: str
    size: int
    """In bytes."""
    version: str
    """See `FilePart`."""
    groups: tuple[tuple[int, int], ...]
    """Rows and stored bytes of each row group."""


@dataclass(frozen=True, slots=True)
class ChildTable:
    """One of the tables that make up a table."""

    table: TableRef
    rows: int | None
    """Estimated; None where nothing is known."""
    bytes: int
    blocks: int | None
    """Real size in blocks; None where it cannot be cut by blocks."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How a column of the source fits one of the target."""

    reason: str = ""
    """Why it cannot; empty where it can."""
    cast: str = ""
    """The type that the source would have to cast to first; empty for none."""
    formats: tuple[str, ...] = ()
    """The stream formats that carry it, best first."""
    warning: str = ""
    lossy: bool = False
    """Values may arrive as others."""
    canonical: str = ""
    """See `ColumnPair`."""


@dataclass(frozen=True, slots=True)
class Siblings:
    """The tables copied in the same batch as a table, including the table."""

    targets: Mapping[TableRef, TableRef] = field(default_factory=dict)
    """Where each table of the source goes."""
    remade: frozenset[TableRef] = frozenset()
    """Those of the target that are dropped and made again."""
    filled: frozenset[TableRef] = frozenset()
    """Those of the target that are there, and whose foreign keys to each other are undone while
    they are loaded."""


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
    """Of the source's table, where the target's is made like it."""
    made: tuple[Column, ...] = ()
    """The columns of the table that is made; see `TargetCatalog.defined_columns`."""
    where: str | None = None
    given: bool = False
    """The partitions are named by the caller, and need not cover the table."""
    extents: tuple[tuple[str, Extent], ...] = ()
    """Of the partitions that are given, with their ids."""
    writing: Mapping[str, Any] = field(default_factory=dict)
    """How files are written, as far as it was said; see `CopySpec`."""
    heirs: tuple[TableRef, ...] = ()
    """Of the source's table, those whose rows are read with it; see `SourceCatalog.heirs`."""
    siblings: Siblings = field(default_factory=Siblings)
    deletes: Deletes = field(default_factory=lambda: Deletes(IGNORE))
    """How rows deleted from the source are treated."""
    merges_together: bool = False
    """The rows of all tables of the batch are merged in one transaction."""
    counted: Mapping[str, SequencePosition] | None = None
    """The source's `SourceCatalog.positions`, by column: the sequences of the columns that these
    are loaded into go on from there, or from where they are when the rows are loaded. None: the
    target's sequences stay as they are."""
    changes: tuple[ColumnChange, ...] = ()
    """What is to be changed of the columns of a table that is there; the pairs are those of then.
    Its key's columns keep their names."""
    followed: tuple[Column, ...] = ()
    """The columns of that table, once they are changed."""


@dataclass(frozen=True, slots=True)
class Checksum:
    """The checksum of some rows, in any order."""

    rows: int
    digest: str
    """A whole number; that of many rows is the sum of those of each."""


@dataclass(frozen=True, slots=True)
class WeightedBound:
    """A key value, and the share of non-NULL rows from it up to the next one."""

    bound: Bound
    weight: float


@dataclass(frozen=True, slots=True)
class RankedBound:
    """A key value that the user wrote, as the source parses it."""

    bound: Bound
    rank: int
    """Its place among those that were asked for, from 1, by the key's comparison; equal values
    share one."""
    exact: bool
    """The type has not rounded it off."""


@dataclass(frozen=True, slots=True)
class KeyStatistics:
    key: Key
    nullable: bool
    null_fraction: float
    bounds: tuple[WeightedBound, ...]
    """Distinct and in the order of the source's own comparison."""
    origin: str
    """Where the bounds come from, for people."""
    indexed: bool
