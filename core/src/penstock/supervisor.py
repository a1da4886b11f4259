"""N workers, retries, cancellation: events out, partitions in."""

from __future__ import annotations

import contextlib
import fnmatch
import heapq
import os
import selectors
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tenacity import RetryCallState, wait_exponential, wait_random
from tenacity.wait import wait_base

from penstock.errors import SnapshotLost, TooManyConnections, WorkerLost
from penstock.events import (
    Committed,
    DegreeLowered,
    Event,
    Failed,
    Opened,
    PartitionFailure,
    Retrying,
    from_line,
)
from penstock.model import Partition
from penstock.spec import QUIT, WorkerSpec, request_line
from penstock.worker_process import Nursery, WorkerProcess

TICK = 0.5
# A worker shows every second that it lives; one that does not for so long was stopped.
SILENCE = 30.0
SHORTEST_SILENCE = 10.0
# Cancelled workers get so long to roll back before they are killed; all ends within 5 s.
CANCEL_SECONDS = 3.5
STDERR_TAIL = 4000
# What any Python program needs; what the driver needs is the backend's to say.
ENVIRONMENT = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_*", "TZ", "TMPDIR", "LD_LIBRARY_PATH",
    "PYTHON*", "VIRTUAL_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip

BACKOFF: wait_base = wait_exponential(multiplier=0.5, max=30) + wait_random(0, 0.5)


def worker_environment(
    environ: Mapping[str, str], patterns: Iterable[str], secrets: Iterable[str]
) -> dict[str, str]:
    """The environment of a worker: what it needs by name, and nothing that holds a secret.

    Parameters:
        secrets: URLs and passwords; a variable that holds one is left out whatever its name.
    """
    allowed = (*ENVIRONMENT, *patterns)
    hidden = tuple(secret for secret in secrets if secret)
    return {
        name: value
        for name, value in environ.items()
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in allowed)
        and not any(secret in value for secret in hidden)
    }


