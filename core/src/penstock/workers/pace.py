"""Keeping a stream to a rate: it pauses after what it has moved."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

# Seconds of unused rate that a stream may catch up on, and by which it may exceed its rate in a
# second.
CATCH_UP = 0.05
# Seconds worth of a rate that are moved at once: many small pauses instead of bursts.
PORTION = 0.05


class Pace:
    """A pacer, called after each block with its bytes.

    It returns once the block has taken long enough.

    The rate may be changed in another thread, even during a pause. A signal ends a pause like any
    other wait.

    Args:
        clock: returns monotonic seconds.
        wait: waits for some seconds, or until the rate has changed; replaces a real pause in tests.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        self._clock = clock
        self._changed = threading.Event()
        self._wait = wait or self._changed.wait
        self._rate: float | None = None
        self._owed = 0.0
        """Bytes that were moved too early; negative: that may be caught up on."""
        self._since = clock()
        self._paused = 0.0
        self._pausing: tuple[float, float] | None = None
        """Since when, and how long it had paused before."""

    @property
    def paused(self) -> float:
        """Seconds paused in the current attempt, including the current pause."""
        pausing = self._pausing  # first: it ends after it is counted
        if pausing is None:
            return self._paused
        since, before = pausing
        return max(self._paused, before + self._clock() - since)

    @property
    def portion(self) -> int | None:
        """Bytes to move at once; None for no limit."""
        rate = self._rate
        return None if rate is None else max(1, int(PORTION * rate))

    def set(self, rate: float | None) -> None:
        """Set the rate.

        Args:
            rate: in bytes per second; None for no limit.
        """
        self._rate = rate
        self._changed.set()

    def begin(self) -> None:
        """Start a new attempt."""
        self._paused = 0.0

    def __call__(self, size: int) -> None:
        self._owed += size
        started = self._pass_time()  # the block itself took some of the time
        if self._owed < 1:
            return
        self._pausing = started, self._paused
        try:
            while self._owed >= 1:
                self._changed.clear()
                rate = self._rate  # read after clearing, so that no change is missed
                if rate is not None:
                    self._wait(self._owed / rate)
                self._pass_time()
        finally:
            self._paused += self._clock() - started
            self._pausing = None

    def _pass_time(self) -> float:
        """Deduct the time that has passed from what was moved; return the current time."""
        now, rate = self._clock(), self._rate
        passed, self._since = now - self._since, now
        self._owed = 0.0 if rate is None else max(self._owed - rate * passed, -CATCH_UP * rate)
        return now
