"""Strategies: how a table is partitioned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from penstock.model.plans import GIVEN


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to partition a table."""

    name: str
    """Its name on the command line and in stored specs."""
    chooses: bool = False
    """Stands for one of the others, which planning chooses."""
    takes_key: bool = False
    """Partitions by a key."""
    requires_key: bool = False
    """Needs a named key; other strategies use the first column of the primary key by default."""
    counts: bool = False
    """Aims for a number of partitions, which follows from the table's size unless specified."""
    takes_interval: bool = False
    takes_values_query: bool = False
    needs_statistics: bool = False
    """Takes its bounds from statistics or a sample, so one of them must exist."""
    hashes: bool = False
    """Partitions by the hash of a key; to delete by it, its text must be the same on both sides."""
    by_blocks: bool = False
    """Partitions by the place of rows in the source's storage: an updated row may move to another
    partition, so without a shared snapshot it may be lost or copied twice."""
    by_children: bool = False
    """Partitions by the child tables of the source's table."""
    by_files: bool = False
    """Partitions by the files of the source's table."""
    leaves_whole: bool = False
    """Uses one partition for all rows."""

    def __str__(self) -> str:
        return self.name

    @property
    def by_storage(self) -> bool:
        """Partitions by how a table is stored, so it cannot partition a query."""
        return self.by_blocks or self.by_children

    @property
    def is_even(self) -> bool:
        """Partitions by a key into parts with about equal numbers of rows."""
        return self.takes_key and not (self.takes_interval or self.takes_values_query)


AUTO = Strategy("auto", chooses=True, takes_key=True, takes_interval=True, takes_values_query=True)
BLOCKS = Strategy("blocks", counts=True, by_blocks=True)
RANGE = Strategy("range", takes_key=True, counts=True, needs_statistics=True)
NTILE = Strategy("ntile", takes_key=True, requires_key=True, counts=True)
HASH = Strategy("hash", takes_key=True, requires_key=True, hashes=True, counts=True)
VALUES = Strategy("values", takes_key=True, requires_key=True, takes_values_query=True)
TIME = Strategy("time", takes_key=True, requires_key=True, counts=True, takes_interval=True)
CHILDREN = Strategy("children", by_children=True)
FILES = Strategy("files", counts=True, by_files=True)
WHOLE = Strategy("whole", leaves_whole=True)
NAMED = Strategy(GIVEN, takes_key=True)
"""The strategy of partitions that the caller defines; it cannot be selected by name."""

ALIASES: Mapping[str, Strategy] = {"ctid": BLOCKS}
"""Names that one system uses for a strategy, accepted for all systems."""

StrategyName = Literal[
    "auto",
    "blocks",
    "ctid",
    "range",
    "ntile",
    "hash",
    "values",
    "time",
    "children",
    "files",
    "whole",
]
"""The names of strategies, for type checkers; `STRATEGIES` is what they stand for."""

STRATEGIES: Mapping[str, Strategy] = {
    name: strategy
    for strategy in (AUTO, BLOCKS, RANGE, NTILE, HASH, VALUES, TIME, CHILDREN, FILES, WHOLE)
    for name in (strategy.name, *(alias for alias, of in ALIASES.items() if of is strategy))
}
"""By every accepted name."""
