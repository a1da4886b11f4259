"""`python -m penstock.workers.worker`: partitions from stdin, events on stdout.

The first line on stdin is a `WorkerSpec`; each further one is a partition with its attempt, a new
rate limit, or a request to quit. stdin stays open: at its end the parent is gone, so the worker
cancels what it is doing and exits. Every attempt ends with exactly one terminal event.

The worker reports progress twice a second as long as its main thread answers signals. A main thread
that does not answer for the stall timeout is stuck in native code; the worker then falls silent,
and its supervisor kills it. Long waits are fine: a thread that waits for a server, another thread
or a lock does answer.

Exit codes: 0 asked to quit, 130 canceled, 70 a bug; see `penstock.errors`.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, cast

from penstock.backends.api.registry import load_backend
from penstock.backends.api.worker import ConnectsAhead, LoadResult, Reader, Writer
from penstock.backends.shared import resources
from penstock.errors import EXIT_BUG, EXIT_DONE, EXIT_INTERRUPTED, Interrupted, PenstockError, Taken
from penstock.events import Committed, Event, Failed, Opened, Progress
from penstock.model import values
from penstock.model.codec import from_json
from penstock.model.plans import Partition
from penstock.spec.worker_spec import BROKEN, WorkerSpec
from penstock.workers.interruptions import (
    cause_of,
    expect_dropped_calls,
    interrupt,
    is_deferred,
)
from penstock.workers.pace import Pace
from penstock.workers.stream import Meter, Waiter, relay

if TYPE_CHECKING:
    from penstock.backends.api.worker import JoiningWriter

PROGRESS_INTERVAL = 0.5
# After this many intervals without progress, signal the main thread to see whether it answers.
QUIET_INTERVALS = 4
# A main thread that does not answer signals for the stall timeout is stuck. These values apply if
# the timeout is shorter, or off. No single library call takes this long; a name lookup, for
# instance, does not.
SHORTEST_STUCK, USUAL_STUCK = 10.0, 600.0
# A worker whose parent is gone exits within this many seconds, whatever it is doing.
ORPHAN_SECONDS = 4.0


class Worker:
    """The loop of a worker process, which copies one partition after another."""

    def __init__(self, spec: WorkerSpec, out: int) -> None:
        self._spec = spec
        self._out = out
        self._emitting = threading.Lock()
        self._requests: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._current: tuple[Partition, int, Meter] | None = None
        self._pace = Pace()
        self._cancelled = False
        self._shielded = False
        values.choose_for_process(spec.show_values)
        resources.set_share(spec.memory)
        self._quiet = 0
        """Intervals since the main thread last answered, or moved rows."""
        self._reader: Reader = load_backend(spec.source_backend).reader(spec)
        self._writer: Writer = load_backend(spec.target_backend).writer(spec)

    def run(self, requests: BinaryIO) -> int:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the supervisor's to handle
        signal.signal(signal.SIGTERM, self._on_cancel)
        signal.signal(signal.SIGUSR1, self._on_probe)
        threading.Thread(target=self._watch, args=(requests,), daemon=True).start()
        threading.Thread(target=self._report_progress, daemon=True).start()
        try:
            while (line := self._requests.get()) is not None:
                raw = json.loads(line)
                if "group" in raw:
                    self._copy_group(raw["group"])
                    continue
                if "spec" in raw:
                    self._switch_run(from_json(WorkerSpec, raw["spec"]))
                self._attempt(from_json(Partition, raw["partition"]), raw["attempt"])
        except Interrupted:
            return EXIT_INTERRUPTED
        finally:
            self._shielded = True
            self._abandon()
        return EXIT_DONE

    def _switch_run(self, spec: WorkerSpec) -> None:
        self._switch_reader(spec)
        self._writer.switch_run(spec)

    def _switch_reader(self, spec: WorkerSpec) -> None:
        self._spec = spec
        values.choose_for_process(spec.show_values)
        self._reader.switch_run(spec)

    def _watch(self, requests: BinaryIO) -> None:
        for line in requests:
            request = json.loads(line)
            if request.get("quit"):
                self._requests.put(None)
                return
            if "rate" in request:
                self._pace.set(request["rate"])
            else:
                self._requests.put(line.decode())
        # The signal interrupts the main thread wherever it waits; if it is stuck even so, the exit
        # closes the sockets, which the servers notice.
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(ORPHAN_SECONDS)
        os._exit(EXIT_INTERRUPTED)

    def _on_cancel(self, signum: int, frame: FrameType | None) -> None:
        self._cancelled = True
        if not self._shielded and not is_deferred(signum, frame):
            self._shielded = True
            expect_dropped_calls()
            interrupt("cancelled")

    def _on_probe(self, signum: int, frame: FrameType | None) -> None:
        self._quiet = 0

    def _lower_shield(self) -> None:
        self._shielded = False
        if self._cancelled:
            raise Interrupted("cancelled")

    def _open(self, partition: Partition, attempt: int) -> Meter:
        """Report the start of an attempt, and its progress from now on."""
        meter = Meter()
        self._emit(Opened(**self._ids(partition, attempt), label=str(partition.extent)))
        self._quiet = 0
        self._pace.begin()
        self._current = (partition, attempt, meter)
        return meter

    def _attempt(self, partition: Partition, attempt: int) -> None:
        ids = self._ids(partition, attempt)
        meter = self._open(partition, attempt)
        try:
            loaded = self._move(partition, attempt, meter)
        except Taken as error:
            # Nothing has begun: both sessions stay for the next partition.
            self._end_attempt()
            self._emit(Failed(**ids, error=error.as_json()))
        except BaseException as found:
            self._shielded = True
            self._end_attempt()  # silent from here on: cleanup is either quick or stuck
            self._abandon()
            cause = cause_of(found)
            content = cause.as_json() if isinstance(cause, PenstockError) else _bug(cause)
            self._emit(Failed(**ids, error=content))
            if cause is not found:
                raise cause from None
            if not isinstance(cause, PenstockError) or isinstance(cause, Interrupted):
                raise
        else:
            self._end_attempt()
            self._emit(
                Committed(
                    **self._progress_fields(partition, attempt, meter),
                    already=loaded is None,
                    inserted=loaded.inserted if loaded else None,
                    updated=loaded.updated if loaded else None,
                )
            )
        self._lower_shield()

    def _copy_group(self, raw: Sequence[Mapping[str, Any]]) -> None:
        """Copy partitions of several runs in one transaction, or else leave them as they are.

        Whatever prevents it is found again, and reported, by an attempt at one of them alone.
        """
        members = [
            (
                from_json(WorkerSpec, member["spec"]),
                from_json(Partition, member["partition"]),
                int(member["attempt"]),
            )
            for member in raw
        ]
        try:
            committed = self._move_group(members)
        except Interrupted:
            raise
        except Exception:
            committed = ()
            self._shielded = True
            self._end_attempt()
            self._abandon()
        self._end_attempt()
        if not committed:
            self._say(BROKEN)
        for event in committed:
            self._emit(event)
        self._lower_shield()

    def _move_group(
        self, members: Sequence[tuple[WorkerSpec, Partition, int]]
    ) -> Sequence[Committed]:
        writer: JoiningWriter = cast("JoiningWriter", self._writer)
        spec, partition, attempt = members[0]
        self._switch_reader(spec)
        self._reader.label(f"penstock:{spec.run_id}:{partition.id}:{attempt}")
        if isinstance(self._reader, ConnectsAhead):
            self._reader.connect_ahead(partition)
        waiter = Waiter(Meter(), self._spec.stall_timeout)
        if not writer.begin_group(members, waiter):
            return ()
        results: list[tuple[LoadResult, int]] = []
        committed = []
        for number, (spec, partition, attempt) in enumerate(members):
            self._switch_reader(spec)
            meter = self._open(partition, attempt)
            waiter = Waiter(meter, spec.stall_timeout)
            self._reader.label(f"penstock:{spec.run_id}:{partition.id}:{attempt}")
            writer.enter(number, waiter)
            loaded = relay(self._reader, writer, partition, waiter, meter, self._pace)
            meter.rows = loaded.rows
            loaded = replace(loaded, spent=meter.spent(self._pace.paused))
            results.append((loaded, meter.bytes))
            committed.append(Committed(**self._progress_fields(partition, attempt, meter)))
        self._shielded = True
        writer.commit_group(results, waiter)
        return committed

    def _move(self, partition: Partition, attempt: int, meter: Meter) -> LoadResult | None:
        """Move and commit one partition; return None if an earlier attempt has committed it.

        From the commit on, a cancellation waits until the outcome is known and reported. `_attempt`
        lowers the shield.
        """
        waiter = Waiter(meter, self._spec.stall_timeout)
        self._reader.label(f"penstock:{self._spec.run_id}:{partition.id}:{attempt}")
        if isinstance(self._reader, ConnectsAhead):
            self._reader.connect_ahead(partition)
        if not self._writer.begin(partition, attempt, waiter):
            return None
        loaded = relay(self._reader, self._writer, partition, waiter, meter, self._pace)
        meter.rows = loaded.rows
        self._shielded = True
        loaded = replace(loaded, spent=meter.spent(self._pace.paused))
        self._writer.commit(loaded, meter.bytes, waiter)
        return loaded

    def _abandon(self) -> None:
        """Roll back and disconnect both sides in parallel: each may take a moment to cancel."""
        thread = threading.Thread(target=self._reader.abandon)
        thread.start()
        self._writer.abandon()
        thread.join()

    def _end_attempt(self) -> None:
        """Stop reporting progress."""
        with self._emitting:
            self._current = None

    def _report_progress(self) -> None:
        # In a separate thread: the stream never checks the clock, and a worker still reports while
        # it waits for a long statement.
        main = threading.main_thread().ident
        assert main is not None
        pause = threading.Event()
        state: tuple[object, ...] = ()
        while not pause.wait(PROGRESS_INTERVAL):
            current = self._current
            if current is None:
                continue
            meter = current[2]
            before, state = state, (meter, meter.rows, meter.bytes, *meter.waited.values())
            self._quiet = self._quiet + 1 if state == before else 0
            if self._quiet > QUIET_INTERVALS:
                signal.pthread_kill(main, signal.SIGUSR1)
            stuck = max(SHORTEST_STUCK, self._spec.stall_timeout or USUAL_STUCK)
            if self._quiet * PROGRESS_INTERVAL < stuck:
                self._emit(Progress(**self._progress_fields(*current)), of=current)
            elif (self._quiet - 1) * PROGRESS_INTERVAL < stuck:
                frame = sys._current_frames()[main]
                where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                print(f"stuck for {stuck:g} s at {where}", file=sys.stderr, flush=True)

    def _ids(self, partition: Partition, attempt: int) -> dict[str, Any]:
        return {
            "run_id": self._spec.run_id,
            "partition_id": partition.id,
            "attempt": attempt,
            "pid": os.getpid(),
        }

    def _progress_fields(self, partition: Partition, attempt: int, meter: Meter) -> dict[str, Any]:
        waits = meter.waits()
        return {
            **self._ids(partition, attempt),
            "rows": meter.rows,
            "bytes": meter.bytes,
            "seconds": round(meter.seconds(), 3),
            "wait_source": round(waits["source"], 3),
            "wait_target": round(waits["target"], 3),
            "paced": round(self._pace.paused, 3),
        }

    def _emit(self, event: Event, of: tuple[Partition, int, Meter] | None = None) -> None:
        """Emit an event.

        Args:
            event: the event.
            of: emit only if this is still the current attempt.
        """
        self._say(event.to_line(), of)

    def _say(self, text: str, of: tuple[Partition, int, Meter] | None = None) -> None:
        line = text.encode() + b"\n"
        with self._emitting, contextlib.suppress(BrokenPipeError):
            if of is not None and self._current is not of:
                return
            # A broken pipe means that the parent is gone; the end of stdin handles that.
            while line:
                line = line[os.write(self._out, line) :]


def _bug(error: BaseException) -> dict[str, object]:
    message = values.server_message(str(error))
    return {
        "error": type(error).__name__,
        "message": f"a bug in Penstock: {type(error).__name__}: {message}",
        "transient": False,
    }


def main() -> int:
    """Serve the requests on stdin, write events to stdout, and return the exit code.

    The first line of stdin is the spec.
    """
    # Stray prints of libraries must not mix with the events.
    out = os.dup(1)
    os.dup2(2, 1)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    # The stream creates many short-lived objects and no cycles.
    gc.set_threshold(100_000, 50, 50)
    requests = sys.stdin.buffer
    spec = WorkerSpec.from_line(requests.readline().decode())
    return Worker(spec, out).run(requests)


def run_and_exit() -> NoReturn:
    """Run as a worker, and end the process."""
    try:
        code = main()
    except Exception:
        sys.excepthook(*sys.exc_info())
        code = EXIT_BUG
    sys.stderr.flush()
    # This skips the interpreter's cleanup, in which daemon threads could hang on stdin's lock.
    os._exit(code)


if __name__ == "__main__":
    run_and_exit()
