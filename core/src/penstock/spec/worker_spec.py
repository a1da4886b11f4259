"""What a worker needs to know: `WorkerSpec`.

It is resolved, carries secrets, travels over a pipe and is never stored, logged or shown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.model.codec import JsonForm, from_json, to_json
from penstock.model.plans import Partition
from penstock.model.tables import ColumnPair, Relation, TableRef
from penstock.spec.modes import MODES, Mode


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for other sessions that are in the way in the target."""

    grace: float = 10.0
    """Seconds for an older session of the same run that makes no progress, before ending it."""
    stall_timeout: float = 600.0
    """Seconds for any other session that makes no progress; 0: for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """All a worker needs to know. Carries secrets: never stored, never shown."""

    json_form = JsonForm(exact=True)

    run_id: str
    generation: int
    """The run's generation; attempts of another one are refused."""
    source: str = field(repr=False)
    target: str = field(repr=False)
    source_backend: str
    """``module:attribute``; saves the worker looking it up."""
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
    keeps_figures: bool = False
    """See `ControlStore`."""
    show_values: str = "never"
    """See `CopySpec`."""
    session_values: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What a session of the source has to hold; see `masking_keys`. Secret."""

    @property
    def load_mode(self) -> Mode:
        """What `mode` names."""
        return MODES[self.mode]

    def to_line(self) -> str:
        return json.dumps(to_json(self))

    @classmethod
    def from_line(cls, line: str) -> WorkerSpec:
        return from_json(cls, json.loads(line))


QUIT = json.dumps({"quit": True})
"""Tells a worker that there is nothing more to do."""


def request_line(partition: Partition, attempt: int, spec: WorkerSpec | None = None) -> str:
    """Tells a worker to copy a partition.

    Parameters:
        spec: of another run than before, between the same source and target.
    """
    raw: dict[str, Any] = {"partition": to_json(partition), "attempt": attempt}
    if spec is not None:
        raw["spec"] = to_json(spec)
    return json.dumps(raw)


def rate_line(rate: float | None) -> str:
    """Tells a worker how fast to move from now on.

    Parameters:
        rate: bytes a second; None: as fast as it goes.
    """
    return json.dumps({"rate": rate})