def available_cpus() -> int:
    """CPUs that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def backoff(attempt: int) -> float:
    """Seconds before the attempt that follows this one."""
    state = RetryCallState(None, None, (), {})  # type: ignore[arg-type] # only the number counts
    state.attempt_number = attempt
    return float(BACKOFF(state))


@dataclass(slots=True)
class _Assignment:
    partition: Partition
    attempt: int


@dataclass(slots=True, eq=False)
class _Process:
    """A worker process, what it does, and what it said but not to the end of a line."""

    worker: WorkerProcess
    seen: float
    assignment: _Assignment | None = None
    lines: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)


class Supervisor:
    """Runs partitions through workers.

    Parameters:
        spec: handed to every worker.
        nursery: starts workers.
        degree: workers at once.
        attempts: for each partition, when errors are transient.
        stop_on_error: after a partition has failed for good, start no others.
        is_committed: asks the target for a partition's commit record.
        watch: called a few times a second; yields events, raises to end the run.
    """

    def __init__(
        self,
        spec: WorkerSpec,
        *,
        nursery: Nursery,
        degree: int,
        attempts: int,
        stop_on_error: bool,
        is_committed: Callable[[str], bool],
        watch: Callable[[], Iterable[Event]],
    ) -> None:
        self._spec = spec
        self._nursery = nursery
        self.degree = degree
        self._attempts = attempts
        self._stop_on_error = stop_on_error
        self._is_committed = is_committed
        self._watch = watch
        self._processes: list[_Process] = []
        self._retired: list[_Process] = []
        self._selector = selectors.DefaultSelector()
        self._waiting: deque[_Assignment] = deque()
        self._delayed: list[tuple[float, int, _Assignment]] = []
        self._stopping = False
        self.failures: dict[str, PartitionFailure] = {}
        stall = spec.stall_timeout or SILENCE
        self._silence = min(SILENCE, max(SHORTEST_SILENCE, stall))

    def run(self, partitions: Iterable[Partition]) -> Iterator[Event]:
        """Yield the workers' events and ours until every partition is done or has failed.

        Failures are in `failures` afterwards. Closing the iterator cancels the workers.

        Raises:
            SnapshotLost: the workers are cancelled then.
        """
        self._waiting.extend(_Assignment(partition, 1) for partition in partitions)
        try:
            while self._dispatch():
                yield from self._listen()
                yield from self._watch()
            self._dismiss()
        finally:
            self._cancel()
            self._selector.close()

    # Handing out work

    def _dispatch(self) -> bool:
        """Give idle workers their next partition; False when there is nothing left to wait for."""
        now = time.monotonic()
        while self._delayed and self._delayed[0][0] <= now:
            self._waiting.appendleft(heapq.heappop(self._delayed)[2])
        if self._stopping:
            self._waiting.clear()
            self._delayed.clear()
        while self._waiting:
            process = self._idle_process()
            if process is None:
                break
            self._assign(process, self._waiting.popleft())
        busy = any(process.assignment for process in self._processes)
        return busy or bool(self._waiting or self._delayed)

    def _idle_process(self) -> _Process | None:
        for process in self._processes:
            if process.assignment is None:
                return process
        if len(self._processes) < self.degree:
            return self._start()
        return None

    def _start(self) -> _Process:
        process = _Process(self._nursery.start(), time.monotonic())
        self._processes.append(process)
        for stream in (process.worker.stdout, process.worker.stderr):
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ, process)
        self._say(process, self._spec.to_line())
        return process

    def _assign(self, process: _Process, assignment: _Assignment) -> None:
        process.assignment = assignment
        process.seen = time.monotonic()
        self._say(process, request_line(assignment.partition, assignment.attempt))

    @staticmethod
    def _say(process: _Process, line: str) -> None:
        # A worker that is gone is noticed at the end of its stdout.
        with contextlib.suppress(BrokenPipeError):
            process.worker.stdin.write(line.encode() + b"\n")
            process.worker.stdin.flush()

    # Listening

    def _listen(self) -> Iterator[Event]:
        timeout = TICK
        if self._delayed:
            timeout = min(timeout, max(0.0, self._delayed[0][0] - time.monotonic()))
        before = time.monotonic()
        ready = self._selector.select(timeout)
        now = time.monotonic()
        if now - before > TICK + 1:
            # We were stopped, not they.
            for process in self._processes:
                process.seen = now
        for key, _ in ready:
            speaker: _Process = key.data
            if key.fileobj is speaker.worker.stdout:
                yield from self._hear(speaker)
            else:
                self._hear_stderr(speaker)
        for process in list(self._processes):
            if process.assignment and now - process.seen > self._silence:
                process.worker.signal(signal.SIGKILL)
                process.stderr += b"silent: stopped?"
                process.seen = now

    def _hear(self, process: _Process) -> Iterator[Event]:
        while True:
            try:
                data = os.read(process.worker.stdout.fileno(), 1 << 16)
            except BlockingIOError:
                return
            if not data:
                yield from self._bury(process)
                return
            process.seen = time.monotonic()
            process.lines += data
            *lines, rest = process.lines.split(b"\n")
            process.lines = bytearray(rest)
            for line in lines:
                yield from self._handle(process, from_line(bytes(line)))

    @staticmethod
    def _hear_stderr(process: _Process) -> None:
        with contextlib.suppress(BlockingIOError):
            process.stderr += os.read(process.worker.stderr.fileno(), 1 << 16)
            del process.stderr[:-STDERR_TAIL]

    def _handle(self, process: _Process, event: Event) -> Iterator[Event]:
        if isinstance(event, Opened):
            yield event
        elif isinstance(event, Committed):
            process.assignment = None
            yield event
        elif isinstance(event, Failed):
            assignment, process.assignment = process.assignment, None
            yield event
            if assignment is not None:
                yield from self._after_failure(process, assignment, event.error)
        else:
            yield event

    def _bury(self, process: _Process) -> Iterator[Event]:
        """A worker has ended. If it left an attempt open, say how that ended."""
        self._forget(process)
        code = process.worker.wait(CANCEL_SECONDS)
        assignment = process.assignment
        if assignment is None:
            return
        process.assignment = None
        partition, attempt = assignment.partition, assignment.attempt
        ids: dict[str, Any] = {
            "run_id": self._spec.run_id,
            "partition_id": partition.id,
            "attempt": attempt,
            "pid": process.worker.pid,
        }
        if self._is_committed(partition.id):
            yield Committed(
                **ids, rows=0, bytes=0, seconds=0, wait_source=0, wait_target=0, already=True
            )
            return
        said = process.stderr.decode(errors="replace").strip()
        ending = f"exit code {code}"
        if code is not None and code < 0:
            ending = f"killed by {signal.Signals(-code).name}"
        error = WorkerLost(
            f"worker {process.worker.pid} was lost ({ending})" + (f": {said}" if said else "")
        )
        failed = Failed(**ids, error=error.as_json())
        yield failed
        yield from self._after_failure(process, assignment, failed.error)

    def _after_failure(
        self, process: _Process, assignment: _Assignment, error: Mapping[str, Any]
    ) -> Iterator[Event]:
        partition, attempt = assignment.partition, assignment.attempt
        if error["error"] == SnapshotLost.__name__:
            raise SnapshotLost(str(error["message"]))
        if error["error"] == TooManyConnections.__name__ and len(self._processes) > 1:
            self.degree = max(1, min(self.degree, len(self._processes)) - 1)
            self._say(process, QUIT)
            self._forget(process)
            self._delay(assignment, backoff(1))
            yield DegreeLowered(
                run_id=self._spec.run_id, degree=self.degree, message=str(error["message"])
            )
        elif error["transient"] and attempt < self._attempts and not self._stopping:
            delay = backoff(attempt)
            following = _Assignment(partition, attempt + 1)
            self._delay(following, delay)
            yield Retrying(
                run_id=self._spec.run_id,
                partition_id=partition.id,
                attempt=attempt + 1,
                delay=round(delay, 2),
            )
        else:
            self.failures[partition.id] = PartitionFailure(
                partition_id=partition.id,
                label=str(partition.extent),
                attempts=attempt,
                error=error,
            )
            self._stopping = self._stop_on_error

    def _delay(self, assignment: _Assignment, seconds: float) -> None:
        heapq.heappush(self._delayed, (time.monotonic() + seconds, id(assignment), assignment))

    # Ending

    def _forget(self, process: _Process) -> None:
        """Take a worker off the list; it is ending, or has ended."""
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
        """End all workers: they roll back, or are killed. Leaves no process and no pipe."""
        for process in list(self._processes):
            process.worker.signal(signal.SIGTERM)
            self._forget(process)
        deadline = time.monotonic() + CANCEL_SECONDS
        for process in self._retired:
            if process.worker.wait(max(0.1, deadline - time.monotonic())) is None:
                process.worker.signal(signal.SIGKILL)
                process.worker.wait(1.0)
            process.worker.close()
