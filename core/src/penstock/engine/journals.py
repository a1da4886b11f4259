"""The journals of an execution, gathered from its events.

They are written now and then and at its end, so that another process can report the run.
"""

from __future__ import annotations

import math
import os
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress

from penstock.engine.control_link import ControlLink
from penstock.engine.execution import BRIEFLY, briefly
from penstock.engine.phases import Phases
from penstock.errors import PenstockError, is_cancellation
from penstock.events import (
    CONNECTIONS,
    BatchFinished,
    BatchStarted,
    Committed,
    DegreeChanged,
    Event,
    Failed,
    Finished,
    Moved,
    Opened,
    PartitionsChecked,
    Planned,
    Sampled,
    StepChanged,
    TurnTaken,
    Verified,
    Waiting,
    now,
)
from penstock.model.journal import (
    MOST_CHANGES,
    RUNNING,
    DegreeChange,
    FailedAttempt,
    Journal,
    Point,
    Series,
    Waited,
)

# Seconds before a journal is first written, and the longest time between two writes. Until then the
# interval is a quarter of the time so far: a killed execution leaves most of its journal.
FIRST, MOST = 2.0, 30.0
# The longest time if several executions share a run, each of which says what it is copying.
MOST_SHARED = 8.0
WaitKind = Callable[[str, str], str]
"""Returns the kind of a wait, from a side and its server's word; see
`backends.api.optional.pulse`."""


def keep_journals(
    events: Generator[Event, None, None],
    link: ControlLink,
    kind_of: WaitKind,
    execution_id: str,
    *,
    shares: bool = False,
) -> Iterator[Event]:
    """Yield the events of an execution, and keep journals of its runs and of its batch.

    A journal that cannot be written within a moment is left out, and nothing else changes.

    Args:
        events: the events of the execution.
        link: the link to the control store, which stores the journals.
        kind_of: returns the kind of a wait.
        execution_id: the id of the execution.
        shares: whether other executions take partitions, too.
    """
    journals = _Journals(link, kind_of, execution_id, MOST_SHARED if shares else MOST)
    try:
        with closing(events):
            for event in events:
                journals.add(event)
                yield event
    except BaseException as error:
        journals.end("interrupted" if is_cancellation(error) else "failed")
        raise
    journals.end("done")


class _Journals:
    """The journals of all runs of an execution, and of their batch."""

    def __init__(
        self, link: ControlLink, kind_of: WaitKind, execution_id: str, most_seconds: float
    ) -> None:
        self._link = link
        self._kind_of = kind_of
        self._most_seconds = most_seconds
        self._id = execution_id
        self._keepers: dict[str, Keeper] = {}
        self._ended: dict[str, Journal] = {}
        """Journals of runs of a batch that have ended, until they are written."""
        self._batch = ""
        self._started = time.monotonic()
        self._due = self._started + FIRST
        self._writing: threading.Thread | None = None

    def add(self, event: Event) -> None:
        if isinstance(event, Planned | BatchStarted):
            keeper = Keeper(self._id, event.degree, self._kind_of)
            self._keepers.setdefault(event.run_id, keeper)
        if isinstance(event, TurnTaken):
            self._due = 0.0  # the others want to know whom they wait for
            if self._writing is not None:
                self._writing.join(BRIEFLY)
        if isinstance(event, BatchStarted):
            # The search for its tables came before.
            self._keepers[event.run_id].phases = Phases(self._started)
            # Soon: without it, the tables' runs cannot be found by the batch's id.
            self._batch, self._due = event.run_id, 0.0
        if isinstance(event, DegreeChanged) and event.cause == CONNECTIONS:
            self._due = math.inf  # no connection is left for it: only at the end
        run_ids = {event.run_id, self._batch}
        if isinstance(event, TurnTaken):
            run_ids.update(event.run_ids)
        for run_id in run_ids & self._keepers.keys():
            self._keepers[run_id].add(event)
        if isinstance(event, Finished) and self._batch and event.run_id in self._keepers:
            keeper = self._keepers.pop(event.run_id)
            if keeper.says_something or keeper.is_written:
                self._ended[event.run_id] = keeper.journal(event.status)
        if self._keepers and time.monotonic() >= self._due:
            self._write_so_far()

    def _write_so_far(self) -> None:
        """Write on a separate thread with its own connection: the control store may be slow."""
        at = time.monotonic()
        self._due = at + min(self._most_seconds, max(FIRST, (at - self._started) / 4))
        if self._writing is not None and self._writing.is_alive():
            return
        journals = {
            run_id: keeper.journal(keeper.status or RUNNING)
            for run_id, keeper in self._keepers.items()
            if keeper.changed
        }
        ended = dict(self._ended)
        self._writing = threading.Thread(
            target=self._write_some, args=(journals, ended), daemon=True
        )
        self._writing.start()

    def _write_some(self, journals: dict[str, Journal], ended: dict[str, Journal]) -> None:
        if self._write(journals | ended):
            for run_id in ended:
                self._ended.pop(run_id)

    def _write(self, journals: dict[str, Journal]) -> bool:
        """Write journals, and return whether that succeeded."""
        # On a separate connection: this thread may be abandoned while it waits for the server,
        # and no other thread may use or close the connection it waits on.
        with suppress(PenstockError), closing(self._link.reconnect()) as target:
            target.control.journals.put(journals)
            return True
        return False

    def end(self, status: str) -> None:
        """Write the last journals.

        Args:
            status: the status of runs that have not been reported.
        """
        journals = {
            run_id: keeper.journal(keeper.status or status)
            for run_id, keeper in self._keepers.items()
            if keeper.says_something or keeper.is_written or run_id == self._batch
        }
        journals |= dict(self._ended)
        if journals:
            briefly(lambda: self._write_last(journals, is_done=status == "done"))

    def _write_last(self, journals: dict[str, Journal], *, is_done: bool) -> None:
        if self._writing is not None:
            self._writing.join()  # otherwise it could be written after the last one
        control = self._link.catalog.control
        if is_done and control.closable_during_calls:
            # The execution's own connection is no longer needed.
            with suppress(PenstockError):
                control.journals.put(journals)
                return
        self._write(journals)


