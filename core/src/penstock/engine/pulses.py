"""Samples of the servers while streams run: what their sessions wait for, and their lag."""

from __future__ import annotations

import queue
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from penstock.backends.api.optional.pulse import LagGauge, Pulse
from penstock.errors import PenstockError
from penstock.events import Event, Sampled, Warned

# Seconds. A copy that ends before the first sample costs no connection.
EVERY = 1.0
# Seconds to wait after an error: the server may be restarting.
AGAIN = 10.0
# Seconds that a sample may take to finish at the end. If it were still connecting when the process
# ends, it could crash in a library that is being cleaned up.
LEAVE_SECONDS = 1.0


class _Closable(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=_Closable)


@dataclass(frozen=True, slots=True)
class PulseEnd:
    """A server whose sessions can be sampled; see `backends.api.optional.pulse.WithPulse`."""

    open: Callable[[], Pulse]
    wait_kind: Callable[[str], str]


class Pulses:
    """The state of the servers, sampled by separate threads.

    Args:
        ends: the servers whose sessions can be sampled, by side.
        run_ids: ids of the runs whose sessions count.
        lag_gauge: opens a gauge of the source's lag; None if it is not needed.
    """

    def __init__(
        self,
        ends: Mapping[str, PulseEnd],
        run_ids: Sequence[str],
        lag_gauge: Callable[[], LagGauge] | None = None,
    ) -> None:
        self._samplers = {side: _Sampler(side, end, run_ids) for side, end in ends.items()}
        self._lag = None if lag_gauge is None else _LagLook(lag_gauge, run_ids[0])
        for look in self._looks:
            look.start()

    @property
    def _looks(self) -> list[_Sampler | _LagLook]:
        return [*self._samplers.values(), *([self._lag] if self._lag else [])]

    def events(self) -> Iterator[Event]:
        """Yield what was found since the last call, without waiting."""
        for look in self._looks:
            yield from look.events()

    def crowd(self) -> tuple[Mapping[str, int], int | None] | None:
        """See `penstock.workers.steering.Senses`."""
        fresh = [sampler.is_fresh() for sampler in self._samplers.values()]
        if not any(fresh):
            return None
        target = self._samplers.get("target")
        rooms = [sampler.room for sampler in self._samplers.values() if sampler.room is not None]
        return target.kinds if target else {}, min(rooms, default=None)

    def lag(self) -> float | None:
        """See `penstock.workers.steering.Senses`."""
        if self._lag is None:
            return None
        lag, self._lag.latest = self._lag.latest, None
        return lag

    def stop(self) -> None:
        """Close the connections for samples: a server has none left for the streams."""
        for sampler in self._samplers.values():
            sampler.over.set()

    def close(self) -> None:
        """End the threads; wait for them only briefly, since a server may not answer."""
        for look in self._looks:
            look.over.set()
        deadline = time.monotonic() + LEAVE_SECONDS
        for look in self._looks:
            look.join(max(0.0, deadline - time.monotonic()))


class _Look(threading.Thread, ABC, Generic[C]):
    """A thread that samples one server, which may be slow to answer, or unreachable."""

    def __init__(self, opened: Callable[[], C], run_id: str, what: str) -> None:
        super().__init__(daemon=True, name=f"penstock: {what}")
        self.over = threading.Event()
        self._open = opened
        self._run_id = run_id
        self._what = what
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def events(self) -> Iterator[Event]:
        while not self._events.empty():
            yield self._events.get()

    @abstractmethod
    def look(self, connection: C) -> None:
        """Take a sample.

        Raises:
            PenstockError: as `Pulse` or `LagGauge` raises it.
        """

    def run(self) -> None:
        connection: C | None = None
        pause = EVERY
        while not self.over.wait(pause):
            pause = EVERY
            try:
                if connection is None:
                    connection = self._open()
                self.look(connection)
            except PenstockError as error:
                if not error.transient:
                    message = f"cannot sample {self._what}: {error.message}"
                    self._events.put(Warned(run_id=self._run_id, message=message))
                    break
                if connection is not None:
                    connection.close()
                connection, pause = None, AGAIN
        if connection is not None:
            connection.close()


class _Sampler(_Look[Pulse]):
    def __init__(self, side: str, end: PulseEnd, run_ids: Sequence[str]) -> None:
        super().__init__(end.open, run_ids[0], f"the waits in the {side}")
        self._side = side
        self._wait_kind = end.wait_kind
        self._run_ids = run_ids
        self.kinds: Mapping[str, int] = {}
        self.room: int | None = None
        self._fresh = threading.Event()

    def is_fresh(self) -> bool:
        """Whether a sample was taken since the last call."""
        fresh = self._fresh.is_set()
        self._fresh.clear()
        return fresh

    def look(self, connection: Pulse) -> None:
        kinds: Counter[str] = Counter()
        for run_id, waits in connection.waits(self._run_ids).items():
            self._events.put(Sampled(run_id=run_id, side=self._side, waits=waits))
            for wait, sessions in waits.items():
                kinds[self._wait_kind(wait)] += sessions
        self.room = connection.room()
        self.kinds = kinds
        self._fresh.set()


class _LagLook(_Look[LagGauge]):
    def __init__(self, opened: Callable[[], LagGauge], run_id: str) -> None:
        super().__init__(opened, run_id, "the source's replication lag")
        self.latest: float | None = None

    def look(self, connection: LagGauge) -> None:
        self.latest = connection.lag()
