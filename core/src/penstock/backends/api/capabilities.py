"""The capabilities of a database as a source and as a target, as data.

`penstock.planning.support` rejects what is not listed here, before anything is changed; tests and
the tables in the documentation are derived from it. What depends on a single table, its columns or
its rows is not a capability: the backend reports it when it reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from penstock.spec.modes import Emptying, Ending, Entry, Mode, Table
from penstock.spec.strategies import Strategy

TRANSACTIONAL = "transactional"
"""Rows and commit record are written in one transaction, in one session."""
STAGED = "staged"
"""Rows go to a stage first, and from there into the table in one transaction with the record."""
ROLL_FORWARD = "roll-forward"
"""No transaction covers both: the record comes first, and says what completes the load."""

INSERTING: tuple[Enum, ...] = (
    *Table,
    Emptying.NOTHING,
    Emptying.TRUNCATE,
    Entry.INSERT,
    Ending.NOTHING,
    Ending.EXCHANGE,
)
"""The answers of the modes in which partitions only insert; see `penstock.spec.modes.modes_with`.
"""

SOURCE_OPTIONS = ("descendants", "partitioning", "max_lag", "give_way_after", "set", "mask")
"""Fields of `CopySpec` that not every source supports."""

COMPUTING = frozenset(("set", "mask"))
"""The fields of a source that computes columns; see `penstock.backends.api.optional.expressions`.
"""

TARGET_OPTIONS = (
    "conflict_columns",
    "indexes",
    "unlogged",
    "partitioning",
    "types",
    "arrays",
    "enums",
    "order_by",
    "partition_by",
    "file_size",
    "row_group_size",
    "compression",
)
"""Fields of `CopySpec` that not every target supports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCapabilities:
    """The capabilities of a system as a source."""

    system: str
    """What messages call the system."""
    formats: tuple[str, ...]
    """The stream formats that its readers support, best first."""
    strategies: tuple[Strategy, ...]
    block_strategy: str = "blocks"
    """The system's name for partitioning by blocks, as shown in plans."""
    options: frozenset[str] = frozenset()
    """Those of `SOURCE_OPTIONS` that it supports."""
    nights: tuple[str, ...] = ()
    """The ways in which it finds rows that may have changed since a night; see
    `penstock.spec.night_kinds`.
    """
    compares: bool = True
    """Whether the rows can be read again, to compare them."""
    shared_snapshots: bool = True
    """Whether all partitions can be read as of one moment."""
    shows_waits: bool = False
    """Whether it reports what a run's sessions wait for; see
    `penstock.backends.api.optional.pulse`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetCapabilities:
    """The capabilities of a system as a target."""

    system: str
    """What messages call the system."""
    formats: tuple[str, ...]
    """The stream formats that its writers support, best first."""
    modes: tuple[Mode, ...]
    creating_modes: tuple[Mode, ...] = ()
    """The modes that create a missing table; the others require one."""
    options: Mapping[str, tuple[Mode, ...]] = field(default_factory=dict)
    """Those of `TARGET_OPTIONS` that it supports, with the modes of each."""
    cross_system_options: frozenset[str] = frozenset()
    """Options that only apply to a source of another system."""
    replaces_by_condition: bool
    """Whether mode replace deletes rows by the partitions' conditions, and so needs a key.
    Otherwise it replaces what an earlier run has loaded from the same selection.
    """
    commits: str
    """How a partition is committed: `TRANSACTIONAL`, `STAGED` or `ROLL_FORWARD`."""
    steps_with_records: bool
    """Whether a step around the load and its record are one transaction. They are not where DDL
    commits by itself: there an interrupted step is done again.
    """
    joins_attempts: bool = False
    """Whether small partitions of different tables may be committed in one transaction; its writer
    is a `JoiningWriter` then."""
    least_rows: int = 0
    """Rows of a partition below which the target's work grows; smaller ones are planned only on
    request."""
    control_ddl: bool = False
    """Whether an administrator can create its control tables, with statements."""
    identifies_loaded_rows: bool = False
    """Whether it can tell which rows a partition of a run has loaded, whatever other rows exist."""
    shows_waits: bool = False
    """As for a source."""
    reserved_schemas: tuple[str, ...] = ()
    """Patterns, in lower case, of schema names that users may not create."""
    scratch: bool = False
    """Whether a table like another one can be created there to measure loads; see
    `penstock.backends.api.optional.scratch`.
    """

    @property
    def merges_nights(self) -> bool:
        """Whether it can gather rows in a stage, and let them enter a table at the end."""
        return any(mode.ending is Ending.MERGE for mode in self.modes)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The joint capabilities of the two ends of a copy."""

    source: SourceCapabilities
    target: TargetCapabilities

    @property
    def formats(self) -> tuple[str, ...]:
        """The stream formats that both ends support, the source's preferred one first."""
        return tuple(name for name in self.source.formats if name in self.target.formats)
