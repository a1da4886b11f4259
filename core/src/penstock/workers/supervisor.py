"""Runs partitions through N workers, with retries and cancellation, and yields their events."""

from __future__ import annotations

import contextlib
import heapq
import os
import selectors
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from penstock.backends.shared.resources import room
from penstock.errors import (
    LoadLost,
    PenstockError,
    PermanentError,
    SnapshotLost,
    Superseded,
    Taken,
    TooManyConnections,
    WorkerLost,
)
from penstock.events import (
    CONNECTIONS,
    RESOURCES,
    Committed,
    DegreeChanged,
    Event,
    Failed,
    Opened,
    PartitionFailure,
    Progress,
    Retrying,
    from_line,
)
from penstock.model.plans import Partition
from penstock.spec.worker_spec import BROKEN, QUIT, WorkerSpec, group_line, rate_line, request_line
from penstock.workers.backoff import backoff
from penstock.workers.interruptions import raise_again
from penstock.workers.process import Nursery, WorkerProcess
from penstock.workers.sharing import Sharing
from penstock.workers.steering import Steering
from penstock.workers.throttle import RateShares

TICK = 0.5
# While the number of streams changes quickly.
SHORT_TICK = 0.1
# Seconds. Workers report at least once a second; one that is silent for this long was stopped.
SILENCE = 30.0
SHORTEST_SILENCE = 10.0
# How long canceled workers may roll back before they are killed; everything ends within 5 s.
CANCEL_SECONDS = 3.5
STDERR_TAIL = 4000
# An attempt without bytes may be at a partition that another execution has; later it surely waits.
UNSURE_SECONDS = 3.0
# Tables whose rows are committed in one transaction, which locks all of them.
MOST_JOINED = 20
# Rows that crash native code will do so again: one more try is enough.
CRASHES = {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV}


@dataclass(frozen=True, slots=True)
class Work:
    """A partition, and its run."""

    spec: WorkerSpec
    partition: Partition
    attempts: int
    """The maximum number of attempts at the partition, for transient errors."""
    stop_on_error: bool
    """Once a partition fails permanently, start no other partitions of the run."""
    batch: str = ""
    """The batch with whose other tables it may be committed; empty if it may not."""

    @property
    def key(self) -> tuple[str, str]:
        return self.spec.run_id, self.partition.id


@dataclass(slots=True)
class _Assignment:
    work: Work
    attempt: int
    crashed: bool = False
    """Whether the previous attempt crashed its worker."""
    alone: bool = False
    """Whether a group that it was in could not be committed."""
    opened: Opened | None = None
    """The start of the attempt, until it shows that no other execution has the partition."""
    is_taken: bool = False
    """Whether another execution had the partition at the last attempt."""

    @property
    def joins(self) -> bool:
        """Whether it may be in a group."""
        return bool(self.work.batch) and self.attempt == 1 and not self.alone


@dataclass(slots=True, eq=False)
class _Process:
    """A worker process, its assignments, and its incomplete line of output."""

    worker: WorkerProcess
    heard_at: float
    spec: WorkerSpec | None
    """The spec that it uses, as far as is known."""
    assignments: dict[tuple[str, str], _Assignment] = field(default_factory=dict)
    """By run and partition: one, or a group."""
    bytes_moved: int = 0
    """The bytes of all its attempts."""
    attempted: dict[tuple[str, str], int] = field(default_factory=dict)
    """The bytes of its current attempts among these."""
    lines: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)


PARTITION_EVENTS = Opened | Progress | Committed | Failed


def _opened(assignment: _Assignment) -> Iterator[Event]:
    """Yield the start of an attempt that was held back."""
    opened, assignment.opened = assignment.opened, None
    if opened is not None:
        yield opened


