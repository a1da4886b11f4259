"""Sends parts in parallel with the stream, a few at a time, and reports failures."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from penstock.backends.api.worker import Wait

# Parts being sent or waiting: each is held in memory.
AT_ONCE = 3


class Transfer:
    """The transfer of one attempt. Its descriptor becomes readable when a part is done."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._under_way: list[Future[None]] = []
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._closing = threading.Lock()

    def fileno(self) -> int:
        return self._reading

    def submit(self, send: Callable[[], None], wait: Wait) -> None:
        """Send something; wait if too much is being sent.

        Raises:
            TransientError, PermanentError: an earlier part failed.
        """
        self._down_to(AT_ONCE - 1, wait)
        future = self._pool.submit(send)
        self._under_way.append(future)
        future.add_done_callback(self._tell)

    def finish(self, wait: Wait) -> None:
        """Wait for everything. Raises as `submit`."""
        self._down_to(0, wait)

    def check(self) -> None:
        """Forget the parts that have been sent. Raises as `submit`."""
        with suppress(BlockingIOError):
            os.read(self._reading, 4096)
        done = [future for future in self._under_way if future.done()]
        self._under_way = [future for future in self._under_way if future not in done]
        for future in done:
            future.result()

    def _down_to(self, count: int, wait: Wait) -> None:
        self.check()
        while len(self._under_way) > count:
            wait("target", self._reading, False)
            self.check()

    def _tell(self, _: Future[None]) -> None:
        with self._closing:
            if self._writing >= 0:
                os.write(self._writing, b".")

    def close(self) -> None:
        """Abandon what is being sent. May be called twice."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._closing:
            for descriptor in (self._reading, self._writing):
                if descriptor >= 0:
                    os.close(descriptor)
            self._reading = self._writing = -1
