"""The best number of streams, found while they run. Pure: it has no clock and no server.

It begins with few streams, reaches one per CPU within a second, and then experiments: with more
streams as long as the rate grows; with fewer if the rate stays the same, or if the target's
sessions mostly wait for each other. Measurements expire after a while, so it repeats the
experiments, at growing intervals.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from penstock.backends.api.optional.pulse import LOCKS, LOG, MOVER
from penstock.spec.degrees import Streams

FIRST = 2
# Seconds between two steps on the way to one stream per CPU.
RAMP = 0.25
# A measurement: the seconds per part, the minimum and maximum number of parts, and the time to skip
# before it, because new streams have to connect and report every half second.
PART = 1.0
LEAST_PARTS, MOST_PARTS = 3, 8
SETTLE = 1.5
# More streams must raise the rate by this factor; fewer may lower it by this factor.
GAIN, LOSS = 1.06, 0.97
# If sessions wait for each other, fewer streams may lower the rate this much.
LOSS_CROWDED = 0.92
# Both count only if they exceed this many standard errors.
SURE = 1.5
# A change of the rate by this factor means a new situation.
CHANGED = 0.75
# Seconds until the next experiment, doubled after each one without success.
PAUSE, LONGEST_PAUSE = 5.0, 60.0
# The target counts as crowded if its sessions spend this share of their time waiting for each
# other, in at least this many samples.
CROWDED, SAMPLES = 0.6, 4
# Seconds until an experiment with fewer streams is abandoned because no stream has finished its
# partition.
GIVE_UP = 20.0
# Connections left to others.
SPARE = 3


@dataclass(frozen=True, slots=True)
class Rate:
    """A measured rate in bytes per second, and its standard error."""

    mean: float
    error: float
    streams: int

    def __str__(self) -> str:
        count = f"{self.streams} stream{'s' if self.streams != 1 else ''}"
        return f"{self.mean / 1e6:,.1f} MB/s with {count}"


class AutoDegree:
    """The controller of the number of streams.

    Args:
        streams: the number to reach quickly, and the maximum.
        now: monotonic seconds, as in every call.
    """

    def __init__(self, streams: Streams, now: float) -> None:
        self._usual = streams.usual
        self._most = streams.most
        self.degree = min(FIRST, streams.usual)
        self.reason = ""
        """Of the last change."""
        self._base: Rate | None = None
        """Of the streams before the ones that are being tried; None: nothing is tried."""
        self._chain: Rate | None = None
        """Where a row of tries with ever fewer streams has begun."""
        self._settled: Rate | None = None
        """What these streams moved when they were settled on."""
        self._was_crowded = ""
        self.begins = True
        """On its way to one stream for each CPU."""
        self._factor = 2.0
        self._upwards = True
        self._pause = PAUSE
        self._rest_until = now
        self._waits: deque[tuple[int, int]] = deque(maxlen=SAMPLES)
        self._room: int | None = None
        self._changed_at = now
        self._start_measuring()

    def limit(self, most: int) -> None:
        """Set the maximum, because a server has no connections for more."""
        self._most = max(1, most)
        self._usual = min(self._usual, self._most)
        if self.degree > self._most:
            self._base = None
            self.degree = self._most
            self._start_measuring()

    def see(self, kinds: Mapping[str, int], room: int | None) -> None:
        """Record what the target's sessions wait for, and how many more a server would accept.

        Args:
            kinds: the number of sessions by `penstock.backends.api.optional.pulse.KINDS`.
            room: the number of partitions that could run now; None if unknown.
        """
        self._room = room
        working = sum(count for kind, count in kinds.items() if kind != MOVER)
        self._waits.append((kinds.get(LOCKS, 0) + kinds.get(LOG, 0), working))

    def forget(self) -> None:
        """Discard the measurement, because something else is holding the streams back."""
        self._start_measuring()

    def look(self, now: float, bytes_moved: int, busy: int) -> bool:
        """Update the number of streams; return whether it has changed.

        To be called a few times a second.

        Args:
            now: the time, in seconds of the monotonic clock.
            bytes_moved: bytes moved so far, over all streams.
            busy: the number of streams that are moving rows.
        """
        if self.begins:
            if self.degree >= self._usual:
                self.begins = False
            elif now >= self._changed_at + RAMP:
                more = min(self._usual, 2 * self.degree)
                return self._go(more, "up to one stream per CPU", now)
            else:
                return False
        if busy != self.degree:
            # Streams are still connecting or have not finished yet, or there are too few partitions
            # left.
            self._start_measuring()
            if self._base is None or busy < self.degree or now < self._changed_at + GIVE_UP:
                return False
            return self._go_back("partitions take too long to try fewer streams", now)
        self._measure(now, bytes_moved)
        if len(self._parts) < LEAST_PARTS:
            return False
        rate = self._rate()
        if rate.mean <= 0:
            return False
        if self._base is None:
            return self._explore(rate, now)
        return self._judge(rate, now)

    # Measuring

    def _start_measuring(self) -> None:
        self._parts: deque[float] = deque(maxlen=MOST_PARTS)
        self._settled_at: float | None = None
        self._mark: tuple[float, int] | None = None

    def _measure(self, now: float, bytes_moved: int) -> None:
        if self._settled_at is None:
            self._settled_at = now + SETTLE
        if now < self._settled_at:
            return
        if self._mark is None:
            self._mark = now, bytes_moved
        since, before = self._mark
        if now - since >= PART:
            self._parts.append((bytes_moved - before) / (now - since))
            self._mark = now, bytes_moved

    def _rate(self) -> Rate:
        count = len(self._parts)
        mean = sum(self._parts) / count
        spread = math.sqrt(sum((part - mean) ** 2 for part in self._parts) / (count - 1))
        return Rate(mean, spread / math.sqrt(count), self.degree)

    @property
    def _crowded(self) -> str:
        """What the target's sessions mostly do instead of working; empty if they work."""
        waiting = sum(count for count, _ in self._waits)
        working = sum(count for _, count in self._waits)
        if len(self._waits) < SAMPLES or working < 2 * SAMPLES or waiting < CROWDED * working:
            return ""
        return f"{waiting / working:.0%} of the target's sessions wait for locks or its log"

    # Deciding

    def _explore(self, rate: Rate, now: float) -> bool:
        """Try another number, if it is time to."""
        crowded = self._crowded
        slower = self._settled is not None and rate.mean < CHANGED * self._settled.mean
        if slower or (crowded and not self._was_crowded):
            # In a new situation, earlier measurements no longer apply.
            self._pause = PAUSE
            self._rest_until = now
            self._upwards = False
            self._settled = rate
        self._was_crowded = crowded
        if now < self._rest_until:
            return False
        upwards = self._upwards and not crowded
        if upwards and self._highest() > self.degree:
            return self._try(min(self._highest(), self._more()), rate, "trying more", now)
        if not upwards and self.degree > 1:
            self._chain = self._chain or rate
            fewer = max(1, min(self.degree - 1, round(self.degree / 1.5)))
            why = f"trying fewer: {crowded}" if crowded else "trying fewer"
            return self._try(fewer, rate, why, now)
        self._upwards = not self._upwards
        self._rest_until = now + self._pause
        return False

    def _more(self) -> int:
        return max(self.degree + 1, round(self.degree * self._factor))

    def _highest(self) -> int:
        if self._room is None:
            return self._most
        return min(self._most, self.degree + max(0, self._room - SPARE))

    def _try(self, degree: int, rate: Rate, why: str, now: float) -> bool:
        self._base = rate
        return self._go(degree, f"{why}; {rate}", now)

    def _judge(self, rate: Rate, now: float) -> bool:
        """Keep the number being tried, or go back."""
        assert self._base is not None
        up = rate.streams > self._base.streams
        base = self._base if up or self._chain is None else self._chain
        gain = rate.mean / base.mean
        unsure = SURE * math.hypot(rate.error, base.error) / base.mean
        least = GAIN if up else LOSS_CROWDED if self._crowded else LOSS
        undecided = len(self._parts) < MOST_PARTS
        if gain - unsure > least or (not undecided and gain > least + unsure / 2):
            self._base = None
            self._settled = rate
            self._pause = PAUSE
            self._rest_until = now  # continue in this direction
            if up:
                self._chain = None
            return False
        if undecided and gain + unsure > least:
            return False
        return self._go_back(f"{rate}, {self._base}", now)

    def _go_back(self, reason: str, now: float) -> bool:
        """Go back after an unsuccessful experiment.

        The next one comes later, in the other direction.
        """
        assert self._base is not None
        before, self._base = self._base, None
        self._settled, self._chain = before, None
        self._factor = 1.5
        self._upwards = before.streams > self.degree
        self._rest_until = now + self._pause
        self._pause = min(LONGEST_PAUSE, 2 * self._pause)
        return self._go(min(before.streams, self._most), reason, now)

    def _go(self, degree: int, reason: str, now: float) -> bool:
        changed = degree != self.degree
        self.degree = degree
        self.reason = reason
        self._changed_at = now
        self._waits.clear()
        self._start_measuring()
        return changed
