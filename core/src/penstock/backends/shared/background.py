"""Long driver calls, made in a thread, so that a signal or stall is noticed during them.

Native drivers do not notice signals during a call, so a worker waiting in one could not be
canceled.
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
# How long an interrupted call may take to return before it is abandoned.
INTERRUPTED_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class _End:
    error: BaseException | None


class BufferedIterator(Generic[T]):
    """An iterator that runs a few items ahead in its own thread, and can be waited for.

    Args:
        items: created and run in the thread; takes a function that tells whether to stop.
        count: the maximum number of items waiting to be taken.
    """

    def __init__(self, items: Callable[[Callable[[], bool]], Iterable[T]], count: int = 1) -> None:
        self._items = items
        self._queue: queue.SimpleQueue[T | _End] = queue.SimpleQueue()
        self._room = threading.Semaphore(count)
        self._stopped = False
        # Signals the number of available items to a reader that waits as for a socket.
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
        if not self._stopped:  # otherwise nothing will make room any more
            self._room.acquire()
        if self._stopped:
            return False
        self._queue.put(item)
        os.write(rope, b".")
        return True

    def take(self, wait: Callable[[str, int, bool], None], side: str = "source") -> Iterator[T]:
        """Yield all items.

        Args:
            wait: as in `Wait` and `computing`.
            side: `source` or `target`, for messages.

        Raises:
            BaseException: the iterator's own exception.
            StallError: as in `Wait`.
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
                        # The item refers to this frame, and the two would keep each other and its
                        # resources alive.
                        del item
                self._room.release()
                yield item
                del item
        finally:
            self.stop()
            os.close(self._bell)

    def stop(self) -> None:
        """Make it stop at the next item. May be called twice, from any thread."""
        self._stopped = True
        self._room.release()

    def leave(self, interrupt: Callable[[], object]) -> None:
        """Stop it, and wait until the thread has released its resources. May be called twice.

        Args:
            interrupt: cuts short what the thread is doing.
        """
        self.stop()
        if self._thread.is_alive():
            interrupt()
            self._thread.join(INTERRUPTED_SECONDS)


def computing(wait: Wait) -> Callable[[str, int, bool], None]:
    """Return a wait for a database that computes.

    Moving no bytes is then not a stall; anything the database waits for has its own limit.
    """

    def patient(side: str, fd: int, writing: bool) -> None:
        while not select.select([fd], [], [], 0)[0]:
            with suppress(StallError):
                wait(side, fd, writing)

    return patient


def compute(call: Callable[[], T], side: str, wait: Wait, interrupt: Callable[[], object]) -> T:
    """Make a call that may take long.

    Args:
        call: the call.
        side: `source` or `target`, for messages.
        wait: waits until a socket is ready, and raises `StallError`.
        interrupt: cuts the call short; called if the wait ends with an error.
    """
    ahead = BufferedIterator(lambda _: [call()])
    try:
        (result,) = ahead.take(computing(wait), side)
    finally:
        ahead.leave(interrupt)
    return result
