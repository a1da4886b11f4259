"""Plans: partitions, and the steps around the load."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from penstock.errors import UsageError
from penstock.model.codec import NOT_STORED, OMITTED, JsonForm, to_json
from penstock.model.drift import ColumnChange
from penstock.model.extents import Extent
from penstock.model.nights import Night
from penstock.model.table_model import FOREIGN_KEYS
from penstock.model.tables import Column, ColumnPair, NotCopied, SequencePosition, TableRef

GIVEN = "given"
"""The strategy of a plan whose partitions the caller defines: they need not cover the table."""
CHOSEN = "chosen by the caller"
"""What messages say in place of `GIVEN`."""


MOST_NAMED = 5
"""The maximum number of partitions that a message lists."""


MERGE_STEP = "merge"
"""The id of the step that merges a night's stage into the target, in one transaction."""

SWAP_STEP = "swap"
"""The id of the step that replaces the target's table with the one built beside it."""

WATERMARK_STEP = "watermark"
"""The id of the step that sets the watermark after a load, if no other step's transaction can."""

GONE_STEP = "gone"
"""The id of the step that finds rows that the source no longer has. It reads the source."""


@dataclass(frozen=True, slots=True)
class Step:
    """An action on the target, once per run: before the first partition or after the last."""

    id: str
    """The step's id, unique in its plan."""
    name: str
    """A human-readable description of the step."""
    statement: str
    """For the target's backend. Before the load, it may be repeated when a run starts over."""
    after: bool = False
    """Whether it runs after every partition is committed."""
    rank: int = 0
    """The order of steps after the last partition; steps of equal rank may run concurrently."""
    urgent: bool = False
    """Whether it blocks others: it runs with a short lock timeout, and is retried for a while."""
    sequence_of: str = ""
    """A column of the source; the statement's parameters `last` and `called` are the position of
    that column's sequence when the step runs."""
    instead: NotCopied | None = None
    """The object to report if the step cannot be done; the run continues without it."""
    done: str = ""
    """For the target's backend, if the statement cannot be repeated: how to check that it is done,
    by this run or by another one with the same step."""
    position: SequencePosition | None = field(default=None, compare=False, metadata=NOT_STORED)
    """The sequence's position; None if the source has none."""
    makes_schema: str = field(default="", compare=False, metadata=NOT_STORED)
    """The schema that it creates if no schema has that name."""
    moves_watermark: bool = field(default=False, metadata=OMITTED)
    """Whether it ends a load of all rows: its transaction moves the watermark of the night."""
    change: ColumnChange | None = field(default=None, metadata=OMITTED)
    """The change it makes to the target's columns, so that they follow the source's."""
    kind: str = field(default="", metadata=OMITTED)
    """For the target's backend: what the step does, if that matters to how it is done."""
    left_by: str = field(default="", metadata=OMITTED)
    """The run that was stopped before it could do the step; empty if it is the plan's own."""
    with_merge: bool = field(default=False, metadata=OMITTED)
    """Whether the transaction that merges the run's rows also does and records this step."""


def makes_foreign_key(step: Step) -> bool:
    """Whether a foreign key is missing until a step is done."""
    return step.instead is not None and step.instead.kind == FOREIGN_KEYS


UNRESTORED = "foreign keys that are dropped until the run is resumed, which restores them"
"""A kind of object that is not copied."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """The table into which partitions are loaded, and the steps before and after."""

    table: TableRef
    """The target's table, or the one built beside it."""
    steps: tuple[Step, ...] = ()
    conflict_columns: tuple[str, ...] = ()
    """The unique key for mode upsert."""
    volatile: bool = False
    """Whether a crash of the target empties the table during the load, and the run starts over."""
    warnings: tuple[str, ...] = ()
    schema: str = ""
    """The schema of the output, if no table defines it: an Arrow IPC schema in base64."""
    not_copied: tuple[NotCopied, ...] = ()
    links: tuple[Step, ...] = ()
    """Steps that link the table to others in its batch; they run after all steps of all tables."""

    @property
    def before(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if not step.after)

    @property
    def after(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.after)

    @property
    def loads_beside(self) -> bool:
        """Whether the partitions are loaded into a table beside the target's.

        The end decides about it. Until then the target's table stays as it is.
        """
        return any(step.id in (SWAP_STEP, MERGE_STEP) for step in self.steps)

    def unrestored_keys(self, done: Collection[str]) -> tuple[NotCopied, ...]:
        """Return the foreign keys that the load has dropped and not restored yet.

        A load of existing tables drops them before its first row.

        Args:
            done: the ids of completed steps.
        """
        keys: dict[tuple[str, str], NotCopied] = {}
        for step in (*self.links, *self.after):
            key = step.instead
            # A key is added first and validated later: the first statement creates it.
            if key is not None and makes_foreign_key(step) and step.id not in done:
                keys.setdefault((key.table, key.name), replace(key, kind=UNRESTORED, dropped=False))
        return tuple(keys.values())

    @property
    def night_step(self) -> str:
        """The id of the step whose transaction moves the watermark; empty if none does."""
        moving = (
            step.id
            for step in (*self.steps, *self.links)
            if step.moves_watermark or step.id == MERGE_STEP
        )
        return next(moving, "")


