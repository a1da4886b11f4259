"""An iterator that runs in a thread of its own, an item ahead, and can be waited for."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _End:
    error: BaseException | None


class Ahead(Generic[T]):
    """
    Parameters:
        items: made and run in the thread; takes what tells whether it is to end.
        count: so many items at most wait to be taken.
    """

    def __init__(self, items: Callable[[Callable[[], bool]], Iterator[T]], count: int = 1) -> None:
        self._items = items
        self._queue: queue.SimpleQueue[T | _End] = queue.SimpleQueue()
        self._room = threading.Semaphore(count)
        self._stopped = False
        # Tells how many items are there, to who waits as for a socket.
        self._bell, rope = os.pipe()
        threading.Thread(target=self._run, args=(rope,), name="ahead", daemon=True).start()

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

    def take(self, wait: Callable[[str, int, bool], None]) -> Iterator[T]:
        """All items.

        Parameters:
            wait: see `Wait`.

        Raises:
            BaseException: what the iterator has raised.
            StallError: see `Wait`.
        """
        try:
            while True:
                wait("source", self._bell, False)
                os.read(self._bell, 1)
                item = self._queue.get()
                if isinstance(item, _End):
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
