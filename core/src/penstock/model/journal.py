"""Journals: records of how an execution of a run went over time."""

from __future__ import annotations

import secrets
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from penstock.model.codec import OMITTED, JsonForm

MOST_POINTS = 240
"""The maximum number of points in a series, however long the run takes."""
MOST_CHANGES = 50
"""The maximum number of changes of degree, and of failed attempts: the first ones are kept."""
RATE_POINTS = 3
"""The last points from which a rate is taken."""
RUNNING = "running"
"""The status of an execution that has not ended, or whose end was never recorded."""

LOST = ("WorkerLost", "TooManyLosses")
"""The classes of the error of an attempt whose worker was lost; see `penstock.errors`."""
KILLED = "killed"
"""The status shown for an execution that has no live process."""

PHASES = PLANNING, PREPARING, COPYING, FINISHING = (
    "planning",
    "preparing",
    "copying",
    "finishing",
)
"""The phases of a batch."""


@dataclass(frozen=True, slots=True)
class Point:
    """The activity within one interval, over all streams."""

    json_form = JsonForm(array=True)

    rows: int = 0
    """Rows moved, including those of attempts that failed later."""
    bytes: int = 0
    busy: float = 0.0
    """Seconds of busy streams."""
    source: float = 0.0
    """The part of `busy` spent waiting for the source."""
    target: float = 0.0
    allowed: float = field(default=0.0, metadata=OMITTED)
    """Seconds of streams that were allowed to work, and had partitions to copy."""
    paced: float = field(default=0.0, metadata=OMITTED)
    """The part of `busy` spent keeping to a rate."""

    def __add__(self, other: Point) -> Point:
        return Point(
            self.rows + other.rows,
            self.bytes + other.bytes,
            self.busy + other.busy,
            self.source + other.source,
            self.target + other.target,
            self.allowed + other.allowed,
            self.paced + other.paced,
        )

    def rounded(self) -> Point:
        """Return the point with seconds rounded to milliseconds."""
        times = (self.busy, self.source, self.target, self.allowed, self.paced)
        return Point(self.rows, self.bytes, *(round(seconds, 3) for seconds in times))


class Series:
    """Points of equal width in time, few enough to be stored.

    If they become too many, pairs of neighbours are merged, so that sums stay the same.

    Args:
        width: the width of a point, in seconds.
    """

    def __init__(self, width: float = 1.0, most: int = MOST_POINTS) -> None:
        self.width = width
        self._most = most
        self._points: list[Point] = []

    @property
    def points(self) -> tuple[Point, ...]:
        return tuple(point.rounded() for point in self._points)

    def add(self, at: float, point: Point) -> None:
        """Add a point to the interval of a moment.

        Args:
            at: seconds since the series began; negative values count as 0.
            point: the activity to add.
        """
        place = self._place(at)
        self._points += [Point()] * (place + 1 - len(self._points))
        self._points[place] += point

    def _place(self, at: float) -> int:
        """Return the index of a moment's point, after making room for it."""
        while (place := int(max(at, 0.0) / self.width)) >= self._most:
            pairs = range(0, len(self._points), 2)
            self._points = [sum(self._points[i : i + 2], Point()) for i in pairs]
            self.width *= 2
        return place

    def spread(self, start: float, end: float, point: Point) -> None:
        """Distribute an activity over the points that its time covers, in proportion.

        Rows and bytes are whole numbers: the last point gets the remainder.

        Args:
            start: seconds from the start of the series to the start of the span.
            end: seconds from the start of the series to the end of the span.
            point: the activity as a whole.
        """
        self._place(end)
        parts = list(self._parts(start, end)) or [(end, 1.0)]
        rows, size = point.rows, point.bytes
        for at, share in parts[:-1]:
            some, more = int(point.rows * share), int(point.bytes * share)
            rows, size = rows - some, size - more
            self.add(at, _scaled(point, share, some, more))
        at, share = parts[-1]
        self.add(at, _scaled(point, share, rows, size))

    def _parts(self, start: float, end: float) -> Iterator[tuple[float, float]]:
        """Yield the moments and shares of the intervals that a time span covers."""
        length, at = end - start, start
        while length > 0 and at < end:
            until = min(end, (int(at / self.width) + 1) * self.width)
            if until <= at:  # too close for floats
                return
            yield at, (until - at) / length
            at = until


def _scaled(point: Point, share: float, rows: int, size: int) -> Point:
    times = (point.busy, point.source, point.target, point.allowed, point.paced)
    return Point(rows, size, *(seconds * share for seconds in times))


