"""Plans: partitions, and the steps around the load."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import UsageError
from penstock.model.extents import Extent, extent_from_json, extent_to_json
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
    position: SequencePosition | None = field(default=None, compare=False)
    """Where that is; None: the source knows none. Not stored."""

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "name": self.name,
            "statement": self.statement,
            "after": self.after,
            "rank": self.rank,
            "urgent": self.urgent,
            "sequence_of": self.sequence_of,
            "instead": self.instead and self.instead.as_json(),
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Step:
        known = {name: raw[name] for name in cls.__slots__ if name != "position"}
        return cls(
            **known | {"instead": known["instead"] and NotCopied.from_json(known["instead"])}
        )


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

    def as_json(self) -> dict[str, Any]:
        return {
            "table": self.table.as_json(),
            "steps": [step.as_json() for step in self.steps],
            "conflict_columns": list(self.conflict_columns),
            "volatile": self.volatile,
            "warnings": list(self.warnings),
            "schema": self.schema,
            "not_copied": [item.as_json() for item in self.not_copied],
            "links": [step.as_json() for step in self.links],
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> LoadPlan:
        return cls(
            table=TableRef(*raw["table"]),
            steps=tuple(Step.from_json(step) for step in raw["steps"]),
            conflict_columns=tuple(raw["conflict_columns"]),
            volatile=raw["volatile"],
            warnings=tuple(raw["warnings"]),
            schema=raw.get("schema", ""),
            not_copied=tuple(map(NotCopied.from_json, raw.get("not_copied", ()))),
            links=tuple(map(Step.from_json, raw.get("links", ()))),
        )


@dataclass(frozen=True, slots=True)
class Partition:
    id: str
    """Unique in its plan, at most 10 characters: it is part of an application_name."""
    extent: Extent
    rows: int | None = None
    """Estimated; None where nothing is known."""
    bytes: int | None = None
    """Estimated size in the source; None where nothing is known."""

    def __str__(self) -> str:
        return f"{self.id} ({self.extent})"

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "label": str(self.extent),
            "rows": self.rows,
            "bytes": self.bytes,
            "extent": extent_to_json(self.extent),
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Partition:
        return cls(raw["id"], extent_from_json(raw["extent"]), raw["rows"], raw["bytes"])


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """Ordered partitions that together cover every row exactly once."""

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
            "columns": [column.as_json() for column in self.columns],
            "pairs": [pair.as_json() for pair in self.pairs],
            "partitions": [
                [partition.id, extent_to_json(partition.extent)] for partition in self.partitions
            ],
        }
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
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

    def as_json(self) -> dict[str, Any]:
        return {
            "strategy": self.strategy,
            "reasons": list(self.reasons),
            "warnings": list(self.warnings),
            "fingerprint": self.fingerprint,
            "rows": self.rows,
            "bytes": self.bytes,
            "columns": [column.as_json() for column in self.columns],
            "pairs": [pair.as_json() for pair in self.pairs],
            "format": self.format,
            "load": self.load.as_json(),
            "partitions": [partition.as_json() for partition in self.partitions],
            "series": self.series,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> PartitionPlan:
        """
        Raises:
            ValueError: it is not the plan that was written.
        """
        plan = cls(
            strategy=raw["strategy"],
            reasons=tuple(raw["reasons"]),
            warnings=tuple(raw["warnings"]),
            rows=raw["rows"],
            bytes=raw["bytes"],
            columns=tuple(Column(c["name"], c["type"], c["nullable"]) for c in raw["columns"]),
            pairs=tuple(ColumnPair.from_json(pair) for pair in raw["pairs"]),
            format=raw["format"],
            load=LoadPlan.from_json(raw["load"]),
            partitions=tuple(Partition.from_json(partition) for partition in raw["partitions"]),
            series=raw.get("series", ""),
        )
        if plan.fingerprint != raw["fingerprint"]:
            raise ValueError(f"a plan whose fingerprint is not {raw['fingerprint']!r}")
        return plan


def named(ids: Sequence[str]) -> str:
    """Some ids of partitions, for people."""
    more = len(ids) - MOST_NAMED
    return ", ".join(ids[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
