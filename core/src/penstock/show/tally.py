"""Totals of an execution's events: progress, rate and remaining time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock.errors import TooManyConnections
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
    TurnTaken,
    Waiting,
    Warned,
)
from penstock.planning.remarks import CREATED

_RATE_WINDOW = 10.0
_IDLE_AFTER = 5.0
_ESTIMATE_AFTER = 3.0


@dataclass(slots=True)
class Stream:
    """An attempt in progress."""

    run_id: str
    partition_id: str
    label: str
    attempt: int
    moved_at: float
    """When its bytes last increased, by the tally's clock."""
    rows: int = 0
    bytes: int = 0
    recent: deque[tuple[float, int, int]] = field(
        default_factory=lambda: deque([(0.0, 0, 0)], maxlen=6)
    )

    def rate(self) -> tuple[float, float]:
        """Return the rows and bytes per second over the last few reports."""
        start, rows, size = self.recent[0]
        seconds = self.recent[-1][0] - start
        if seconds <= 0:
            return 0.0, 0.0
        return (self.recent[-1][1] - rows) / seconds, (self.recent[-1][2] - size) / seconds


@dataclass(slots=True)
class _Run:
    """The plan of a run, and what this execution has committed of it."""

    partitions: int
    before: int
    """Partitions that earlier executions committed."""
    rows: int | None
    """An estimate."""
    bytes: int | None
    """An estimate."""
    done: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Rows and bytes by partition; dropped at the run's end."""
    labels: dict[str, str] = field(default_factory=dict)
    """The extents of partitions as text; dropped at the run's end."""


@dataclass(slots=True)
class _Sums:
    """Running sums over all runs, because a large batch has too many to add up each time."""

    runs: int = 0
    partitions: int = 0
    before: int = 0
    rows: int = 0
    bytes: int = 0
    without_rows: int = 0
    """Runs without an estimate of their rows."""
    without_bytes: int = 0
    done: int = 0
    """Partitions that this execution has committed."""
    done_rows: int = 0
    done_bytes: int = 0

    def add(self, run: _Run, sign: int = 1) -> None:
        """Add a run to the sums.

        Args:
            run: the run, with its committed partitions.
            sign: -1 to subtract the run.
        """
        self.runs += sign
        self.partitions += sign * run.partitions
        self.before += sign * run.before
        self.rows += sign * (run.rows or 0)
        self.bytes += sign * (run.bytes or 0)
        self.without_rows += sign * (run.rows is None)
        self.without_bytes += sign * (run.bytes is None)
        for rows, size in run.done.values():
            self.add_done(rows, size, sign)

    def add_done(self, rows: int, size: int, sign: int = 1) -> None:
        self.done += sign
        self.done_rows += sign * rows
        self.done_bytes += sign * size


@dataclass(slots=True)
class Tables:
    """The progress of a batch's tables."""

    names: dict[str, str] = field(default_factory=dict)
    """Names of tables by run."""
    done: int = 0
    done_rows: int = 0
    """Rows that this execution committed in tables that are done."""
    done_bytes: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    """Names of failed tables by run."""
    unplanned: int = 0
    """Tables that failed before they were planned."""
    loaded: set[str] = field(default_factory=set)
    """Runs whose partitions are all committed; their last steps may be due."""

    @property
    def ended(self) -> int:
        return self.done + len(self.failed)

    @property
    def loaded_or_failed(self) -> int:
        """The number of tables whose rows are all committed, or that failed."""
        return len(self.loaded) + sum(run_id not in self.loaded for run_id in self.failed)