class Supervisor:
    """A supervisor that runs the partitions of one or several runs through workers.

    Args:
        nursery: starts workers.
        degree: the maximum number of workers; there may be room for fewer.
        steering: limits how many of them have a partition, and how fast they are; None for no
            limit.
        is_committed: asks the target for the commit record of a run's partition.
        watch: called a few times a second; yields events, or raises to end everything.
        stop_all: once a partition fails permanently, start no others of any run.
        sharing: if other executions take partitions, too; None if this one copies all.

    Raises:
        UsageError: `--max-memory` has no room for one worker.
    """

    def __init__(
        self,
        *,
        nursery: Nursery,
        degree: int,
        is_committed: Callable[[str, str], bool],
        watch: Callable[[], Iterable[Event]],
        stop_all: bool = False,
        steering: Steering | None = None,
        sharing: Sharing | None = None,
    ) -> None:
        self._sharing = sharing
        self._nursery = nursery
        self._room = room(
            degree,
            nursery.worker_memory,
            automatic=steering is not None and steering.automatic,
        )
        self.degree = self._room.workers
        """No more: a server may have no connections for as many as were asked for."""
        self._wanted = degree
        self._steering = steering
        if steering is not None:
            steering.limit(self.degree)
        self._shares = RateShares()
        self._bytes_moved = 0
        self._run_id = ""
        """Of a run whose partitions are copied."""
        self._stop_all = stop_all
        self._is_committed = is_committed
        self._watch = watch
        self._processes: list[_Process] = []
        self._retired: list[_Process] = []
        self._selector = selectors.DefaultSelector()
        self._waiting: deque[_Assignment] = deque()
        self._delayed: list[tuple[float, int, _Assignment]] = []
        self._stopped: set[str] = set()
        self.failures: dict[tuple[str, str], PartitionFailure] = {}
        """By run and partition."""
        self._silence = SILENCE

    def run(self, works: Sequence[Work]) -> Iterator[Event]:
        """Yield events until every partition is done or has failed.

        Failures are in `failures` afterwards. Closing the iterator cancels the workers.

        Raises:
            SnapshotLost, LoadLost: raised after canceling the workers.
        """
        self._waiting.extend(_Assignment(work, 1) for work in self._ordered(works))
        self._leave_poisonous()
        self._run_id = works[0].spec.run_id
        stall = min((work.spec.stall_timeout or SILENCE for work in works), default=SILENCE)
        self._silence = min(SILENCE, max(SHORTEST_SILENCE, stall))
        try:
            # What an automatic degree might have reached is no news.
            if self.degree < self._wanted and not (self._steering and self._steering.automatic):
                yield DegreeChanged(
                    run_id=self._run_id,
                    degree=self.allowed,
                    cause=RESOURCES,
                    message=self._room.why,
                )
            while self._dispatch():
                raise_again()
                yield from self._steer()
                yield from self._listen()
                yield from self._watch()
                yield from self._tell_wait()
            self._dismiss()
        finally:
            self._cancel()
            self._selector.close()

    # Handing out work

    def _ordered(self, works: Sequence[Work]) -> Sequence[Work]:
        """Return the partitions in an order of this execution's own, if others take them, too."""
        if self._sharing is None:
            return works
        large = [work for work in works if not work.batch]
        small = [work for work in works if work.batch]
        by_size = self._sharing.order(large, lambda work: float(work.partition.bytes or 0))
        # Neighbours stay together: they are committed in groups.
        return [*by_size, *self._sharing.turn(small)]

    def _leave_poisonous(self) -> None:
        """Fail the partitions at which too many other executions were lost."""
        if self._sharing is None:
            return
        by_key = {assignment.work.key: assignment.work for assignment in self._waiting}
        tries = {key: (0, work.attempts) for key, work in by_key.items()}
        for key, error in self._sharing.poisonous(tries).items():
            self._fail(by_key[key], 0, error.as_json())
        self._waiting = deque(a for a in self._waiting if a.work.key not in self.failures)

    def _drop_committed(self) -> None:
        """Drop the partitions that other executions have committed, if it is time to look."""
        if self._sharing is None or not (self._waiting or self._delayed):
            return
        committed = self._sharing.look()
        if committed is None:
            return
        self._waiting = deque(a for a in self._waiting if a.work.key not in committed)
        self._delayed = [item for item in self._delayed if item[2].work.key not in committed]
        heapq.heapify(self._delayed)

    def _go_elsewhere(self) -> None:
        """Go on with other partitions than those that follow one which another execution had."""
        if self._sharing is not None:
            left = self._sharing.elsewhere(self._waiting, lambda assignment: assignment.work.key)
            self._waiting = deque(left)

    def _dispatch(self) -> bool:
        """Give idle workers their next partition; return False if there is nothing to wait for."""
        now = time.monotonic()
        while self._delayed and self._delayed[0][0] <= now:
            self._waiting.appendleft(heapq.heappop(self._delayed)[2])
        self._drop_committed()
        if self._stopped:
            self._waiting = deque(a for a in self._waiting if self._may_start(a))
            self._delayed = [item for item in self._delayed if self._may_start(item[2])]
            heapq.heapify(self._delayed)
        busy = len(self._busy())
        while self._waiting and busy < self.allowed and not self._rest:
            process = self._idle_process(self._waiting[0].work.spec)
            if process is None:
                break
            self._assign(process, self._next())
            busy += 1
        return bool(busy or self._waiting or self._delayed)

    def _tell_wait(self) -> Iterator[Event]:
        """Tell whom this execution waits for, if others have all partitions that are left."""
        if self._sharing is None:
            return
        busy = (each for process in self._busy() for each in process.assignments.values())
        delayed = (assignment for _, _, assignment in self._delayed)
        left: list[_Assignment] = []
        for assignment in chain(busy, self._waiting, delayed):
            if not assignment.is_taken:
                left = []
                break
            left.append(assignment)
        yield from self._sharing.tell([assignment.work.key for assignment in left])

    @property
    def _rest(self) -> float:
        """The seconds for which no partition is tried, because other executions have them."""
        return 0.0 if self._sharing is None else self._sharing.rest

    def _next(self) -> list[_Assignment]:
        """Take the next assignment, or a group of small ones, from the queue."""
        taken = [self._waiting.popleft()]
        first = taken[0]
        if not first.joins:
            if self._sharing is not None:
                self._wait_if_overdue(first)
            return taken
        # Groups become smaller towards the end, so that all workers finish together.
        most = min(MOST_JOINED, len(self._waiting) // (2 * self.allowed) + 1)
        tables = {first.work.spec.target_table}
        while len(taken) < most and self._waiting:
            following = self._waiting[0]
            if (
                not following.joins
                or following.work.batch != first.work.batch
                or following.work.spec.target_table in tables
            ):
                break
            tables.add(following.work.spec.target_table)
            taken.append(self._waiting.popleft())
        return taken

    def _wait_if_overdue(self, assignment: _Assignment) -> None:
        """Have the next attempt wait for another execution's, if that goes on for very long.

        Only if nothing else is left to do, and for one partition at a time.
        """
        assert self._sharing is not None
        work = assignment.work
        leaves = work.spec.leaves_taken
        waits = (
            assignment.is_taken
            and all(other.is_taken for other in self._waiting)
            and all(
                each.work.spec.leaves_taken
                for process in self._busy()
                for each in process.assignments.values()
            )
            and self._sharing.is_overdue(work.key, work.spec.grace)
        )
        if waits:
            self._sharing.wait_again(work.key)
        if leaves is waits:
            assignment.work = replace(work, spec=replace(work.spec, leaves_taken=not waits))

    @property
    def allowed(self) -> int:
        """The number of workers that may have a partition; any above it finish theirs, and idle."""
        return min(self.degree, self._steering.allowed) if self._steering else self.degree

    def _busy(self) -> list[_Process]:
        return [process for process in self._processes if process.assignments]

    def _steer(self) -> Iterator[Event]:
        if self._steering is None:
            return
        now, busy = time.monotonic(), self._busy()
        for change in self._steering.look(now, self._bytes_moved, len(busy)):
            yield DegreeChanged(
                run_id=self._run_id,
                degree=min(self.degree, change.degree),
                cause=change.cause,
                message=change.message,
            )
        rate = self._steering.rate(len(busy))
        bytes_moved = {process.worker.pid: process.bytes_moved for process in busy}
        rates = self._shares.changes(now, rate, bytes_moved)
        for process in busy:
            if process.worker.pid in rates:
                self._say(process, rate_line(rates[process.worker.pid]))

    def _may_retry(self, assignment: _Assignment, error: Mapping[str, Any]) -> bool:
        # An attempt of an older generation is refused every time.
        return error["error"] != Superseded.__name__ and self._may_start(assignment)

    def _may_start(self, assignment: _Assignment) -> bool:
        return not self._stopped or not (
            self._stop_all or assignment.work.spec.run_id in self._stopped
        )

    def _idle_process(self, spec: WorkerSpec) -> _Process | None:
        for process in self._processes:
            if not process.assignments:
                return process
        if len(self._processes) < self.degree:
            return self._start(spec)
        return None

    def _start(self, spec: WorkerSpec) -> _Process:
        process = _Process(self._nursery.start(), time.monotonic(), spec)
        self._processes.append(process)
        self._shares.forget(process.worker.pid)  # the kernel may reuse the id of an earlier worker
        for stream in (process.worker.stdout, process.worker.stderr):
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ, process)
        self._say(process, replace(spec, memory=self._room.memory).to_line())
        return process

    def _assign(self, process: _Process, assignments: Sequence[_Assignment]) -> None:
        process.assignments = {each.work.key: each for each in assignments}
        process.attempted = {}
        process.heard_at = time.monotonic()
        assignment = assignments[-1]
        work = assignment.work
        if len(assignments) > 1:
            process.spec = None
            members = [(each.work.spec, each.work.partition, each.attempt) for each in assignments]
            self._say(process, group_line(members))
            return
        other_spec = None if process.spec is work.spec else work.spec
        process.spec = work.spec
        self._say(process, request_line(work.partition, assignment.attempt, other_spec))

    @staticmethod
    def _say(process: _Process, line: str) -> None:
        # The end of its stdout shows that a worker is dead.
        with contextlib.suppress(BrokenPipeError):
            process.worker.stdin.write(line.encode() + b"\n")
            process.worker.stdin.flush()

    # Listening

    def _listen(self) -> Iterator[Event]:
        timeout = SHORT_TICK if self._steering and self._steering.begins else TICK
        if self._delayed:
            timeout = min(timeout, max(0.0, self._delayed[0][0] - time.monotonic()))
        if rest := self._rest:
            timeout = min(timeout, rest)
        before = time.monotonic()
        ready = self._selector.select(timeout)
        now = time.monotonic()
        if now - before > TICK + 1:
            # This process was stopped, not the workers.
            for process in self._processes:
                process.heard_at = now
        for key, _ in ready:
            speaker: _Process = key.data
            if key.fileobj is speaker.worker.stdout:
                yield from self._hear(speaker)
            else:
                self._hear_stderr(speaker)
        for process in list(self._processes):
            if process.assignments and now - process.heard_at > self._silence:
                process.worker.signal(signal.SIGKILL)
                process.stderr += f"silent for {self._silence:g} s: stopped?".encode()
                process.heard_at = now

    def _hear(self, process: _Process) -> Iterator[Event]:
        while True:
            try:
                data = os.read(process.worker.stdout.fileno(), 1 << 16)
            except BlockingIOError:
                return
            if not data:
                yield from self._bury(process)
                return
            process.heard_at = time.monotonic()
            process.lines += data
            *lines, rest = process.lines.split(b"\n")
            process.lines = bytearray(rest)
            for line in lines:
                if line == BROKEN.encode():
                    self._split(process)
                else:
                    yield from self._handle(process, from_line(bytes(line)))

    def _split(self, process: _Process) -> None:
        """Have the partitions of a group copied one by one."""
        members = list(process.assignments.values())
        for assignment in members:
            assignment.alone, assignment.opened = True, None
        if self._sharing is None:
            self._waiting.extendleft(reversed(members))
        else:
            self._sharing.note_missed()  # most likely another execution has some of them
            self._go_elsewhere()
            self._waiting.extend(members)
        process.assignments = {}

    @staticmethod
    def _hear_stderr(process: _Process) -> None:
        with contextlib.suppress(BlockingIOError):
            process.stderr += os.read(process.worker.stderr.fileno(), 1 << 16)
            del process.stderr[:-STDERR_TAIL]

    def _handle(self, process: _Process, event: Event) -> Iterator[Event]:
        if isinstance(event, Progress | Committed):
            key = event.run_id, event.partition_id
            more = max(0, event.bytes - process.attempted.get(key, 0))
            process.attempted[key] = event.bytes
            process.bytes_moved += more
            self._bytes_moved += more
        if self._sharing is not None and isinstance(event, PARTITION_EVENTS):
            assignment = process.assignments.get((event.run_id, event.partition_id))
            if assignment is not None:
                if self._is_held_back(process, assignment, event):
                    return
                yield from _opened(assignment)
        if isinstance(event, Opened):
            yield event
        elif isinstance(event, Committed):
            process.assignments.pop((event.run_id, event.partition_id), None)
            yield event
        elif isinstance(event, Failed):
            assignment = process.assignments.pop((event.run_id, event.partition_id), None)
            yield event
            if assignment is not None:
                assignment.crashed = False
                yield from self._after_failure(process, assignment, event.error)
        else:
            yield event

    def _is_held_back(self, process: _Process, assignment: _Assignment, event: Event) -> bool:
        """Whether an event is not news: others have the partition, or may turn out to have it."""
        assert self._sharing is not None
        if isinstance(event, Opened):
            assignment.opened = event
            return True
        if isinstance(event, Progress) and not event.bytes and event.seconds < UNSURE_SECONDS:
            return True  # it may still turn out to be taken
        if isinstance(event, Failed) and event.error["error"] == Taken.__name__:
            assignment.opened, assignment.is_taken = None, True
            del process.assignments[assignment.work.key]
            self._sharing.note_taken(assignment.work.key)
            self._go_elsewhere()
            self._waiting.append(assignment)
            return True
        if isinstance(event, Committed) and event.already:
            assignment.opened = None
            self._sharing.note_missed()
            self._go_elsewhere()
        elif isinstance(event, Failed) and event.error["error"] == TooManyConnections.__name__:
            assignment.is_taken = False
        else:
            assignment.is_taken = False
            self._sharing.note_moved()
        return False

    def _bury(self, process: _Process) -> Iterator[Event]:
        """Handle the end of a worker.

        If it left attempts open, report how those ended.
        """
        self._forget(process)
        code = process.worker.wait(CANCEL_SECONDS)
        assignments, process.assignments = process.assignments, {}
        for assignment in assignments.values():
            yield from _opened(assignment)
            yield from self._after_loss(process, assignment, code)

    def _after_loss(
        self, process: _Process, assignment: _Assignment, code: int | None
    ) -> Iterator[Event]:
        work, attempt = assignment.work, assignment.attempt
        ids: dict[str, Any] = {
            "run_id": work.spec.run_id,
            "partition_id": work.partition.id,
            "attempt": attempt,
            "pid": process.worker.pid,
        }
        if self._is_committed(*work.key):
            yield Committed(
                **ids, rows=0, bytes=0, seconds=0, wait_source=0, wait_target=0, already=True
            )
            return
        output = process.stderr.decode(errors="replace").strip()
        ending, crashed = f"exit code {code}", False
        if code is not None and code < 0:
            ending = f"killed by {signal.Signals(-code).name}"
            crashed = -code in CRASHES
        message = f"worker {process.worker.pid} was lost ({ending})"
        message += f": {output}" if output else ""
        error: PenstockError = WorkerLost(message)
        if crashed and assignment.crashed:
            error = PermanentError(f"{message}; the previous attempt ended the same way")
        elif self._sharing is not None:
            tries = {work.key: (attempt, work.attempts)}
            error = self._sharing.poisonous(tries).get(work.key, error)
        failed = Failed(**ids, error=error.as_json())
        yield failed
        assignment.crashed = crashed
        yield from self._after_failure(process, assignment, failed.error)

    def _after_failure(
        self, process: _Process, assignment: _Assignment, error: Mapping[str, Any]
    ) -> Iterator[Event]:
        work, attempt = assignment.work, assignment.attempt
        # Without a snapshot, only this partition cannot be read as planned.
        if error["error"] == SnapshotLost.__name__ and work.spec.snapshot is not None:
            raise SnapshotLost(str(error["message"]))
        if error["error"] == LoadLost.__name__:
            raise LoadLost(str(error["message"]))
        if error["error"] == TooManyConnections.__name__ and len(self._processes) > 1:
            self.degree = max(1, min(self.degree, len(self._processes)) - 1)
            if self._steering is not None:
                self._steering.limit(self.degree)
            self._say(process, QUIT)
            self._forget(process)
            self._delay(assignment, backoff(1))
            yield DegreeChanged(
                run_id=work.spec.run_id,
                degree=self.allowed,
                cause=CONNECTIONS,
                message=str(error["message"]),
            )
        elif (
            error["error"] == TooManyConnections.__name__
            and self._sharing is not None
            and self._sharing.wait_for_room()
        ):
            self._waiting.append(assignment)
        elif error["transient"] and attempt < work.attempts and self._may_retry(assignment, error):
            delay = backoff(attempt)
            following = _Assignment(work, attempt + 1, assignment.crashed)
            self._delay(following, delay)
            yield Retrying(
                run_id=work.spec.run_id,
                partition_id=work.partition.id,
                attempt=attempt + 1,
                delay=round(delay, 2),
            )
        else:
            self._fail(work, attempt, error)

    def _fail(self, work: Work, attempts: int, error: Mapping[str, Any]) -> None:
        self.failures[work.key] = PartitionFailure(
            partition_id=work.partition.id,
            label=str(work.partition.extent),
            attempts=attempts,
            error=error,
        )
        if work.stop_on_error or self._stop_all:
            self._stopped.add(work.spec.run_id)

    def _delay(self, assignment: _Assignment, seconds: float) -> None:
        heapq.heappush(self._delayed, (time.monotonic() + seconds, id(assignment), assignment))

    # Ending

    def _forget(self, process: _Process) -> None:
        """Remove a worker from the list, because it is ending or has ended."""
        if process in self._processes:
            self._processes.remove(process)
            self._retired.append(process)
        for stream in (process.worker.stdout, process.worker.stderr):
            if stream.fileno() in self._selector.get_map():
                self._selector.unregister(stream)

    def _dismiss(self) -> None:
        """Let idle workers end by themselves."""
        for process in self._processes:
            self._say(process, QUIT)
        deadline = time.monotonic() + CANCEL_SECONDS
        for process in self._processes:
            process.worker.wait(max(0.1, deadline - time.monotonic()))

    def _cancel(self) -> None:
        """End all workers: they roll back, or are killed.

        Leaves no process and no pipe behind.
        """
        for process in list(self._processes):
            process.worker.signal(signal.SIGTERM)
            self._forget(process)
        deadline = time.monotonic() + CANCEL_SECONDS
        for process in self._retired:
            if process.worker.wait(max(0.1, deadline - time.monotonic())) is None:
                process.worker.signal(signal.SIGKILL)
                process.worker.wait(1.0)
            process.worker.close()
