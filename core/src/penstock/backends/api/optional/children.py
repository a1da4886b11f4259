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
    """The start of the first window, though its partition has no lower bound."""
    interval: str
    """The width of the last window, though its partition has no upper bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRequest:
    """The facts a target needs to plan the child tables of a run."""

    table: TableRef
    """The target's table."""
    key: str
    """The column or expression by which the source is partitioned."""
    pairs: tuple[ColumnPair, ...]
    partitions: tuple[Partition, ...]
    selective: bool
    """Whether the run has a condition, so that a partition may lack rows within its bounds."""
    windows: Windows | None = None
    """The windows, if the partitions are windows of time."""


@dataclass(frozen=True, slots=True)
class PlannedChildren:
    """Partitions, each with the child table that it is loaded into, and remarks on them."""

    partitions: tuple[Partition, ...]
    """The partitions with their children."""
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class AttachesChildren(Protocol):
    """A `TargetCatalog` with a mode that attaches child tables."""

    def plan_children(self, request: ChildRequest) -> PlannedChildren:
        """Plan the child tables. Changes nothing.

        Raises:
            PlanningError: the table is not partitioned by the key, the partitions are not bounds,
                other children are in their place, or a privilege is missing.
        """
        ...
