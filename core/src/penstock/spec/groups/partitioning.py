"""How to partition the selected rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from penstock.spec.amounts import PartitionSize, parse_partitions
from penstock.spec.groups.route import Route
from penstock.spec.groups.snapshot import SnapshotOptions
from penstock.spec.option import option
from penstock.spec.strategies import ALIASES, STRATEGIES, Strategy, StrategyName


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class PartitionOptions(SnapshotOptions, Route):
    """The options under "how to partition it"."""

    title: ClassVar[str] = "how to partition it"

    strategy: StrategyName = option(
        "auto",
        "how to partition the table; auto chooses a strategy and says why; "
        + "; ".join(f"{name} is an alias of {of}" for name, of in ALIASES.items()),
        metavar=f"{{{','.join(name for name in STRATEGIES if name not in ALIASES)}}}",
        choices=tuple(STRATEGIES),
    )
    key: str | None = option(
        None,
        "the column to partition by; for hash and values, a column or an expression",
        metavar="COLUMN",
    )
    partitions: int | str | None = option(
        None,
        "aim for this many partitions (16), or for this many rows ('500000 rows') or bytes of the "
        "source (64MB) in each (default: chosen by size)",
        metavar="{N,N rows,SIZE}",
    )
    interval: str | None = option(
        None,
        "with strategy time: the width of a partition, such as '1 day' or '1 month' (default: "
        "chosen automatically)",
        metavar="INTERVAL",
    )
    values_query: str | None = option(
        None,
        "a query on the source that returns the values of the key, which saves a scan of the table",
        metavar="SQL",
    )

    @cached_property
    def partition_strategy(self) -> Strategy:
        """The strategy that `strategy` names."""
        return STRATEGIES[self.strategy]

    @cached_property
    def partition_size(self) -> PartitionSize:
        """The parsed value of `partitions`."""
        return parse_partitions(self.partitions)

    @cached_property
    def rows_may_move(self) -> bool:
        """Whether a row updated during the copy may move to another block unnoticed."""
        return self.snapshot == "none"
