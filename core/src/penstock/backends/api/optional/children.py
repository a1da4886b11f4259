"""Child tables of a target's table, one per partition, for mode attach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from penstock.model.extents import Bound
    from penstock.model.plans import Partition
    from penstock.model.tables import ColumnPair, TableRef


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of time that a table is partitioned by."""

    first: Bound
    """Where the first one starts, though its partition is open below."""
    interval: str
    """How wide the last one is, though its partition is open above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRequest:
    """The facts a target needs to plan the child tables of a run."""

    table: TableRef
    """The target's."""
    key: str
    """What the source is cut by: a column, or an expression."""
    pairs: tuple[ColumnPair, ...]
    partitions: tuple[Partition, ...]
    selective: bool
    """The run has a condition: a partition need not be all rows within its bounds."""
    windows: Windows | None = None
    """Where the partitions are windows of time."""


@dataclass(frozen=True, slots=True)
class PlannedChildren:
    partitions: tuple[Partition, ...]
    """With their children."""
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class AttachesChildren(Protocol):
    """What a `TargetCatalog` provides in addition if one of its modes attaches child tables."""

    def plan_children(self, request: ChildRequest) -> PlannedChildren:
        """Plan the child tables. Changes nothing.

        Raises:
            PlanningError: the table is not partitioned by the key, the partitions are not bounds,
                other children are in their place, or a privilege is missing.
        """
        ...
