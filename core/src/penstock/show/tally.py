"""Adds up an execution's events: how much is done, how fast, how long it will take."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce

from penstock.events import (
    AttemptEvent,
    BatchFinished,
    BatchStarted,
    Committed,
    Event,
    Failed,
    Finished,
    Opened,
    Planned,
    Prepared,
    Progress,
    Retrying,
    SnapshotChanged,
    StepChanged,
)

_RATE_WINDOW = 10.0
_IDLE_AFTER = 5.0
_ESTIMATE_AFTER = 3.0


@dataclass(slots=True)
class Stream:
    """An attempt under way."""

    run_id: str
    partition_id: str
    label: str
    attempt: int
    moved_at: float
    """When its bytes last grew, by the tally's clock."""
    rows: int = 0
    bytes: int = 0
    recent: deque[tuple[float, int, int]] = field(
        default_factory=lambda: deque([(0.0, 0, 0)], maxlen=6)
    )

    def rate(self) -> tuple[float, float]:
        """Rows and bytes a second, over the last few reports."""
        start, rows, size = self.recent[0]
        seconds = self.recent[-1][0] - start
        if seconds <= 0:
            return 0.0, 0.0
        return (self.recent[-1][1] - rows) / seconds, (self.recent[-1][2] - size) / seconds


