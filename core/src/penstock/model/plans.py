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
CHOSEN = "chosen by the caller"
"""For people, what `GIVEN` means."""
"""The strategy of a plan whose partitions the caller names: they need not cover the table."""


MOST_NAMED = 5
"""Partitions that a message lists."""


MERGE_STEP = "merge"
"""The id of the step that merges the stage of a night into the target, in one transaction."""

SWAP_STEP = "swap"
"""The id of the step by which a table that was built beside the target takes its place."""

WATERMARK_STEP = "watermark"
"""The id of the step that sets the watermark once a load has ended, where no other step can do that
in its transaction."""

GONE_STEP = "gone"
"""The id of the step that finds rows which the source has no more. It reads the source."""

OF_STOPPED = " of run "
"""In the id of a step that a stopped run has left undone, in another one's plan: its own id is
before it, the stopped run's after it."""


@dataclass(frozen=True, slots=True)
class Step:
    """Something done to the target once per run: before the first partition or after the last."""

    id: str
    """Unique in its plan."""
    name: str
    """What it does, for people."""
    statement: str
    """For the target's backend. Before the load, it may be repeated when a run starts over."""
    after: bool = False
    """Done after every partition is committed."""
    rank: int = 0
    """Steps after the last partition run in the order of their ranks; those of the same rank may
    run side by side."""
    urgent: bool = False
    """It locks others out: done with a short lock timeout, and retried for a while."""
    sequence_of: str = ""
    """A column of the source: the statement's parameters, `last` and `called`, are the position of
    its sequence when the step is done."""
    instead: NotCopied | None = None
    """What to report if it cannot be done: the run does without it."""
    done: str = ""
    """For the target's backend, if the statement cannot be repeated: how to see that it is
    done, by this run or by another one that makes the same."""
    position: SequencePosition | None = field(default=None, compare=False, metadata=NOT_STORED)
    """The sequence's position; None: the source has none."""
    makes_schema: str = field(default="", compare=False, metadata=NOT_STORED)
    """The schema that it makes, where there is none of that name."""
    moves_watermark: bool = field(default=False, metadata=OMITTED)
    """It ends a load of all rows: its transaction moves the watermark of the run's night."""
    change: ColumnChange | None = field(default=None, metadata=OMITTED)
    """What it changes of the target's columns, so that they follow the source's."""
    with_merge: bool = field(default=False, metadata=OMITTED)
    """It is done, and recorded, by the transaction that merges the run's rows."""


def makes_foreign_key(step: Step) -> bool:
    """Whether a foreign key is missing as long as a step is not done."""
    return step.instead is not None and step.instead.kind == FOREIGN_KEYS


UNRESTORED = "foreign keys that are dropped until the run is resumed, which restores them"
"""A kind of what is not copied."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """Where the partitions are loaded, and the steps around it."""

    table: TableRef
    """The target's table, or the one built beside it."""
    steps: tuple[Step, ...] = ()
    conflict_columns: tuple[str, ...] = ()
    """The unique key of mode upsert."""
    volatile: bool = False
    """A crash of the target empties the table during the load: then the run starts over."""
    warnings: tuple[str, ...] = ()
    schema: str = ""
    """The schema of what is written, as base64 of an Arrow IPC schema, if the target has no table
    that defines it."""
    not_copied: tuple[NotCopied, ...] = ()
    links: tuple[Step, ...] = ()
    """Steps that link the table to others of its batch: done after all steps of all tables."""

    @property
    def before(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if not step.after)

    @property
    def after(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.after)

    def unrestored(self, done: Collection[str]) -> tuple[NotCopied, ...]:
        """The foreign keys that a load of tables that are there has dropped before its first row,
        and has not restored yet.

        Parameters:
            done: ids of steps.
        """
        found: dict[tuple[str, str], NotCopied] = {}
        for step in (*self.links, *self.after):
            key = step.instead
            # One is added first and validated later: the first statement makes it.
            if key is not None and makes_foreign_key(step) and step.id not in done:
                found.setdefault(
                    (key.table, key.name), replace(key, kind=UNRESTORED, dropped=False)
                )
        return tuple(found.values())

    @property
    def night_step(self) -> str:
        """The id of the step whose transaction moves the watermark; empty where none does."""
        moving = (
            step.id
            for step in (*self.steps, *self.links)
            if step.moves_watermark or step.id == MERGE_STEP
        )
        return next(moving, "")


def changes_of(load: LoadPlan) -> tuple[ColumnChange, ...]:
    """What is changed of the target's columns, in the order in which it is done."""
    steps = (*load.steps, *load.links)
    return tuple(step.change for step in steps if step.change is not None)


@dataclass(frozen=True, slots=True)
class Child:
    """The table of its own that a partition is loaded into, in mode `attach`."""

    table: TableRef
    """Its name once it is a child of the target's table."""
    bounds: str
    """As which it is attached, as the target writes it; empty: the partition may have no rows."""
    check: str
    """What holds of each of its rows, as an expression of the target's."""

    def __str__(self) -> str:
        return f"{self.table} {self.bounds}" if self.bounds else "none: no rows expected"


@dataclass(frozen=True, slots=True)
class Partition:
    json_form = JsonForm(computed=("label",))

    id: str
    """Unique in its plan, at most 10 characters: it is part of an application_name."""
    extent: Extent
    rows: int | None = None
    """Estimated; None if unknown."""
    bytes: int | None = None
    """Estimated size in the source; None if unknown."""
    child: Child | None = field(default=None, metadata=OMITTED)
    """None in all modes but `attach`."""

    @property
    def label(self) -> str:
        """What it selects, for people."""
        return str(self.extent)

    def __str__(self) -> str:
        return f"{self.id} ({self.extent})"


@dataclass(frozen=True)
class PartitionPlan:
    """Ordered partitions that together cover every row exactly once."""

    json_form = JsonForm(proof="fingerprint")

    strategy: str
    """Its name in the source's system; `GIVEN` if the caller names the partitions."""
    reasons: tuple[str, ...]
    partitions: tuple[Partition, ...]
    columns: tuple[Column, ...]
    """The columns that are copied, as the source has them."""
    pairs: tuple[ColumnPair, ...]
    """Where each of these columns goes."""
    format: str
    """The format of the streams."""
    load: LoadPlan
    rows: int | None = None
    bytes: int | None = None
    warnings: tuple[str, ...] = ()
    series: str = ""
    """All runs of a series commit a partition id once; empty: this run is not in a series."""
    night: Night | None = field(default=None, metadata=OMITTED)
    """What an incremental load continues; None: this is none."""
    selection: str = field(default="", metadata=OMITTED)
    """A condition of the source's that selects rows, besides the one that was asked for."""

    def where(self, asked: str | None) -> str | None:
        """The condition that selects the run's rows in the source.

        Parameters:
            asked: the one that was asked for.
        """
        if not self.selection:
            return asked
        return self.selection if asked is None else f"({asked}\n) AND {self.selection}"

    @property
    def given(self) -> bool:
        """Whether the caller names the partitions, which need not cover the table."""
        return self.strategy == GIVEN

    @cached_property
    def fingerprint(self) -> str:
        """Changes when a partition selects other rows, or the columns change."""
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
            f"{len(self.partitions)}, from {first!r} to {last!r}"
        )


def id_list(ids: Sequence[str]) -> str:
    """The first few partition ids, for people."""
    more = len(ids) - MOST_NAMED
    return ", ".join(ids[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
