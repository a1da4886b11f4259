"""The current limits of an execution's streams: how many, how fast, and the reason for changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from penstock.events import AUTOMATIC, LAG
from penstock.spec.degrees import Streams
from penstock.workers.auto_degree import AutoDegree
from penstock.workers.throttle import LagBrake

RATE_SECONDS = 1.0
# If this share of the allowed rate is used, more streams would not raise it.
HELD = 0.9


class Senses(Protocol):
    """What is known about the servers. Nothing here waits for one."""

    def crowd(self) -> tuple[Mapping[str, int], int | None] | None:
        """Return what was found since the last call, see `AutoDegree.see`; None if nothing was."""
        ...

    def lag(self) -> float | None:
        """Return the source's lag in seconds, if found since the last call; otherwise None."""
        ...


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the number of streams."""

    degree: int
    cause: str
    """As in `penstock.events.DegreeChanged`."""
    message: str


class Steering:
    """The steering of an execution.

    Args:
        streams: the requested number.
        max_rate: bytes per second over all streams; None for no limit.
        brake: for a source whose lag is limited.
        now: monotonic seconds, as in every call.
    """

    def __init__(
        self,
        streams: Streams,
        max_rate: int | None,
        brake: LagBrake | None,
        now: float,
    ) -> None:
        self.streams = streams
        self._most = streams.most
        self._auto = AutoDegree(streams, now) if streams.automatic else None
        self._max_rate = max_rate
        self._brake = brake
        self._senses: Senses | None = None
        self._mark = now, 0
        self._is_at_max_rate = False
        self._allowed = self.unrestrained

    def attach(self, senses: Senses, now: float) -> None:
        """Attach a new supervisor, which has moved nothing yet."""
        self._senses = senses
        self._mark = now, 0
        if self._auto is not None:
            self._auto.forget()

    @property
    def allowed(self) -> int:
        """The number of streams that may have a partition."""
        return self._brake.streams(self.unrestrained) if self._brake else self.unrestrained

    @property
    def unrestrained(self) -> int:
        """The number of streams if nothing held them back."""
        return self._auto.degree if self._auto else self._most

    @property
    def automatic(self) -> bool:
        """Whether the number of streams is Penstock's own choice."""
        return self._auto is not None

    @property
    def begins(self) -> bool:
        """Whether the number changes several times a second."""
        return self._auto is not None and self._auto.begins

    def rate(self, busy: int) -> float | None:
        """Return bytes per second for all streams; None for no limit."""
        rates = [self._max_rate, self._brake.rate(busy) if self._brake else None]
        return min((rate for rate in rates if rate is not None), default=None)

    def limit(self, most: int) -> None:
        """Set the maximum, because a server or this machine has no room for more streams."""
        self._most = min(self._most, most)
        if self._auto is not None:
            self._auto.limit(most)
        # Not `allowed`: what the brake has done since is yet to be told.
        self._allowed = min(self._allowed, most)

    def look(self, now: float, bytes_moved: int, busy: int) -> Iterator[Change]:
        """Yield what has changed. To be called a few times a second.

        Args:
            now: the time, in seconds of the monotonic clock.
            bytes_moved: bytes moved so far, over all streams.
            busy: the number of streams that have a partition.
        """
        assert self._senses is not None
        cause, message = LAG, ""
        self._note_rate(now, bytes_moved)
        if self._brake is not None:
            if (lag := self._senses.lag()) is not None:
                self._brake.see(lag)
            message = self._brake.why
        if self._auto is not None:
            if (crowd := self._senses.crowd()) is not None:
                self._auto.see(*crowd)
            if (self._brake is not None and self._brake.share < 1) or (
                self._is_at_max_rate and not self._auto.begins
            ):
                self._auto.forget()
            elif self._auto.look(now, bytes_moved, busy):
                cause, message = AUTOMATIC, self._auto.reason
        if self.allowed != self._allowed:
            self._allowed = self.allowed
            yield Change(self._allowed, cause, message)

    def _note_rate(self, now: float, bytes_moved: int) -> None:
        since, before = self._mark
        if now - since < RATE_SECONDS:
            return
        rate = (bytes_moved - before) / (now - since)
        self._mark = now, bytes_moved
        self._is_at_max_rate = self._max_rate is not None and rate >= HELD * self._max_rate
        if self._brake is not None:
            self._brake.note_rate(rate)
