"""The contents of a report on a run, on a batch of runs, or on one execution of either."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.events import PartitionFailure, ReadLater
from penstock.model.codec import NOT_STORED, to_json
from penstock.model.journal import DegreeChange, FailedAttempt, Point
from penstock.model.tables import NotCopied


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

    @classmethod
    def of(cls, seconds: float, source: float, target: float, paced: float) -> TimeSpent:
        """Return how a time was spent, of which the waits and pauses are parts."""
        moving = max(0.0, seconds - source - target - paced)
        return cls(source, target, round(moving, 3), paced)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionEnd:
    """What the end of an execution shows in addition: its own share of the run, and what failed."""

    before: int = 0
    """Partitions that earlier executions committed."""
    attempts: int = 0
    busy: float = 0.0
    """Seconds of all attempts, summed over all streams."""
    changes: tuple[int, int, int] | None = None
    """In mode upsert: the rows inserted, updated and deleted."""
    snapshots: int = 0
    later: tuple[ReadLater, ...] = ()
    """Partitions that were read as of a later moment than the first."""
    warnings: tuple[str, ...] = ()
    """Warnings of a table's plan."""
    error: Mapping[str, Any] | None = None
    """What ended the run, other than a failed partition."""
    failures: tuple[PartitionFailure, ...] = ()
    not_copied: tuple[NotCopied, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What a run, or the runs of a batch, did, and where the time went.

    It is gathered from the records and journals in the target, or from the last event of an
    execution, which knows less of the time and more of what failed (`end`).
    """

    run_id: str
    what: str = ""
    """The tables of source and target; for a batch, the number of tables."""
    status: str
    mode: str = ""
    strategy: str = ""
    """Empty for a batch."""
    created_at: str = ""
    finished_at: str | None = None
    partitions: int = 0
    committed: int = 0
    rows: int
    bytes: int
    degree: int = 0
    """Concurrent streams allowed; 0 if unknown."""
    seconds: float | None = None
    """Seconds in which the run was executed; None if unknown."""
    copying: float | None = None
    """The part of `seconds` in which partitions were copied."""
    planning: float = 0.0
    comparing: float = 0.0
    steps: Mapping[str, float] = field(default_factory=dict)
    """Seconds of the steps after the last partition, by what each does."""
    finishing: float = 0.0
    """Seconds in which at least one of these steps ran."""
    spent: TimeSpent | None = None
    failed_attempts: int = 0
    lost: float = 0.0
    """Seconds lost in failed attempts."""
    tail: float = 0.0
    """Seconds of the tail."""
    idle: float = 0.0
    """Seconds for which streams were idle in the tail."""
    waits: Mapping[str, tuple[WaitShare, ...]] = field(default_factory=dict)
    """By side, the most frequent wait first."""
    slowest: tuple[PartitionFigures, ...] = ()
    outliers: tuple[Outlier, ...] = ()
    timeline: Timeline | None = None
    executions: tuple[ExecutionFigures, ...] = ()
    advice: str = ""
    """One line; empty if nothing stands out."""
    unknown: tuple[str, ...] = ()
    """Missing figures, with the reason for each."""
    runs: tuple[RunReport, ...] = ()
    """The tables of a batch."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Seconds of a batch by phase; phases do not overlap. Empty if unknown."""

    columns: tuple[str, ...] = ()
    """Columns that are not copied unchanged, one line per option."""
    end: ExecutionEnd | None = field(default=None, metadata=NOT_STORED)
    """None if the report was gathered from the target."""

    @property
    def attempts(self) -> int:
        """The attempts of the execution, or of all executions."""
        if self.end is not None:
            return self.end.attempts
        return sum(execution.attempts for execution in self.executions)

    @property
    def streams_seconds(self) -> float | None:
        """The seconds of all streams together; None if unknown."""
        if self.end is not None:
            return self.end.busy
        return self.spent.total if self.spent else None

    @property
    def rate(self) -> tuple[float, float] | None:
        """Rows and bytes per second: of an execution as a whole, or while partitions were copied.

        None if unknown.
        """
        if self.end is not None:
            seconds = max(self.seconds or 0.0, 0.001)
            return self.rows / seconds, self.bytes / seconds
        if not self.copying or not self.timeline:
            return None
        # Not the committed rows: an execution that was killed has reported only part of them.
        points = self.timeline.points
        rows, size = (sum(p.rows for p in points), sum(p.bytes for p in points))
        return rows / self.copying, size / self.copying

    def as_json(self) -> dict[str, object]:
        """Return the output of ``penstock report --json``."""
        content: dict[str, object] = to_json(self)
        return content
