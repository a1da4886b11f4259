"""The contents of a report on a run, or on a batch of runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.model.codec import to_json
from penstock.model.journal import DegreeChange, FailedAttempt, Point


@dataclass(frozen=True, slots=True)
class TimeSpent:
    """Seconds, summed over the committed attempts."""

    source: float
    """Seconds spent waiting for the source."""
    target: float
    """Seconds spent waiting for the target."""
    moving: float
    """All other seconds: Penstock's own work."""
    paced: float = 0.0
    """Seconds paused to keep to a rate."""

    @property
    def total(self) -> float:
        """The seconds of all streams together."""
        return self.source + self.target + self.moving + self.paced


@dataclass(frozen=True, slots=True)
class PartitionFigures:
    """The figures of a committed partition."""

    partition_id: str
    label: str
    """The partition's extent, as text."""
    attempt: int
    """The committed attempt's number within its execution."""
    rows: int
    bytes: int
    seconds: float
    """From the beginning of the attempt to its commit."""
    spent: TimeSpent | None
    """None if unknown."""


@dataclass(frozen=True, slots=True)
class Outlier:
    """A partition that is far from the median."""

    partition_id: str
    label: str
    measure: str
    """``rows`` or ``seconds``."""
    value: float
    median: float

    @property
    def times(self) -> float:
        """The value as a multiple of the median."""
        return self.value / self.median


@dataclass(frozen=True, slots=True)
class WaitShare:
    """A wait of a server's sessions."""

    wait: str
    """The server's name for the wait."""
    kind: str
    """The kind of wait; see `penstock.backends.api.optional.pulse`."""
    share: float
    """The share among all sampled sessions."""


@dataclass(frozen=True, slots=True)
class ExecutionFigures:
    """The figures of an execution, from its journal."""

    execution_id: str
    started_at: str
    status: str
    """``running``: at work, or killed since its last sign of life; ``killed``: known to be dead."""
    heard_of: str
    seconds: float
    degree: int
    attempts: int
    failed: int
    failures: tuple[FailedAttempt, ...]
    """The first failures."""
    degrees: tuple[DegreeChange, ...]
    """The first changes."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The progress of a run over the time in which it was executed, without pauses."""

    width: float
    """Seconds per point."""
    points: tuple[Point, ...]
    pauses: tuple[float, ...]
    """Places where pauses are left out, in seconds from the beginning."""
    changes: tuple[DegreeChange, ...]
    """The first changes of the degree in each execution, in seconds from the beginning."""


@dataclass(frozen=True, slots=True)
class RunReport:
    """Where the time of a run, or of the runs of a batch, went."""

    run_id: str
    what: str
    """The tables of source and target; for a batch, the number of tables."""
    status: str
    mode: str
    strategy: str
    """Empty for a batch."""
    created_at: str
    finished_at: str | None
    partitions: int
    committed: int
    rows: int
    bytes: int
    degree: int
    """Concurrent streams allowed; 0 if unknown."""
    seconds: float | None
    """Seconds in which the run was executed; None if unknown."""
    copying: float | None
    """The part of `seconds` in which partitions were copied."""
    planning: float
    comparing: float
    steps: Mapping[str, float]
    """Seconds of the steps after the last partition, by what each does."""
    finishing: float
    """Seconds in which at least one of these steps ran."""
    spent: TimeSpent | None
    failed_attempts: int
    lost: float
    """Seconds lost in failed attempts."""
    tail: float
    """Seconds of the tail."""
    idle: float
    """Seconds for which streams were idle in the tail."""
    waits: Mapping[str, tuple[WaitShare, ...]]
    """By side, the most frequent wait first."""
    slowest: tuple[PartitionFigures, ...]
    outliers: tuple[Outlier, ...]
    timeline: Timeline | None
    executions: tuple[ExecutionFigures, ...]
    advice: str
    """One line; empty if nothing stands out."""
    unknown: tuple[str, ...]
    """Missing figures, with the reason for each."""
    runs: tuple[RunReport, ...] = ()
    """The tables of a batch."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Seconds of a batch by phase; phases do not overlap. Empty if unknown."""

    columns: tuple[str, ...] = ()
    """Columns that are not copied unchanged, one line per option."""

    def as_json(self) -> dict[str, object]:
        """Return the output of ``penstock report --json``."""
        content: dict[str, object] = to_json(self)
        return content