class Tally:
    """Adds up the events of one execution, of a run or of a batch of runs.

    Args:
        only: how many partitions were requested; 0 for the whole plan.
        clock: a monotonic clock, in seconds.
    """

    def __init__(self, only: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self._only = only
        self._clock = clock
        self.started = clock()
        self.run_id = ""
        self.finished: Finished | None = None
        self.batch_finished: BatchFinished | None = None
        self.copied: dict[str, str] = {}
        """Names of planned tables by run."""
        self.steps: dict[tuple[str, str], str] = {}
        """Steps in progress after the last partition."""
        self.was_done = False
        """Whether the run was done before, so that nothing was left to do."""
        self.created: dict[str, str] = {}
        """By run: what its plan found missing in the target."""
        self.tables = Tables()
        """The tables of a batch."""
        self.waiting: Waiting | None = None
        """Whom this process waits for."""
        self.cancelling = False
        """Whether a signal has arrived and the streams are being ended."""
        self.streams: dict[str, Stream] = {}
        self.failed: dict[str, str] = {}
        """Runs by the names of partitions that failed and are not tried again."""
        self._runs: dict[str, _Run] = {}
        self._sums = _Sums()
        self._begin()

    def _begin(self) -> None:
        self.opened: float | None = None
        # Committed, in progress, and lost in failed attempts.
        self._moved_rows = self._moved_bytes = 0
        self._samples: deque[tuple[float, int, int]] = deque()

    def _plan(self, run_id: str, run: _Run) -> None:
        """Begin a run, or restart it."""
        if before := self._runs.get(run_id):
            self._sums.add(before, -1)
        self._runs[run_id] = run
        self._sums.add(run)
        self.tables.loaded.discard(run_id)
        self._end_streams(run_id)
        if not self._sums.done and not self.streams:
            self._begin()

    def _end_streams(self, run_id: str) -> None:
        for shown in [name for name, each in self.streams.items() if each.run_id == run_id]:
            del self.streams[shown]

    def add(self, event: Event) -> None:
        """Process an event."""
        if not self.is_batch:
            self.run_id = event.run_id
        if isinstance(event, Opened | TurnTaken | StepChanged | Finished):
            self.waiting = None
        match event:
            case BatchStarted():
                self.tables = Tables(
                    {table.run_id: table.table for table in event.tables},
                    failed={table.run_id: table.table for table in event.tables if table.error},
                )
                self.tables.unplanned = len(self.tables.failed)
            case Waiting():
                self.waiting = event
            case BatchFinished():
                self.batch_finished = event
            case Planned():
                self._note_created(event)
                self.copied[event.run_id] = event.table
                self.was_done = event.done and not self.is_batch
                planned = _Run(event.partitions, event.committed, event.rows, event.bytes)
                self._plan(event.run_id, planned)
            case StepChanged(state="started"):
                self.steps[event.run_id, event.step_id] = event.step
            case StepChanged(state="done" | "failed"):
                self.steps.pop((event.run_id, event.step_id), None)
            case Prepared(already=False) if run := self._runs.get(event.run_id):
                # Once per run, unless the run restarts.
                self._plan(event.run_id, _Run(run.partitions, 0, run.rows, run.bytes))
            case SnapshotChanged(state="lost"):
                self.streams.clear()
            case Opened():
                self._open(event)
            case Progress():
                self._progress(event)
            case Committed():
                self._commit(event)
            case Failed():
                self._fail(event)
            case Retrying():
                self.failed.pop(self.partition_name(event), None)
            case Warned(error=Mapping()) if event.run_id not in self.tables.failed:
                self.tables.failed[event.run_id] = self.table(event.run_id)
                self.tables.unplanned += event.run_id not in self._runs
            case Finished():
                self._finish(event)

    def _note_created(self, event: Planned) -> None:
        for warning in event.warnings:
            if warning.startswith(CREATED):
                self.created[event.run_id] = warning.removeprefix(CREATED)

    def _finish(self, event: Finished) -> None:
        self.finished = event
        self._end_streams(event.run_id)
        self.failed = {name: run for name, run in self.failed.items() if run != event.run_id}
        for step in [step for step in self.steps if step[0] == event.run_id]:
            del self.steps[step]
        if run := self._runs.get(event.run_id):
            # The sums hold everything that is still needed.
            run.done, run.labels = {}, {}
        if not self.is_batch:
            return
        if event.status == "done":
            self.tables.done += 1
            self.tables.loaded.add(event.run_id)
            self.tables.done_rows += event.rows
            self.tables.done_bytes += event.bytes
        else:
            self.tables.failed.setdefault(event.run_id, self.table(event.run_id))

    @property
    def is_planned(self) -> bool:
        """Whether at least one run has a plan."""
        return bool(self._runs)

    @property
    def before(self) -> int:
        """Partitions that earlier executions committed."""
        return self._sums.before

    @property
    def is_batch(self) -> bool:
        return bool(self.tables.names)

    def table(self, run_id: str) -> str:
        """Return the table of a run in a batch."""
        return self.tables.names.get(run_id, "")

    def partition_name(self, event: AttemptEvent | Retrying) -> str:
        """Return a partition's name: its id, with its table in a batch."""
        table = self.table(event.run_id)
        return f"{table} {event.partition_id}" if table else event.partition_id

    def _open(self, event: Opened) -> None:
        moment = self._clock()
        if self.opened is None:
            self.opened = moment
            self._samples.append((moment, 0, 0))
        shown = self.partition_name(event)
        self.failed.pop(shown, None)
        if run := self._runs.get(event.run_id):
            run.labels[event.partition_id] = event.label
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
        run = self._runs.get(event.run_id)
        if run is not None and event.partition_id not in run.done:
            run.done[event.partition_id] = (event.rows, event.bytes)
            self._sums.add_done(event.rows, event.bytes)
            if self.is_batch and run.before + len(run.done) >= run.partitions:
                self.tables.loaded.add(event.run_id)

    def _fail(self, event: Failed) -> None:
        shown = self.partition_name(event)
        self.streams.pop(shown, None)
        if event.error.get("error") != TooManyConnections.__name__:  # it is put off
            self.failed[shown] = event.run_id

    def label(self, event: AttemptEvent) -> str:
        """Return the extent of a partition as text, if an event has reported it."""
        run = self._runs.get(event.run_id)
        return run.labels.get(event.partition_id, "") if run else ""

    @property
    def elapsed(self) -> float:
        return self._clock() - self.started

    @property
    def partitions(self) -> int:
        return self._sums.partitions

    @property
    def committed(self) -> int:
        return min(self._sums.before + self._sums.done, self.partitions)

    def commit_counts(self) -> tuple[int, int]:
        """Return the numbers of committed partitions and of all partitions.

        If only some were requested, both count those alone, since others may be copying the rest.
        """
        return (self._sums.done, self._only) if self._only else (self.committed, self.partitions)

    @property
    def rows(self) -> int:
        """Rows that this execution has committed or is copying."""
        return self._sums.done_rows + sum(stream.rows for stream in self.streams.values())

    @property
    def bytes(self) -> int:
        return self._sums.done_bytes + sum(stream.bytes for stream in self.streams.values())

    def rate(self) -> tuple[float, float]:
        """Return the rows and bytes per second of all streams, over the last seconds."""
        if not self._samples:
            return 0.0, 0.0
        start, rows, size = self._samples[0]
        # Up to now rather than to the last report, so that a standstill shows.
        seconds = max(self._clock() - start, 0.001)
        return (self._moved_rows - rows) / seconds, (self._moved_bytes - size) / seconds

    def idle(self, stream: Stream) -> float:
        """Return the seconds since a stream's bytes last increased; 0 if that is recent."""
        seconds = self._clock() - stream.moved_at
        return seconds if seconds >= _IDLE_AFTER else 0.0

    def share(self) -> float:
        """Return the share of this execution's work that is done, 0 to 1.

        The share is in rows if their number was estimated, otherwise in bytes or else in
        partitions. The more partitions are committed, the more their actual size outweighs the
        estimate.
        """
        sums = self._sums
        if not self.is_planned:
            return 0.0
        total = self._only or sums.partitions - sums.before
        done = sums.done / total if total > 0 else 1.0
        if done >= 1:
            return 1.0
        # If the number for one table is unknown, so is the total.
        estimate: float = 0 if sums.without_rows else sums.rows
        committed, covered = sums.done_rows, self.rows
        if not estimate:
            estimate = 0 if sums.without_bytes else sums.bytes
            committed, covered = sums.done_bytes, self.bytes
        if not estimate:
            return done
        estimate *= total / sums.partitions
        if covered >= estimate:
            return done
        # Committed partitions count by their share of all partitions.
        return covered / max((1 - done) * estimate + committed, covered)

    def overall(self) -> float:
        """Return the share of all work that is done, earlier executions included, 0 to 1.

        The share is of the partitions in `commit_counts`; in a batch, of all its tables.
        """
        sums = self._sums
        if self._only or not sums.partitions:
            return self.share()
        before = sums.before / sums.partitions
        return (before + (1 - before) * self.share()) * self._planned_share()

    def _planned_share(self) -> float:
        """Return the share of a batch's tables that are planned, one window after the other.

        The other tables are assumed to be similar.
        """
        tables = self.tables
        return (self._sums.runs + tables.unplanned) / len(tables.names) if tables.names else 1.0

    def seconds_left(self) -> float | None:
        """Return the estimated seconds to the end; None while it is too early to estimate."""
        share = self.share() * self._planned_share()
        if self.opened is None or share < 0.01:
            return None
        spent = self._clock() - self.opened
        return None if spent < _ESTIMATE_AFTER else spent * (1 - share) / share
