"""Limits on streams for the source's sake: a rate, and the lag of its standbys. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

# The lag counts as below the limit again at this share of it, so that it does not exceed it at
# once.
AGAIN_BELOW = 0.7
# The streams' share is halved each time the lag is too long; below this it becomes zero.
LEAST_SHARE = 1 / 32
# Bytes per second of a running stream while nothing may be moved, so that neither server gives it
# up.
TRICKLE = 64 * 1024
# A stream that uses less than this share of its part leaves the rest to the others, except for room
# to grow.
USED, GROWTH, LEAST_PART = 0.6, 1.5, 0.1
# Seconds between two divisions, unless the busy streams change.
DIVIDE_EVERY = 1.0
# Smaller differences are not worth a message.
SAME = 0.05


class LagBrake:
    """A brake that reduces the number and rate of streams as the source lags, down to zero.

    Args:
        limit: in seconds.
        subject, hint: as in `penstock.backends.api.optional.pulse.LagGauge`.
    """

    def __init__(self, limit: float, subject: str, hint: str) -> None:
        self._limit = limit
        self._subject = subject
        self._hint = hint
        self.share = 1.0
        """Of the streams and of their rate: 1 where nothing is held back, 0 while all is."""
        self._free_rate = 0.0
        self.lag: float | None = None

    def see(self, lag: float) -> None:
        """Record a measured lag. To be called about once a second.

        Args:
            lag: in seconds.
        """
        self.lag = lag
        if lag > self._limit:
            self.share /= 2
            if self.share < LEAST_SHARE or not self._free_rate:
                self.share = 0.0
        elif lag <= AGAIN_BELOW * self._limit and self.share < 1:
            more = max(LEAST_SHARE, 2 * self.share)
            self.share = min(1.0, more) if self._free_rate else 1.0

    def note_rate(self, rate: float) -> None:
        """Record the rate at which streams move when not held back, in bytes per second."""
        if self.share == 1:
            self._free_rate = rate

    def streams(self, most: int) -> int:
        """Return how many of the wanted streams may begin another partition."""
        return 0 if self.share == 0 else max(1, int(most * self.share))

    def rate(self, busy: int) -> float | None:
        """Return bytes per second for all streams; None for no limit."""
        if self.share == 1:
            return None
        return max(busy * TRICKLE, self._free_rate * self.share)

    @property
    def why(self) -> str:
        """Describes the reason for the current limit, or for its end."""
        lag = f"lags by {self.lag or 0:.1f} s (--max-lag {self._limit:g}s)"
        if self.share == 0:
            return f"{self._subject} {lag}: no new partitions start; {self._hint}"
        return f"{self._subject} {lag}"


class RateShares:
    """A division of a rate among the busy streams, in equal parts.

    Rate that a stream leaves unused goes to others.
    """

    def __init__(self) -> None:
        self._current_rates: dict[int, float | None] = {}
        self._marks: dict[int, tuple[float, int]] = {}
        self._divided: tuple[float | None, frozenset[int]] = None, frozenset()
        self._at = 0.0

    def forget(self, stream: int) -> None:
        """Forget a stream, because a new one begins under its number."""
        self._current_rates.pop(stream, None)
        self._marks.pop(stream, None)

    def changes(
        self, now: float, rate: float | None, bytes_moved: Mapping[int, int]
    ) -> dict[int, float | None]:
        """Return the new rate of each stream, in bytes per second; None for no limit.

        Args:
            now: the time, in seconds of the monotonic clock.
            rate: for all of them together.
            bytes_moved: by busy stream, the bytes that it has moved so far.
        """
        if rate is None:
            parts: dict[int, float | None] = dict.fromkeys(bytes_moved)
        else:
            dividing = rate, frozenset(bytes_moved)
            if dividing == self._divided and now < self._at + DIVIDE_EVERY:
                return {}
            self._divided, self._at = dividing, now
            lately = [self._recent_rate(stream, now, size) for stream, size in bytes_moved.items()]
            parts = dict(zip(bytes_moved, divide(rate, lately), strict=True))
        changes = {
            stream: part
            for stream, part in parts.items()
            if _differs(part, self._current_rates.get(stream))
        }
        self._current_rates.update(changes)
        return changes

    def _recent_rate(self, stream: int, now: float, bytes_moved: int) -> float:
        since, before = self._marks.get(stream, (now, bytes_moved))
        if now - since >= DIVIDE_EVERY or stream not in self._marks:
            self._marks[stream] = now, bytes_moved
        return (bytes_moved - before) / (now - since) if now - since >= DIVIDE_EVERY else math.inf


def _differs(part: float | None, current: float | None) -> bool:
    if part is None or current is None:
        return part is not current
    # Reductions are sent at once: together the streams must not exceed the rate.
    return part < current or part > (1 + SAME) * current


def divide(rate: float, lately: Sequence[float]) -> list[float]:
    """Divide a rate.

    Args:
        rate: bytes per second for all streams.
        lately: bytes per second that each stream has moved; infinite if unknown.
    """
    parts = [0.0] * len(lately)
    remaining, sharers = rate, list(range(len(lately)))
    while sharers:
        equal = remaining / len(sharers)
        slow = [each for each in sharers if lately[each] < USED * equal]
        if not slow:
            break
        for each in slow:
            # Leave room to grow, so that a stream that had to wait does not stay slow forever.
            parts[each] = max(GROWTH * lately[each], LEAST_PART * equal)
            remaining -= parts[each]
        sharers = [each for each in sharers if each not in slow]
    sharing = sharers or range(len(lately))
    for each in sharing:
        parts[each] += remaining / len(sharing)
    return parts
