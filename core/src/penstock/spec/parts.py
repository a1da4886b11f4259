"""The parts of a `CopySpec`, each for code that needs only that part.

A part's fields are named after those of `CopySpec`, or after the properties that parse them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from penstock.model.tables import Relation, TableRef
from penstock.spec.atomic_limits import AtomicLimit
from penstock.spec.deletes import Deletes
from penstock.spec.drift import OnDrift
from penstock.spec.masks import Mask, meets
from penstock.spec.modes import Mode
from penstock.spec.partition_sizes import PartitionSize
from penstock.spec.strategies import Strategy

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The source of the rows, the selection from them, and their target."""

    relation: Relation
    source_name: str
    target_ref: TableRef
    target_name: str
    where: str | None
    columns: tuple[str, ...] | None
    exclude_columns: tuple[str, ...] | None
    expressions: Mapping[str, str]
    masks: Mapping[str, Mask]
    map: str

    def excludes(self, column: str) -> bool:
        """Whether a column of the source is left out by its name."""
        return any(meets(column, rule) for rule in self.exclude_columns or ())

    def mask_of(self, column: str) -> Mask | None:
        """Return a column's mask: the one for its name, else the first whose pattern matches."""
        if column in self.masks:
            return self.masks[column]
        return next((mask for rule, mask in self.masks.items() if meets(column, rule)), None)

    def hides(self, column: str) -> bool:
        """Whether the values of a column do not leave the source, by an option that names it."""
        return (
            self.excludes(column) or column in self.expressions or self.mask_of(column) is not None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutting:
    """The options for cutting the rows into partitions."""

    source_name: str
    strategy: str
    cut_strategy: Strategy
    key: str | None
    values_query: str | None
    interval: str | None
    partition_size: PartitionSize
    rows_may_move: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Nightly:
    """The options of a load that repeats."""

    incremental: str | None
    night_by: str
    cursor_columns: tuple[str, ...]
    lookback: str | None
    null_cursor: str
    max_ahead: float
    snapshot: str
    watermark: str | None
    full_every: float | None
    on_target_changed: str
    atomic_limit: str | None
    most_merged: AtomicLimit


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """The options for loading the rows."""

    mode: str
    load_mode: Mode
    atomic: str | None
    conflict_columns: tuple[str, ...] | None
    deletes: str
    deletion: Deletes
    drift: OnDrift
    descendants: str | None
    schema_only: bool
    data_only: bool
    indexes: str
    unlogged: bool
    partitioning: bool
    sequences: str
    types: tuple[str, ...] | None
    column_types: Mapping[str, str]
    arrays: str
    enums: str
    order_by: tuple[str, ...] | None
    writing: Mapping[str, Any]
    verify: str
    nightly: Nightly

    @property
    def alters_table(self) -> bool:
        """Whether the load changes more of the target's table than its rows."""
        return self.indexes == "defer" or self.unlogged


def part_of(kind: type[Part], spec: object) -> Part:
    """Return a part, filled by the names of its fields."""
    names = (item.name for item in fields(kind))  # type: ignore[arg-type]
    return kind(**{name: getattr(spec, name) for name in names})