def changes_of(load: LoadPlan) -> tuple[ColumnChange, ...]:
    """Return the changes to the target's columns, in order of execution."""
    steps = (*load.steps, *load.links)
    return tuple(step.change for step in steps if step.change is not None)


@dataclass(frozen=True, slots=True)
class Child:
    """The separate table into which a partition is loaded in mode `attach`."""

    table: TableRef
    """Its name as a child of the target's table."""
    bounds: str
    """Its bounds as a child table, in the target's notation; empty if it must have no rows."""
    check: str
    """A condition that holds for all its rows, as an expression of the target."""

    def __str__(self) -> str:
        return f"{self.table} {self.bounds}" if self.bounds else "none: no rows expected"


@dataclass(frozen=True, slots=True)
class Partition:
    """A part of one table in one run, which one attempt commits as a whole."""

    json_form = JsonForm(computed=("label",))

    id: str
    """Unique in its plan, at most 10 characters, because it is part of an application_name."""
    extent: Extent
    rows: int | None = None
    """Estimated rows; None if unknown."""
    bytes: int | None = None
    """Estimated size in the source; None if unknown."""
    child: Child | None = field(default=None, metadata=OMITTED)
    """None in all modes except `attach`."""

    @property
    def label(self) -> str:
        """A human-readable description of the rows that it selects."""
        return str(self.extent)

    def __str__(self) -> str:
        return f"{self.id} ({self.extent})"


@dataclass(frozen=True)
class PartitionPlan:
    """Ordered partitions that together cover every row exactly once."""

    json_form = JsonForm(proof="fingerprint")

    strategy: str
    """Its name in the source's system; `GIVEN` if the caller defines the partitions."""
    reasons: tuple[str, ...]
    partitions: tuple[Partition, ...]
    columns: tuple[Column, ...]
    """The columns to copy, as the source has them."""
    pairs: tuple[ColumnPair, ...]
    """The target column for each of these columns."""
    format: str
    """The format of the streams."""
    load: LoadPlan
    rows: int | None = None
    bytes: int | None = None
    warnings: tuple[str, ...] = ()
    series: str = ""
    """The series that commits each partition id once over all its runs; empty outside a series."""
    night: Night | None = field(default=None, metadata=OMITTED)
    """The night, with what it continues; None unless the load is incremental."""
    selection: str = field(default="", metadata=OMITTED)
    """A condition in the source's SQL that selects rows, in addition to the requested one."""
    most_bytes: int | None = field(default=None, metadata=OMITTED)
    """The estimated size of all rows that a selection is made from; None without one."""
    is_sample: bool = field(default=False, metadata=OMITTED)
    """Whether these are only some of the table's partitions, for a measurement."""
    given_types: str = field(default="", metadata=OMITTED)
    """The source's types, in its own notation, if the target's table gave them; otherwise empty."""
    written_by: str = field(default="", compare=False, metadata=OMITTED)
    """The version of Penstock that has stored the plan; empty before."""

    def where(self, condition: str | None) -> str | None:
        """Return the condition that selects the run's rows in the source.

        Args:
            condition: the requested condition; None without one.
        """
        if not self.selection:
            return condition
        return self.selection if condition is None else f"({condition}\n) AND {self.selection}"

    @property
    def has_given_partitions(self) -> bool:
        """Whether the caller defines the partitions, which need not cover the table."""
        return self.strategy == GIVEN

    @cached_property
    def fingerprint(self) -> str:
        """A hash that changes when a partition selects other rows, or the columns change."""
        content: dict[str, object] = {
            "columns": self.columns,
            "pairs": self.pairs,
            "partitions": [[partition.id, partition.extent] for partition in self.partitions],
        }
        if self.selection:
            content["selection"] = self.selection
        canonical = json.dumps(to_json(content), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    def partition(self, partition_id: str) -> Partition:
        """Look a partition up by its id.

        Raises:
            UsageError: the plan has no such partition.
        """
        for partition in self.partitions:
            if partition.id == partition_id:
                return partition
        first, last = self.partitions[0].id, self.partitions[-1].id
        raise UsageError(
            f"partition {partition_id!r} is not in the plan, which has "
            f"{len(self.partitions)} partitions, from {first!r} to {last!r}"
        )


def id_list(ids: Sequence[str]) -> str:
    """Return the first few partition ids, as messages list them."""
    more = len(ids) - MOST_NAMED
    return ", ".join(ids[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
