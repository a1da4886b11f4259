"""How a table is cut into partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.model.plans import GIVEN


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to cut a table."""

    name: str
    """As people write it, and as it is stored."""
    chooses: bool = False
    """Stands for one of the others, which planning chooses."""
    takes_key: bool = False
    """Cuts by a key."""
    requires_key: bool = False
    """The key must be named; otherwise the primary key's first column is used."""
    counts: bool = False
    """Aims for a number of partitions that the table's size gives, if nobody gives it."""
    takes_interval: bool = False
    takes_values_query: bool = False
    needs_statistics: bool = False
    """Takes its bounds from statistics or a sample, so there must be one of them."""
    hashes: bool = False
    """Cuts by the hash of a key, whose text must be the same on both sides if the target deletes
    by it."""
    cuts_blocks: bool = False
    """By where rows lie in the source's storage: a row that is updated may move to another
    partition, so without a shared snapshot it may be lost or copied twice."""
    cuts_children: bool = False
    """By the tables that the source's table consists of."""
    cuts_files: bool = False
    """By the files that the source's table consists of."""
    leaves_whole: bool = False
    """Makes one partition of all rows."""

    def __str__(self) -> str:
        return self.name

    @property
    def cuts_storage(self) -> bool:
        """Goes by how a table is stored, which a query does not have."""
        return self.cuts_blocks or self.cuts_children

    @property
    def cuts_evenly(self) -> bool:
        """Cuts by a key into parts that are to hold about equally many rows."""
        return self.takes_key and not (self.takes_interval or self.takes_values_query)


AUTO = Strategy("auto", chooses=True, takes_key=True, takes_interval=True, takes_values_query=True)
BLOCKS = Strategy("blocks", counts=True, cuts_blocks=True)
RANGE = Strategy("range", takes_key=True, counts=True, needs_statistics=True)
NTILE = Strategy("ntile", takes_key=True, requires_key=True, counts=True)
HASH = Strategy("hash", takes_key=True, requires_key=True, hashes=True, counts=True)
VALUES = Strategy("values", takes_key=True, requires_key=True, takes_values_query=True)
TIME = Strategy("time", takes_key=True, requires_key=True, counts=True, takes_interval=True)
CHILDREN = Strategy("children", cuts_children=True)
FILES = Strategy("files", counts=True, cuts_files=True)
WHOLE = Strategy("whole", leaves_whole=True)
NAMED = Strategy(GIVEN, takes_key=True)
"""For partitions that the caller names; nobody selects it by name."""

ALIASES: Mapping[str, Strategy] = {"ctid": BLOCKS}
"""Names of single systems for a strategy, which are taken everywhere, too."""

STRATEGIES: Mapping[str, Strategy] = {
    name: strategy
    for strategy in (AUTO, BLOCKS, RANGE, NTILE, HASH, VALUES, TIME, CHILDREN, FILES, WHOLE)
    for name in (strategy.name, *(alias for alias, of in ALIASES.items() if of is strategy))
}
"""By every name that is taken."""
