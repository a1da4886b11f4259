"""How a stream keeps to a rate: it pauses after what it has moved."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

# Seconds that a stream may have been slower than its rate before, and catch up on: so much more
# than its rate may a second show.
CATCH_UP = 0.05
# Seconds worth of a rate that are moved at once: many small pauses, no burst now and then.
PORTION = 0.05


class Pace:
    """Called after each block, with its bytes; returns once they have taken as long as they should.

    The rate may be changed on another thread, even in a pause. A signal ends a pause as it ends
    any other wait.

    Parameters:
        clock: seconds, monotonic.
        wait: for so many seconds, or until the rate has changed; instead of a real pause.
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
        """Seconds, of the current attempt, with those of a pause that goes on."""
        pausing = self._pausing  # first: it ends after it is counted
        if pausing is None:
            return self._paused
        since, before = pausing
        return max(self._paused, before + self._clock() - since)

    @property
    def portion(self) -> int | None:
        """Bytes to move at once; None: as many as there are."""
        rate = self._rate
        return None if rate is None else max(1, int(PORTION * rate))

    def set(self, rate: float | None) -> None:
        """
        Parameters:
            rate: bytes a second; None: as fast as it goes.
        """
        self._rate = rate
        self._changed.set()

    def begin(self) -> None:
        """An attempt begins."""
        self._paused = 0.0

    def __call__(self, size: int) -> None:
        self._owed += size
        begun = self._pass_time()  # the block itself took some of it
        if self._owed < 1:
            return
        self._pausing = begun, self._paused
        try:
            while self._owed >= 1:
                self._changed.clear()
                rate = self._rate  # read after clearing: no change is missed
                if rate is not None:
                    self._wait(self._owed / rate)
                self._pass_time()
        finally:
            self._paused += self._clock() - begun
            self._pausing = None

    def _pass_time(self) -> float:
        """What was moved is paid for by the time that has passed. Returns when that is."""
        now, rate = self._clock(), self._rate
        passed, self._since = now - self._since, now
        self._owed = 0.0 if rate is None else max(self._owed - rate * passed, -CATCH_UP * rate)
        return now