class Tally:
    """Adds up the events of one execution, of a run or of a batch of runs.

    Parameters:
        only: how many partitions were asked for, if not all of the plan.
        clock: seconds, monotonic.
    """

    def __init__(self, only: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self._only = only
        self._clock = clock
        self.started = clock()
        self.run_id = ""
        self.finished: Finished | None = None
        self.batch_finished: BatchFinished | None = None
        self.steps: dict[tuple[str, str], str] = {}
        """Steps after the last partition that are under way."""
        self._tables: dict[str, str] = {}
        """In a batch, the tables by run."""
        self.cancelling = False
        """A signal has arrived; the streams are being ended."""
        self.streams: dict[str, Stream] = {}
        self._labels: dict[str, str] = {}
        self._plans: dict[str, Planned] = {}
        """By run."""
        self._total: Planned | None = None
        self._done: dict[tuple[str, str], tuple[int, int]] = {}
        """Rows and bytes that this execution has committed, by run and partition."""
        self._begin()

    def _begin(self) -> None:
        self.opened: float | None = None
        # Committed, under way, and moved in vain by failed attempts.
        self._moved_rows = self._moved_bytes = 0
        self._samples: deque[tuple[float, int, int]] = deque()

    def _plan(self, planned: Planned) -> None:
        """Begin a run, or start it over."""
        run_id = planned.run_id
        self._plans[run_id] = planned
        self._total = None
        self._done = {key: moved for key, moved in self._done.items() if key[0] != run_id}
        self.streams = {
            shown: stream for shown, stream in self.streams.items() if stream.run_id != run_id
        }
        if not self._done and not self.streams:
            self._begin()

    def add(self, event: Event) -> None:
        """Take an event into account."""
        if not self._tables:
            self.run_id = event.run_id
        match event:
            case BatchStarted():
                self._tables = {table.run_id: table.table for table in event.tables}
            case BatchFinished():
                self.batch_finished = event
            case Planned():
                self._plan(event)
            case StepChanged(state="started"):
                self.steps[event.run_id, event.step_id] = event.step
            case StepChanged(state="done" | "failed"):
                self.steps.pop((event.run_id, event.step_id), None)
            case Prepared(already=False) if event.run_id in self._plans:
                # Once per run, unless the run starts over.
                self._plan(replace(self._plans[event.run_id], committed=0))
            case SnapshotChanged(state="lost"):
                self.streams.clear()
            case Opened():
                self._open(event)
            case Progress():
                self._progress(event)
            case Committed():
                self._commit(event)
            case Failed():
                self.streams.pop(self.partition_name(event), None)
            case Finished():
                self.finished = event
                self.streams.clear()
                self.steps.clear()

    @property
    def planned(self) -> Planned | None:
        """The plans of all runs combined."""
        if self._total is None and self._plans:
            self._total = reduce(_as_one, self._plans.values())
        return self._total

    @property
    def is_batch(self) -> bool:
        return bool(self._tables)

    def table(self, run_id: str) -> str:
        """The table of a run, in a batch."""
        return self._tables.get(run_id, "")

    def partition_name(self, event: AttemptEvent | Retrying) -> str:
        """A partition's name: its id, in a batch with its table."""
        table = self.table(event.run_id)
        return f"{table} {event.partition_id}" if table else event.partition_id

    def _open(self, event: Opened) -> None:
        moment = self._clock()
        if self.opened is None:
            self.opened = moment
            self._samples.append((moment, 0, 0))
        shown = self.partition_name(event)
        self._labels[shown] = event.label
        self.streams[shown] = Stream(event.run_id, shown, event.label, event.attempt, moment)

    def _progress(self, event: Progress | Committed) -> None:
        stream = self.streams.get(self.partition_name(event))
        if stream is None or stream.attempt != event.attempt:
            return
        moment = self._clock()
        if event.bytes > stream.bytes:
            stream.moved_at = moment
        self._moved_rows += max(0, event.rows - stream.rows)
        self._moved_bytes += max(0, event.bytes - stream.bytes)
        stream.rows, stream.bytes = event.rows, event.bytes
        stream.recent.append((event.seconds, event.rows, event.bytes))
        self._samples.append((moment, self._moved_rows, self._moved_bytes))
        while len(self._samples) > 2 and self._samples[1][0] < moment - _RATE_WINDOW:
            self._samples.popleft()

    def _commit(self, event: Committed) -> None:
        if not event.already:
            self._progress(event)
        shown = self.partition_name(event)
        self.streams.pop(shown, None)
        self._done.setdefault((event.run_id, event.partition_id), (event.rows, event.bytes))

    def label(self, shown: str) -> str:
        """What a partition selects, if an event has said so."""
        return self._labels.get(shown, "")

    @property
    def elapsed(self) -> float:
        return self._clock() - self.started

    @property
    def partitions(self) -> int:
        return self.planned.partitions if self.planned else 0

    @property
    def committed(self) -> int:
        before = self.planned.committed if self.planned else 0
        return min(before + len(self._done), self.partitions)

    def commit_counts(self) -> tuple[int, int]:
        """Partitions that are committed, and of how many: if only some were requested, of those,
        since others may be copying the rest."""
        return (len(self._done), self._only) if self._only else (self.committed, self.partitions)

    @property
    def _committed_rows(self) -> int:
        return sum(rows for rows, _ in self._done.values())

    @property
    def _committed_bytes(self) -> int:
        return sum(size for _, size in self._done.values())

    @property
    def rows(self) -> int:
        """Committed by this execution, or under way."""
        return self._committed_rows + sum(stream.rows for stream in self.streams.values())

    @property
    def bytes(self) -> int:
        return self._committed_bytes + sum(stream.bytes for stream in self.streams.values())

    def rate(self) -> tuple[float, float]:
        """Rows and bytes a second, of all streams, over the last seconds."""
        if not self._samples:
            return 0.0, 0.0
        start, rows, size = self._samples[0]
        # Up to now rather than to the last report, so that a standstill shows.
        seconds = max(self._clock() - start, 0.001)
        return (self._moved_rows - rows) / seconds, (self._moved_bytes - size) / seconds

    def idle(self, stream: Stream) -> float:
        """Seconds since a stream's bytes last grew; 0 while that is recent."""
        seconds = self._clock() - stream.moved_at
        return seconds if seconds >= _IDLE_AFTER else 0.0

    def share(self) -> float:
        """How much of this execution's work is done, 0 to 1.

        In rows, or else in bytes, if their number was estimated; otherwise in partitions. The more
        partitions are committed, the more weight their size gets against the estimate.
        """
        if self.planned is None:
            return 0.0
        asked = self._only or self.planned.partitions - self.planned.committed
        done = len(self._done) / asked if asked > 0 else 1.0
        if done >= 1:
            return 1.0
        estimate: float | None = self.planned.rows
        committed, covered = self._committed_rows, self.rows
        if not estimate:
            estimate = self.planned.bytes
            committed, covered = self._committed_bytes, self.bytes
        if not estimate:
            return done
        estimate *= asked / self.planned.partitions
        if covered >= estimate:
            return done
        # Committed partitions count with their share of all partitions.
        return covered / max((1 - done) * estimate + committed, covered)

    def overall(self) -> float:
        """How much is done of what `commit_counts` counts, earlier executions included, 0 to 1."""
        if self._only or self.planned is None or not self.planned.partitions:
            return self.share()
        before = self.planned.committed / self.planned.partitions
        return before + (1 - before) * self.share()

    def seconds_left(self) -> float | None:
        """Estimated seconds to the end; None while it is too early to tell."""
        share = self.share()
        if self.opened is None or share < 0.01:
            return None
        spent = self._clock() - self.opened
        return None if spent < _ESTIMATE_AFTER else spent * (1 - share) / share


def _as_one(first: Planned, second: Planned) -> Planned:
    """The plans of two tables combined."""

    def total(mine: int | None, other: int | None) -> int | None:
        # If one table's number is unknown, so is the total.
        return None if mine is None or other is None else mine + other

    return replace(
        first,
        partitions=first.partitions + second.partitions,
        committed=first.committed + second.committed,
        rows=total(first.rows, second.rows),
        bytes=total(first.bytes, second.bytes),
    )
