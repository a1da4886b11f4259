"""Long calls of a driver, made on a thread, so that a signal or a stall is noticed meanwhile.

Drivers in native code look at no signal within a call: a worker that waited in one could not be
cancelled.
"""

from __future__ import annotations

import os
import queue
import select
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.backends.api.worker import Wait
from penstock.errors import StallError

T = TypeVar("T")
# An interrupted call comes back within this, or is left behind.
INTERRUPTED_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class _End:
    error: BaseException | None


class Ahead(Generic[T]):
    """An iterator that runs in a thread of its own, some items ahead, and can be waited for.

    Parameters:
        items: made and run in the thread; takes what tells whether it is to end.
        count: so many items at most wait to be taken.
    """

    def __init__(self, items: Callable[[Callable[[], bool]], Iterable[T]], count: int = 1) -> None:
        self._items = items
        self._queue: queue.SimpleQueue[T | _End] = queue.SimpleQueue()
        self._room = threading.Semaphore(count)
        self._stopped = False
        # Tells how many items are there, to who waits as for a socket.
        self._bell, rope = os.pipe()
        self._thread = threading.Thread(target=self._run, args=(rope,), name="ahead", daemon=True)
        self._thread.start()

    def _run(self, rope: int) -> None:
        try:
            items = self._items(lambda: self._stopped)
            for item in items:
                if not self._hand_over(item, rope):
                    break
            self._hand_over(_End(None), rope)
        except BaseException as error:
            self._hand_over(_End(error), rope)
        finally:
            os.close(rope)

    def _hand_over(self, item: T | _End, rope: int) -> bool:
        if not self._stopped:  # else nobody may make room any more
            self._room.acquire()
        if self._stopped:
            return False
        self._queue.put(item)
        os.write(rope, b".")
        return True

    def take(self, wait: Callable[[str, int, bool], None], side: str = "source") -> Iterator[T]:
        """All items.

        Parameters:
            wait: see `Wait`, and `computing`.

        Raises:
            BaseException: what the iterator has raised.
            StallError: see `Wait`.
        """
        try:
            while True:
                wait(side, self._bell, False)
                os.read(self._bell, 1)
                item = self._queue.get()
                if isinstance(item, _End):
                    self._thread.join()  # it has nothing left to do
                    if item.error is None:
                        return
                    try:
                        raise item.error
                    finally:
                        # It holds this frame: they would keep each other, and what it has open.
                        del item
                self._room.release()
                yield item
                del item
        finally:
            self.stop()
            os.close(self._bell)

    def stop(self) -> None:
        """Have it end at its next item. May be called twice, from any thread."""
        self._stopped = True
        self._room.release()

    def leave(self, interrupt: Callable[[], object]) -> None:
        """Stop it, and wait until the thread has let go of what it has open. May be called twice.

        Parameters:
            interrupt: ends early what the thread is doing.
        """
        self.stop()
        if self._thread.is_alive():
            interrupt()
            self._thread.join(INTERRUPTED_SECONDS)


def computing(wait: Wait) -> Callable[[str, int, bool], None]:
    """A wait for a database that computes: no bytes move meanwhile, and that is no stall. What it
    may wait for has a limit of its own."""

    def patient(side: str, fd: int, writing: bool) -> None:
        while not select.select([fd], [], [], 0)[0]:
            with suppress(StallError):
                wait(side, fd, writing)

    return patient


def compute(call: Callable[[], T], side: str, wait: Wait, interrupt: Callable[[], object]) -> T:
    """Make a call that may take long.

    Parameters:
        interrupt: ends the call early; done where waiting ends with an error.
    """
    ahead = Ahead(lambda _: [call()])
    try:
        (result,) = ahead.take(computing(wait), side)
    finally:
        ahead.leave(interrupt)
    return result
