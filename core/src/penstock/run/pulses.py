"""Samples what the sessions of some runs wait for, on each server, while their streams run."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from penstock.backends.api.pulse import Pulse
from penstock.errors import PenstockError
from penstock.events import Event, Sampled, Warned

# Seconds. A copy that ends before the first sample costs no connection.
EVERY = 1.0
# After an error: the server restarts, for instance.
AGAIN = 10.0
# How long a sample under way may take at the end. Still connecting when the process ends, it could
# crash in a library that is being cleaned up.
LEAVE_SECONDS = 1.0


class Pulses:
    """
    Parameters:
        openers: by side, what opens a connection that looks at the server's sessions.
        run_ids: of the runs whose sessions count.
    """

    def __init__(self, openers: Mapping[str, Callable[[], Pulse]], run_ids: Sequence[str]) -> None:
        self._samplers = [_Sampler(side, opened, run_ids) for side, opened in openers.items()]
        for sampler in self._samplers:
            sampler.start()

    def events(self) -> Iterator[Event]:
        """What was found since the last call; does not wait."""
        for sampler in self._samplers:
            yield from sampler.found()

    def stop(self) -> None:
        """Let go of the connections: a server has none left for the streams."""
        for sampler in self._samplers:
            sampler.over.set()

    def close(self) -> None:
        self.stop()
        deadline = time.monotonic() + LEAVE_SECONDS
        for sampler in self._samplers:
            sampler.join(max(0.0, deadline - time.monotonic()))


class _Sampler(threading.Thread):
    """Looks at one server, on a thread of its own: it may be slow to answer, or not there."""

    def __init__(self, side: str, opened: Callable[[], Pulse], run_ids: Sequence[str]) -> None:
        super().__init__(daemon=True, name=f"penstock-pulse-{side}")
        self.over = threading.Event()
        self._side = side
        self._open = opened
        self._run_ids = run_ids
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def found(self) -> Iterator[Event]:
        while not self._events.empty():
            yield self._events.get()

    def run(self) -> None:
        pulse: Pulse | None = None
        pause = EVERY
        while not self.over.wait(pause):
            pause = EVERY
            try:
                if pulse is None:
                    pulse = self._open()
                for run_id, waits in pulse.waits(self._run_ids).items():
                    self._events.put(Sampled(run_id=run_id, side=self._side, waits=waits))
            except PenstockError as error:
                if not error.transient:
                    self._say(error)
                    break
                if pulse is not None:
                    pulse.close()
                pulse, pause = None, AGAIN
        if pulse is not None:
            pulse.close()

    def _say(self, error: PenstockError) -> None:
        message = f"not known what the run waits for in the {self._side}: {error.message}"
        self._events.put(Warned(run_id=self._run_ids[0], message=message))
