"""The time of a batch by phase: planning, preparing, copying, finishing, window by window."""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.events import (
    AttemptEvent,
    BatchFinished,
    BatchStarted,
    Committed,
    Event,
    Failed,
    Finished,
    Opened,
    PartitionsChecked,
    Planned,
    Prepared,
    SnapshotChanged,
    StepChanged,
    Verified,
    Warned,
)
from penstock.model.journal import COPYING, FINISHING, PHASES, PLANNING, PREPARING


class Phases:
    """The time of a batch by phase: the time before each event counts as the phase it ends.

    Args:
        started: the start of the first phase, by the clock.
        clock: returns seconds, monotonic.
    """

    def __init__(self, started: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = started
        self._phase = PLANNING
        self._open: set[tuple[str, str, int]] = set()
        """Attempts at work."""
        self._seconds = dict.fromkeys(PHASES, 0.0)

    @property
    def seconds(self) -> dict[str, float]:
        """The seconds by phase, up to now."""
        so_far = {**self._seconds}
        so_far[self._phase] += self._clock() - self._last
        return {phase: round(seconds, 3) for phase, seconds in so_far.items()}

    def add(self, event: Event) -> None:
        """Add an event, and count the time since the last one for its phase."""
        self._phase = self._phase_of(event)
        now = self._clock()
        self._seconds[self._phase] += now - self._last
        self._last = now

    def _phase_of(self, event: Event) -> str:
        if isinstance(event, AttemptEvent):
            attempt = (event.run_id, event.partition_id, event.attempt)
            if isinstance(event, Opened):
                self._open.add(attempt)
            elif isinstance(event, Committed | Failed):
                self._open.discard(attempt)
            return COPYING
        match event:
            case _ if self._open:
                return COPYING
            case BatchStarted() | Planned() | SnapshotChanged(state="taken"):
                return PLANNING
            case Warned(error=error) if error is not None and self._phase == FINISHING:
                return PLANNING  # a table of the next window cannot be planned
            case Prepared():
                return PREPARING
            case StepChanged() | Verified() | PartitionsChecked() | Finished() | BatchFinished():
                return FINISHING
        return self._phase
