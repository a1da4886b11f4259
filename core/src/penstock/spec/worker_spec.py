"""The specification that a worker receives: `WorkerSpec`.

It has its references resolved, carries secrets, travels over a pipe and is never stored, logged or
shown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.model.codec import JsonForm, from_json, to_json
from penstock.model.plans import Partition
from penstock.model.tables import ColumnPair, Relation, TableRef
from penstock.spec.modes import MODES, Mode


@dataclass(frozen=True, slots=True)
class Patience:
    """The time limits for other sessions that block the load in the target."""

    grace: float = 10.0
    """Seconds without progress after which an older session of the same run is ended."""
    stall_timeout: float = 600.0
    """Seconds without progress for which to wait for any other session; 0 for no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """Everything that a worker needs. Carries secrets: never stored, never shown."""

    json_form = JsonForm(exact=True)

    run_id: str
    generation: int
    """The run's generation; the target rejects attempts of another one."""
    source: str = field(repr=False)
    target: str = field(repr=False)
    source_backend: str
    """``module:attribute``; saves the worker a lookup."""
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
    """The time when the snapshot was taken, for the commit records."""
    """See `ControlStore`."""
    show_values: str = "never"
    """See `CopySpec`."""
    leaves_taken: bool = False
    """Whether to leave a partition to another execution that is copying it, and not to wait."""
    memory: int | None = None
    """The most bytes of memory that the worker may take; None for no limit."""
    session_values: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values that a session of the source needs; see `masking_keys`. Secret."""

    @property
    def key_sources(self) -> tuple[str, ...]:
        """The source's columns of the unique key by which rows are merged."""
        return tuple(pair.source for pair in self.pairs if pair.target in self.conflict_columns)

    @property
    def load_mode(self) -> Mode:
        """The mode that `mode` names."""
        return MODES[self.mode]

    def to_line(self) -> str:
        """Return the JSON line that a worker reads."""
        return json.dumps(to_json(self))

    @classmethod
    def from_line(cls, line: str) -> WorkerSpec:
        """Return the spec of a JSON line, the inverse of `to_line`."""
        return from_json(cls, json.loads(line))


QUIT = json.dumps({"quit": True})
"""The line that tells a worker to end."""


def request_line(partition: Partition, attempt: int, spec: WorkerSpec | None = None) -> str:
    """Return the line that tells a worker to copy a partition.

    Args:
        partition: the partition to copy.
        attempt: the number of the attempt.
        spec: the spec of another run, between the same source and target; None for the same run.
    """
    raw: dict[str, Any] = {"partition": to_json(partition), "attempt": attempt}
    if spec is not None:
        raw["spec"] = to_json(spec)
    return json.dumps(raw)


BROKEN = json.dumps({"broken": True})
"""The line with which a worker says that nothing of a group is committed."""


def group_line(members: Sequence[tuple[WorkerSpec, Partition, int]]) -> str:
    """Return the line that tells a worker to copy partitions of several runs in one transaction.

    Args:
        members: the partitions to copy, with the specs of their runs and the numbers of their
            attempts; the runs have the same source and target.
    """
    return json.dumps(
        {
            "group": [
                {"spec": to_json(spec), "partition": to_json(partition), "attempt": attempt}
                for spec, partition, attempt in members
            ]
        }
    )


def rate_line(rate: float | None) -> str:
    """Return the line that tells a worker how fast to move from now on.

    Args:
        rate: bytes a second; None for no limit.
    """
    return json.dumps({"rate": rate})
