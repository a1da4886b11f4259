"""What a worker needs to know (`WorkerSpec`).

It is resolved, carries secrets, travels over a pipe and is never stored, logged or shown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from penstock.model.plans import Partition
from penstock.model.tables import (
    ColumnPair,
    Relation,
    TableRef,
    relation_from_json,
    relation_to_json,
)
from penstock.spec.modes import MODES, Mode


@dataclass(frozen=True, slots=True)
class Patience:
    """How long one waits, in the target, for who is in the way."""

    grace: float = 10.0
    """Seconds, for an older session of the same run that makes no progress; then it is ended."""
    stall_timeout: float = 600.0
    """Seconds, for anybody else who makes none; 0: for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """All a worker needs to know. Carries secrets: never stored, never shown."""

    run_id: str
    generation: int
    """Of the run; attempts of another one are refused."""
    source: str = field(repr=False)
    target: str = field(repr=False)
    source_backend: str
    """``module:attribute``; spares the worker the search for it."""
    target_backend: str
    relation: Relation
    target_table: TableRef
    pairs: tuple[ColumnPair, ...]
    format: str
    where: str | None
    mode: str
    conflict_columns: tuple[str, ...]
    volatile: bool
    """See `LoadPlan`."""
    series: str
    """See `PartitionPlan`."""
    snapshot: str | None
    stall_timeout: float
    grace: float
    control_schema: str
    schema: str
    """See `LoadPlan`."""
    writing: Mapping[str, Any]
    """See `CopySpec`."""
    read_at: str = ""
    """When the snapshot was taken, for the commit records."""

    @property
    def load_mode(self) -> Mode:
        """What `mode` names."""
        return MODES[self.mode]

    def to_line(self) -> str:
        return json.dumps(self.as_json())

    def as_json(self) -> dict[str, Any]:
        raw = {item.name: getattr(self, item.name) for item in fields(self)}
        raw["relation"] = relation_to_json(self.relation)
        raw["writing"] = dict(self.writing)
        raw["target_table"] = self.target_table.as_json()
        raw["pairs"] = [pair.as_json() for pair in self.pairs]
        return raw

    @classmethod
    def from_line(cls, line: str) -> WorkerSpec:
        return cls.from_json(json.loads(line))

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> WorkerSpec:
        return cls(
            **{
                **raw,
                "relation": relation_from_json(raw["relation"]),
                "target_table": TableRef(*raw["target_table"]),
                "pairs": tuple(ColumnPair.from_json(pair) for pair in raw["pairs"]),
                "conflict_columns": tuple(raw["conflict_columns"]),
            }
        )


QUIT = json.dumps({"quit": True})
"""Tells a worker that there is nothing more to do."""


def request_line(partition: Partition, attempt: int, spec: WorkerSpec | None = None) -> str:
    """Tells a worker to copy a partition.

    Parameters:
        spec: of another run than before, between the same source and target.
    """
    raw: dict[str, Any] = {"partition": partition.as_json(), "attempt": attempt}
    if spec is not None:
        raw["spec"] = spec.as_json()
    return json.dumps(raw)