@dataclass(frozen=True, slots=True)
class DegreeChange:
    """A change to the number of concurrent streams, and the reason for it."""

    at: float
    """Seconds since the execution began."""
    degree: int
    message: str


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """A failed attempt, without its message, which may contain values of rows."""

    at: float
    """Seconds since the execution began."""
    partition_id: str
    """The partition; in a batch, prefixed with its table."""
    attempt: int
    error: str
    """The class of the error."""
    code: str = ""
    side: str = ""
    transient: bool = False


@dataclass(frozen=True, slots=True)
class Waited:
    """The number of sessions seen waiting for one thing."""

    json_form = JsonForm(array=True)

    sessions: int
    """Waiting sessions, summed over the samples, about one sample a second."""
    kind: str
    """See `penstock.backends.api.optional.pulse`."""


@dataclass(frozen=True, slots=True)
class Journal:
    """The record of one execution of a run; if it was killed, up to the last write."""

    json_form = JsonForm(defaults=True)

    execution_id: str
    started_at: str
    """The start, by the clock of the executing machine."""
    written_at: str
    status: str
    """``running`` until the end; it stays so if the end is never recorded."""
    degree: int
    """The maximum number of streams allowed at once."""
    seconds: float
    """Seconds from the start of the execution to this write."""
    width: float = 1.0
    """Seconds that each point covers."""
    points: tuple[Point, ...] = ()
    attempts: int = 0
    failed: int = 0
    lost: float = 0.0
    """Seconds of failed attempts."""
    failures: tuple[FailedAttempt, ...] = ()
    """The first failed attempts."""
    degrees: tuple[DegreeChange, ...] = ()
    """The first changes of degree."""
    waits: Mapping[str, Mapping[str, Waited]] = field(default_factory=dict)
    """By side, and by what the sessions waited for, in the server's words."""
    copied_from: float = 0.0
    """Seconds from the start of the execution to that of its first attempt."""
    copying: float = 0.0
    """Seconds from the start of the first attempt to the end of the last."""
    tail: float = 0.0
    """The last seconds of `copying`, when fewer streams were at work than allowed."""
    idle: float = 0.0
    """Seconds of idle streams in the tail."""
    planning: float = 0.0
    """Seconds of planning."""
    comparing: float = 0.0
    """Seconds of the comparison at the end."""
    steps: Mapping[str, float] = field(default_factory=dict)
    """Seconds of each step after the last partition, by what the step does."""
    finishing: float = 0.0
    """Seconds in which at least one of these steps ran; some run concurrently."""
    runs: tuple[str, ...] = ()
    """For a batch: the ids of its tables' runs."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """For a batch: seconds by phase, one after another; see `PHASES`."""
    host: str = ""
    """The machine, container or pod that executes it."""
    pid: int = 0
    """The id of its main process there."""
    open: tuple[str, ...] = ()
    """The partitions that it was copying at this write."""
    opened: tuple[float, ...] = ()
    """Seconds from the start of the execution to that of each of these."""
    turn: str = ""
    """``planning`` or ``finishing``: what it was doing for all executions at this write."""
    turn_from: float = 0.0
    """Seconds from the start of the execution to the beginning of that."""

    @property
    def rate(self) -> float:
        """Bytes per second over the last whole intervals."""
        last = self.points[-RATE_POINTS - 1 : -1] or self.points
        return sum(point.bytes for point in last) / (self.width * max(1, len(last)))

    def moment(self, seconds: float) -> str:
        """Return a moment of the execution, ISO 8601 in UTC, by the clock of its machine."""
        moment = datetime.fromisoformat(self.started_at) + timedelta(seconds=seconds)
        return moment.isoformat(timespec="seconds")


def new_execution_id() -> str:
    """Return a unique name that sorts by time."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"


def losses_of(journals: Iterable[Journal], but: str) -> Mapping[str, float]:
    """Return how often executions of a run were lost, or lost a worker, at its partitions.

    A lost worker counts as one: its attempt was the only one. An execution that was killed has left
    a journal that says what it was copying; it counts half, divided among those partitions, since
    what killed it may have been none of them. One that is at work has such a journal, too.

    Args:
        journals: the journals of the run.
        but: the id of an execution that does not count.
    """
    losses: defaultdict[str, float] = defaultdict(float)
    for journal in journals:
        if journal.execution_id == but:
            continue
        for partition_id in journal.open if journal.status == RUNNING else ():
            losses[partition_id] += 0.5 / len(journal.open)
        for failure in journal.failures:
            losses[failure.partition_id] += failure.error in LOST
    return losses
