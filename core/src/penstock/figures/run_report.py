"""What is reported of a run, or of a batch of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.model.codec import to_json
from penstock.model.journal import DegreeChange, FailedAttempt, Point


@dataclass(frozen=True, slots=True)
class TimeSpent:
    """Seconds, summed over the attempts that have committed."""

    source: float
    """Waiting for the source."""
    target: float
    """Waiting for the target."""
    moving: float
    """The rest: the mover's own work."""
    paced: float = 0.0
    """Keeping to a rate."""

    @property
    def total(self) -> float:
        return self.source + self.target + self.moving + self.paced


@dataclass(frozen=True, slots=True)
class PartitionFigures:
    partition_id: str
    label: str
    """What it selects."""
    attempt: int
    """The one that has committed, as its execution counts them."""
    rows: int
    bytes: int
    seconds: float
    """From the attempt's begin to its commit."""
    spent: TimeSpent | None
    """None where it was committed by an earlier version."""


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
        """The value in medians."""
        return self.value / self.median


@dataclass(frozen=True, slots=True)
class WaitShare:
    """What sessions of a server waited for."""

    wait: str
    """In the server's words."""
    kind: str
    """See `penstock.backends.api.optional.pulse`."""
    share: float
    """Of all sessions that were seen."""


@dataclass(frozen=True, slots=True)
class ExecutionFigures:
    execution_id: str
    started_at: str
    status: str
    """``running``: it is at work, or was killed after it was last heard of; ``killed``: it was."""
    heard_of: str
    seconds: float
    degree: int
    attempts: int
    failed: int
    failures: tuple[FailedAttempt, ...]
    """The first ones."""
    degrees: tuple[DegreeChange, ...]
    """The first ones."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """How a run went over the time in which it was executed; pauses are left out."""

    width: float
    """Seconds of each point."""
    points: tuple[Point, ...]
    pauses: tuple[float, ...]
    """Where they are left out: seconds from the beginning."""
    changes: tuple[DegreeChange, ...]
    """Of the degree, the first ones of each execution; in seconds from the beginning, too."""


@dataclass(frozen=True, slots=True)
class RunReport:
    """Where the time of a run went, or of the runs of a batch."""

    run_id: str
    what: str
    """Source's and target's table; of a batch, how many tables."""
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
    """Streams that were allowed at once; 0 where that is not known."""
    seconds: float | None
    """In which it was executed; None where that is not known."""
    copying: float | None
    """Of these, seconds in which partitions were copied."""
    planning: float
    comparing: float
    steps: Mapping[str, float]
    """Seconds of the steps after the last partition, by what they do."""
    finishing: float
    """Seconds in which one or more of these were done."""
    spent: TimeSpent | None
    failed_attempts: int
    lost: float
    """Seconds of attempts that failed."""
    tail: float
    """Seconds at the end in which fewer streams were at work than allowed."""
    idle: float
    """Seconds of streams that were not at work then."""
    waits: Mapping[str, tuple[WaitShare, ...]]
    """By side, the most frequent first."""
    slowest: tuple[PartitionFigures, ...]
    outliers: tuple[Outlier, ...]
    timeline: Timeline | None
    executions: tuple[ExecutionFigures, ...]
    advice: str
    """In one line; empty where there is nothing to say."""
    unknown: tuple[str, ...]
    """What is not known, and why."""
    runs: tuple[RunReport, ...] = ()
    """Of a batch: its tables."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Of a batch: seconds by what they went into, one after the other; empty where that is not
    known."""

    columns: tuple[str, ...] = ()
    """What is not copied as the source has it, a line for each option that says so."""

    def as_json(self) -> dict[str, object]:
        written: dict[str, object] = to_json(self)
        return written