class Keeper:
    """The collection of one journal.

    Args:
        execution_id: the id of the execution.
        degree: the requested number of streams.
        kind_of: returns the kind of a wait of a server's session.
        clock: returns seconds, as `time.monotonic` does.
    """

    def __init__(
        self,
        execution_id: str,
        degree: int,
        kind_of: WaitKind,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.status = ""
        """The reported status; empty before."""
        self.changed = False
        """Whether there is more to write than in the last journal."""
        self.is_written = False
        """Whether a journal may have been written, which says that the execution is running."""
        self._runs: dict[str, str] = {}
        """For a batch: a description of what each run copies."""
        self.phases: Phases | None = None
        """For a batch: the time by phase."""
        self._id = execution_id
        self._degree = self._highest = degree
        self._kind_of = kind_of
        self._clock = clock
        self._started = clock()
        self._started_at = now()
        self._series = Series()
        self._open: dict[tuple[str, str, int], tuple[float, Moved | None]] = {}
        """Attempts at work: the time and content of their last event."""
        self._opened: dict[tuple[str, str, int], float] = {}
        self._partitions: set[tuple[str, str]] = set()
        self._heard = 0.0
        self._first: float | None = None
        self._last = 0.0
        self._last_used: dict[int, float] = {}
        """By number of streams: the last time at which that many were at work."""
        self._attempts = 0
        self._failed = 0
        self._lost_seconds = 0.0
        self._failures: list[FailedAttempt] = []
        self._degrees: list[DegreeChange] = []
        self._waits: dict[str, dict[str, Waited]] = {}
        self._planning = self._comparing = 0.0
        self._steps: dict[str, float] = {}
        self._doing: set[tuple[str, str]] = set()
        self._finishing = self._finishing_since = 0.0
        self._turn, self._turn_from = "", 0.0

    @property
    def says_something(self) -> bool:
        """Whether the journal has anything to report."""
        return bool(self._attempts or self._steps or self._comparing)

    def add(self, event: Event) -> None:
        """Add an event of the execution."""
        self.changed = True
        if self.phases is not None:
            self.phases.add(event)
        at = self._clock() - self._started
        self._allow(at)
        match event:
            case Opened():
                self._open_attempt(at, event)
            case Moved():
                self._move(at, event)
            case Failed():
                self._fail(at, event)
            case DegreeChanged():
                self._degree = event.degree
                self._highest = max(self._highest, event.degree)
                if len(self._degrees) < MOST_CHANGES:
                    self._degrees.append(DegreeChange(round(at, 3), event.degree, event.message))
            case Sampled():
                self._sample(event)
            case Planned():
                self._planning += event.seconds
            case StepChanged():
                self._step(at, event)
            case Verified() | PartitionsChecked():
                self._comparing += event.seconds
            case BatchStarted():
                self._runs = {table.run_id: table.table for table in event.tables}
            case BatchFinished():
                self.status = event.status
            case Finished() if not self._runs:
                self.status = event.status
            case TurnTaken():
                self._turn, self._turn_from = event.what, at
        if isinstance(event, Opened | Waiting | Finished):
            self._turn = ""

    def _allow(self, at: float) -> None:
        """Note how many streams were possible since the last event."""
        if self._open and at > self._heard:
            allowed = max(len(self._open), min(self._degree, len(self._partitions)))
            self._series.spread(self._heard, at, Point(allowed=allowed * (at - self._heard)))
        self._heard = at

    def _open_attempt(self, at: float, event: Opened) -> None:
        key = (event.run_id, event.partition_id, event.attempt)
        self._open[key], self._opened[key] = (at, None), at
        self._partitions.add((event.run_id, event.partition_id))
        self._attempts += 1
        self._first = at if self._first is None else self._first

    def _move(self, at: float, event: Moved) -> None:
        key = (event.run_id, event.partition_id, event.attempt)
        if key not in self._open:
            return
        since, before = self._open[key]
        point = Point(
            event.rows - (before.rows if before else 0),
            event.bytes - (before.bytes if before else 0),
            at - since,
            event.wait_source - (before.wait_source if before else 0.0),
            event.wait_target - (before.wait_target if before else 0.0),
            paced=event.paced - (before.paced if before else 0.0),
        )
        self._series.spread(since, at, point)
        self._open[key] = (at, event)
        if isinstance(event, Committed):
            self._end_attempt(at, key)

    def _fail(self, at: float, event: Failed) -> None:
        key = (event.run_id, event.partition_id, event.attempt)
        if key in self._open:
            since, _ = self._open[key]
            self._lost_seconds += at - self._opened[key]
            self._series.spread(since, at, Point(busy=at - since))
            self._end_attempt(at, key)
        self._failed += 1
        if len(self._failures) < MOST_CHANGES:
            error = event.error
            self._failures.append(
                FailedAttempt(
                    round(at, 3),
                    self._named(event.run_id, event.partition_id),
                    event.attempt,
                    str(error.get("error", "")),
                    str(error.get("code") or ""),
                    str(error.get("side") or ""),
                    bool(error.get("transient")),
                )
            )

    def _named(self, run_id: str, partition_id: str) -> str:
        """Return a partition's name, in a batch with its table's."""
        return " ".join(filter(None, (self._runs.get(run_id), partition_id)))

    def _end_attempt(self, at: float, key: tuple[str, str, int]) -> None:
        self._last_used[len(self._open)] = at
        del self._open[key], self._opened[key]
        self._last = at

    def _sample(self, event: Sampled) -> None:
        waits = self._waits.setdefault(event.side, {})
        for name, sessions in event.waits.items():
            before = waits[name].sessions if name in waits else 0
            waits[name] = Waited(before + sessions, self._kind_of(event.side, name))

    def _step(self, at: float, event: StepChanged) -> None:
        step = (event.run_id, event.step_id)
        if event.state == "started":
            self._finishing_since = self._finishing_since if self._doing else at
            self._doing.add(step)
        elif event.state in ("done", "failed") and step in self._doing:
            self._doing.remove(step)
            if not self._doing:
                self._finishing += at - self._finishing_since
        if event.state == "done" and len(self._steps) < MOST_CHANGES:
            self._steps[event.step] = self._steps.get(event.step, 0.0) + event.seconds

    def _tail(self, ended: float) -> tuple[float, float]:
        """Return the seconds of the tail, and the summed seconds of its idle streams.

        In the tail, fewer streams are at work than allowed.
        """
        allowed = min(self._degree, len(self._partitions))
        start = self._first or 0.0
        idle = [
            ended - self._last_used.get(n, start) for n in range(len(self._open) + 1, allowed + 1)
        ]
        return (idle[-1], sum(idle)) if idle else (0.0, 0.0)

    def journal(self, status: str) -> Journal:
        """Return the journal so far, with a status."""
        self.changed, self.is_written = False, True
        at = self._clock() - self._started
        ended = at if self._open else self._last
        tail, idle = self._tail(ended)
        opened = {self._named(run, name): at for (run, name, _), at in self._opened.items()}
        return Journal(
            execution_id=self._id,
            started_at=self._started_at,
            written_at=now(),
            status=status,
            degree=self._highest,
            seconds=round(at, 3),
            width=self._series.width,
            points=self._series.points,
            attempts=self._attempts,
            failed=self._failed,
            lost=round(self._lost_seconds, 3),
            failures=tuple(self._failures),
            degrees=tuple(self._degrees),
            waits={side: dict(waits) for side, waits in self._waits.items()},
            copied_from=round(self._first or 0.0, 3),
            copying=0.0 if self._first is None else round(ended - self._first, 3),
            tail=round(tail, 3),
            idle=round(idle, 3),
            planning=round(self._planning, 3),
            comparing=round(self._comparing, 3),
            steps={name: round(seconds, 3) for name, seconds in self._steps.items()},
            finishing=round(self._finishing, 3),
            runs=tuple(self._runs),
            phases={} if self.phases is None else self.phases.seconds,
            host=socket.gethostname(),
            pid=os.getpid(),
            open=tuple(sorted(opened)),
            opened=tuple(round(opened[name], 3) for name in sorted(opened)),
            turn=self._turn,
            turn_from=round(self._turn_from, 3),
        )
