"""Journals: what is kept of how an execution of a run went over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from penstock.model.codec import OMITTED, JsonForm

MOST_POINTS = 240
"""Of a series, however long it runs."""
MOST_CHANGES = 50
"""Of the degree that are kept one by one, and of failed attempts: the first ones."""
RUNNING = "running"
"""The status of an execution that has not ended, or that nobody came to say the end of."""

KILLED = "killed"
"""As it is shown where nobody is at work."""

PHASES = PLANNING, PREPARING, COPYING, FINISHING = (
    "planning",
    "preparing",
    "copying",
    "finishing",
)
"""What the time of a batch goes into."""


@dataclass(frozen=True, slots=True)
class Point:
    """What happened within one interval, over all streams."""

    json_form = JsonForm(array=True)

    rows: int = 0
    """Moved, also by attempts that failed later."""
    bytes: int = 0
    busy: float = 0.0
    """Seconds of streams that were at work."""
    source: float = 0.0
    """Of these, seconds of waiting for the source."""
    target: float = 0.0
    allowed: float = field(default=0.0, metadata=OMITTED)
    """Seconds of streams that were allowed at once, and had partitions to copy."""
    paced: float = field(default=0.0, metadata=OMITTED)
    """Of the busy ones, seconds of keeping to a rate."""

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
        """To milliseconds."""
        times = (self.busy, self.source, self.target, self.allowed, self.paced)
        return Point(self.rows, self.bytes, *(round(seconds, 3) for seconds in times))


class Series:
    """Points of equal width in time, few enough to be kept: where they would become too many, each
    two neighbours are merged, so that sums stay what they are.

    Parameters:
        width: of a point, in seconds.
    """

    def __init__(self, width: float = 1.0, most: int = MOST_POINTS) -> None:
        self.width = width
        self._most = most
        self._points: list[Point] = []

    @property
    def points(self) -> tuple[Point, ...]:
        return tuple(point.rounded() for point in self._points)

    def add(self, at: float, point: Point) -> None:
        """
        Parameters:
            at: seconds since the series began; earlier is taken for the beginning.
        """
        place = self._place(at)
        self._points += [Point()] * (place + 1 - len(self._points))
        self._points[place] += point

    def _place(self, at: float) -> int:
        """Which point a moment falls into, once there is room for it."""
        while (place := int(max(at, 0.0) / self.width)) >= self._most:
            pairs = range(0, len(self._points), 2)
            self._points = [sum(self._points[i : i + 2], Point()) for i in pairs]
            self.width *= 2
        return place

    def spread(self, begun: float, ended: float, point: Point) -> None:
        """Add what went on for a while, to each point as much of it as falls into it.

        Rows and bytes are whole: the last point has what is left.
        """
        self._place(ended)
        parts = list(self._parts(begun, ended)) or [(ended, 1.0)]
        rows, size = point.rows, point.bytes
        for at, share in parts[:-1]:
            some, more = int(point.rows * share), int(point.bytes * share)
            rows, size = rows - some, size - more
            self.add(at, _scaled(point, share, some, more))
        at, share = parts[-1]
        self.add(at, _scaled(point, share, rows, size))

    def _parts(self, begun: float, ended: float) -> Iterator[tuple[float, float]]:
        """Moments and shares of the intervals that a while falls into."""
        length, at = ended - begun, begun
        while length > 0 and at < ended:
            until = min(ended, (int(at / self.width) + 1) * self.width)
            if until <= at:  # too close for floats
                return
            yield at, (until - at) / length
            at = until


def _scaled(point: Point, share: float, rows: int, size: int) -> Point:
    times = (point.busy, point.source, point.target, point.allowed, point.paced)
    return Point(rows, size, *(seconds * share for seconds in times))


@dataclass(frozen=True, slots=True)
class DegreeChange:
    at: float
    """Seconds since the execution began."""
    degree: int
    message: str


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """Without the message, which may have values of rows in it."""

    at: float
    """Seconds since the execution began."""
    partition_id: str
    """After its table, in a batch."""
    attempt: int
    error: str
    """Its class."""
    code: str = ""
    side: str = ""
    transient: bool = False


@dataclass(frozen=True, slots=True)
class Waited:
    """How often a session was seen waiting for something."""

    json_form = JsonForm(array=True)

    sessions: int
    """Summed over the samples, about one a second."""
    kind: str
    """See `penstock.backends.api.optional.pulse`."""


@dataclass(frozen=True, slots=True)
class Journal:
    """What is kept of one execution of a run; of one that was killed, how far it had come."""

    json_form = JsonForm(defaults=True)

    execution_id: str
    started_at: str
    """By the clock of the machine that executes."""
    written_at: str
    status: str
    """``running`` until it ends; where nobody came to write the end, for good."""
    degree: int
    """The most streams that were allowed at once."""
    seconds: float
    """Since the execution began, when this was written."""
    width: float = 1.0
    """Seconds of each point."""
    points: tuple[Point, ...] = ()
    attempts: int = 0
    failed: int = 0
    lost: float = 0.0
    """Seconds of attempts that failed."""
    failures: tuple[FailedAttempt, ...] = ()
    """The first ones."""
    degrees: tuple[DegreeChange, ...] = ()
    """The first ones."""
    waits: Mapping[str, Mapping[str, Waited]] = field(default_factory=dict)
    """By side, and by what the sessions waited for, in the server's words."""
    copied_from: float = 0.0
    """Seconds from the execution's begin to its first attempt's."""
    copying: float = 0.0
    """Seconds from the first attempt's begin to the last one's end."""
    tail: float = 0.0
    """The last of these, in which fewer streams were at work than allowed."""
    idle: float = 0.0
    """Seconds of streams that were not at work in the tail."""
    planning: float = 0.0
    """Seconds."""
    comparing: float = 0.0
    """Seconds of the comparison at the end."""
    steps: Mapping[str, float] = field(default_factory=dict)
    """Seconds of the steps after the last partition, by what they do."""
    finishing: float = 0.0
    """Seconds in which one or more of these were done: some go side by side."""
    runs: tuple[str, ...] = ()
    """Of a batch: the ids of its tables' runs."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Of a batch: seconds by what they went into, one after the other; see `PHASES`."""
