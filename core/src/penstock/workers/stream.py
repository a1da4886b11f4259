"""Moves one partition from source to target, in the best format that both support."""

from __future__ import annotations

import contextlib
import select
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.backends.api.worker import LoadResult, Mover, Pump, Pumped, Pumping, Reader, Writer
from penstock.errors import Diagnosis, PermanentError, StallError
from penstock.model.plans import Partition
from penstock.model.records import Spent
from penstock.workers.pace import Pace

# The maximum time until a signal is handled, however long servers are silent.
TURN_SECONDS = 0.05

Waiting = tuple[str, float, float]
"""A wait: its side, since when it has lasted, and the seconds waited before."""


@dataclass(slots=True)
class Meter:
    """The progress of an attempt. Written by the stream, read by the thread that reports it."""

    rows: int = 0
    bytes: int = 0
    waited: dict[str, float] = field(default_factory=lambda: {"source": 0.0, "target": 0.0})
    waiting: Waiting | None = None
    """The current wait."""
    started: float = field(default_factory=time.monotonic)

    def waits(self) -> dict[str, float]:
        """Return the seconds waited so far by side, including the current wait."""
        waiting = self.waiting  # first: it ends after it is counted
        seconds = dict(self.waited)
        if waiting is not None:
            side, since, before = waiting
            seconds[side] = max(seconds[side], before + time.monotonic() - since)
        return seconds

    def begin_wait(self, side: str) -> Waiting:
        wait = side, time.monotonic(), self.waited[side]
        self.waiting = self.waiting or wait  # nested waits are part of it
        return wait

    def end_wait(self, wait: Waiting) -> None:
        side, since, before = wait
        self.waited[side] = before + time.monotonic() - since
        if self.waiting is wait:
            self.waiting = None

    def seconds(self) -> float:
        return time.monotonic() - self.started

    def spent(self, paced: float) -> Spent:
        """Return what was spent so far.

        Args:
            paced: seconds spent keeping to a rate.
        """
        seconds = (self.seconds(), self.waited["source"], self.waited["target"], paced)
        return Spent(*(round(each, 3) for each in seconds))


class Waiter:
    """A waiter for sockets, which counts the time by side, and ends a stalled stream.

    While waiting for the source it also watches the target, so that errors there are noticed at
    once.
    """

    def __init__(self, meter: Meter, stall_timeout: float) -> None:
        self._meter = meter
        self._timeout = stall_timeout
        self._watched: Writer | None = None
        self._polls: dict[tuple[int, bool, int], select.poll] = {}

    def watch(self, writer: Writer | None) -> None:
        self._watched = writer

    def __call__(self, side: str, fd: int, writing: bool) -> None:
        """Return when the socket is ready.

        Raises:
            StallError: nothing moved for the stall timeout.
        """
        watched = self._watched.fileno() if self._watched and side == "source" else -1
        poll = self._poll(fd, writing, watched)
        wait = self._meter.begin_wait(side)
        try:
            while True:
                remaining: float | None = None
                if self._timeout:
                    remaining = max(0.0, wait[1] + self._timeout - time.monotonic()) * 1000
                ready = poll.poll(remaining)
                if any(ready_fd == fd for ready_fd, _ in ready):
                    return
                if not ready:
                    raise self._stalled(side)
                assert self._watched is not None
                self._watched.check()
        finally:
            self._meter.end_wait(wait)

    @contextlib.contextmanager
    def answering(self, side: str) -> Iterator[None]:
        """Limit calls that a working server answers at once. On the main thread only.

        Raises:
            StallError: there was no answer for the stall timeout.
        """

        def stalled(*_: object) -> None:
            raise StallError(f"{side}: no answer for {self._timeout:g} s", Diagnosis(side=side))

        before = signal.signal(signal.SIGALRM, stalled)
        signal.setitimer(signal.ITIMER_REAL, self._timeout)
        wait = self._meter.begin_wait(side)
        try:
            yield
        finally:
            self._meter.end_wait(wait)
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def _poll(self, fd: int, writing: bool, watched: int) -> select.poll:
        key = (fd, writing, watched)
        if key not in self._polls:
            poll = select.poll()
            poll.register(fd, select.POLLIN | (select.POLLOUT if writing else 0))
            if watched >= 0:
                poll.register(watched, select.POLLIN)
            self._polls[key] = poll
        return self._polls[key]

    def turn(self, mover: Mover) -> bool:
        """Let it move bytes for a moment. False once it is done.

        Raises:
            StallError: nothing has moved for the stall timeout.
        """
        watched = self._watched
        before = mover.wait_seconds
        more = mover.run(
            TURN_SECONDS,
            watched.fileno() if watched else -1,
            watched.check if watched else _nothing,
        )
        for side, was, now in zip(("source", "target"), before, mover.wait_seconds, strict=True):
            self._meter.waited[side] += now - was
        if more and self._timeout and mover.idle_seconds >= self._timeout:
            raise self._stalled(mover.side)
        return more

    def _stalled(self, side: str) -> StallError:
        return StallError(
            f"{side}: no bytes moved in either direction for {self._timeout:g} s (--stall-timeout)",
            Diagnosis(side=side),
        )

    def pending(self, fd: int) -> bool:
        """Whether the socket is readable now."""
        return bool(self._poll(fd, False, -1).poll(0))


def _relay_pumped(pump: Pump, waiter: Waiter, meter: Meter, pace: Pace) -> None:
    more = True
    while more:
        pump.max_turn_bytes = pace.portion
        more = waiter.turn(pump)
        size = pump.bytes - meter.bytes
        meter.rows, meter.bytes = pump.rows, pump.bytes
        pace(size)


def _relay_blocks(
    reader: Reader,
    writer: Writer,
    partition: Partition,
    waiter: Waiter,
    meter: Meter,
    pace: Pace,
) -> None:
    watched = writer.fileno()
    for block, rows, size in reader.read(partition, waiter):
        if watched >= 0 and waiter.pending(watched):
            writer.check()
        writer.write(block, waiter)
        meter.rows += rows
        meter.bytes += size
        del block  # before the reader takes the next one, so that a large row is not held twice
        pace(size)


def _nothing() -> None:
    pass


def relay(
    reader: Reader,
    writer: Writer,
    partition: Partition,
    waiter: Waiter,
    meter: Meter,
    pace: Pace,
) -> LoadResult:
    """Move a partition's rows, between `writer.begin` and `writer.commit`, no faster than `pace`.

    Args:
        reader: the reader of the source's stream.
        writer: the writer into the target.
        partition: the partition.
        waiter: waits for either side.
        meter: counts the bytes.
        pace: the limit of the rate.

    Returns:
        what the target accepted; source and target agree on the row count.

    Raises:
        PermanentError: the row counts differ.
    """
    waiter.watch(writer if writer.fileno() >= 0 else None)
    try:
        pump = None
        if isinstance(reader, Pumping) and isinstance(writer, Pumped):
            pump = reader.pump(partition, writer.sink, waiter)
        if pump is None:
            _relay_blocks(reader, writer, partition, waiter, meter, pace)
        else:
            _relay_pumped(pump, waiter, meter, pace)
    finally:
        waiter.watch(None)
    loaded = writer.end(waiter)
    if loaded.rows != reader.rows:
        raise PermanentError(
            f"partition {partition.id}: the source sent {reader.rows:,} rows, but the target took "
            f"{loaded.rows:,} (does a trigger or rule on the target drop rows?)"
        )
    return loaded
