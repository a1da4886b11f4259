"""Plans: partitions, and the steps around the load."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.errors import UsageError
from penstock.model.codec import NOT_STORED, JsonForm, to_json
from penstock.model.extents import Extent
from penstock.model.tables import Column, ColumnPair, NotCopied, SequencePosition, TableRef

GIVEN = "given"
"""The strategy of a plan whose partitions the caller has named: they need not cover the table."""


MOST_NAMED = 5
"""Partitions that a message names."""


@dataclass(frozen=True, slots=True)
class Step:
    """Something done to the target once per run: before the first partition or after the last."""

    id: str
    """Unique in its plan."""
    name: str
    """What it does, for people."""
    statement: str
    """For the target's backend. Before: may be done again when a run starts over."""
    after: bool = False
    """Done when every partition is committed."""
    rank: int = 0
    """Steps after the last partition are done in the order of their ranks; those of one rank may
    run side by side."""
    urgent: bool = False
    """It locks others out: done with a short lock timeout, and tried again for a while."""
    sequence_of: str = ""
    """A column of the source: the statement's parameters, `last` and `called`, are how far its
    sequence has come when the step is done."""
    instead: NotCopied | None = None
    """What is told where it cannot be done: the run is done all the same."""
    position: SequencePosition | None = field(default=None, compare=False, metadata=NOT_STORED)
    """Where that is; None: the source knows none."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """Where the partitions are loaded, and the steps around it."""

    table: TableRef
    """The target's table, or the one that is built beside it."""
    steps: tuple[Step, ...] = ()
    conflict_columns: tuple[str, ...] = ()
    """The unique key of mode upsert."""
    volatile: bool = False
    """A crash of the target empties the table while it is loaded: then the run starts over."""
    warnings: tuple[str, ...] = ()
    schema: str = ""
    """Of what is written, as base64 of an Arrow IPC schema, where the target has no table that
    says so itself."""
    not_copied: tuple[NotCopied, ...] = ()
    links: tuple[Step, ...] = ()
    """Steps that link the table to others of its batch: done when all of them have done theirs."""

    @property
    def before(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if not step.after)

    @property
    def after(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.after)


@dataclass(frozen=True, slots=True)
class Partition:
    json_form = JsonForm(computed=("label",))

    id: str
    """Unique in its plan, at most 10 characters: it is part of an application_name."""
    extent: Extent
    rows: int | None = None
    """Estimated; None where nothing is known."""
    bytes: int | None = None
    """Estimated size in the source; None where nothing is known."""

    @property
    def label(self) -> str:
        """What it selects, for people."""
        return str(self.extent)

    def __str__(self) -> str:
        return f"{self.id} ({self.extent})"


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """Ordered partitions that together cover every row exactly once."""

    json_form = JsonForm(proof="fingerprint")

    strategy: str
    """Its name, as the source's system calls it; `GIVEN` where the caller has named them."""
    reasons: tuple[str, ...]
    partitions: tuple[Partition, ...]
    columns: tuple[Column, ...]
    """The columns that are copied, as the source has them."""
    pairs: tuple[ColumnPair, ...]
    """Of each of those, where it goes."""
    format: str
    """Of the streams."""
    load: LoadPlan
    rows: int | None = None
    bytes: int | None = None
    warnings: tuple[str, ...] = ()
    series: str = ""
    """A partition of an id is committed once by all runs of a series; empty: of this run alone."""

    @property
    def given(self) -> bool:
        """Whether the caller has named the partitions, which need not cover the table."""
        return self.strategy == GIVEN

    @property
    def fingerprint(self) -> str:
        """Changes when a partition selects other rows, or the columns change."""
        content = {
            "columns": self.columns,
            "pairs": self.pairs,
            "partitions": [[partition.id, partition.extent] for partition in self.partitions],
        }
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


def named(ids: Sequence[str]) -> str:
    """Some ids of partitions, for people."""
    more = len(ids) - MOST_NAMED
    return ", ".join(ids[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
