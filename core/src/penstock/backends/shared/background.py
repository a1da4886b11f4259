"""Long calls of a driver, made on a thread, so that a signal or a stall is noticed meanwhile.

Drivers in native code look at no signal within a call: a worker that waited in one could not be
cancelled.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from penstock.backends.api.worker import Wait
from penstock.errors import StallError

T = TypeVar("T")
# An interrupted call comes back within this, or is left behind.
INTERRUPTED_SECONDS = 2.0


class Call(Generic[T]):
    """One call on a thread of its own."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._ended, self._end = os.pipe()
        self._result: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result.append(self._call())
        except BaseException as error:
            self._error = error
        finally:
            os.close(self._end)

    def _has_ended(self) -> bool:
        return bool(select.select([self._ended], [], [], 0)[0])

    def result(self, side: str, wait: Wait, interrupt: Callable[[], object]) -> T:
        """What the call returns or raises.

        No bytes move while a database computes, so that is no stall: what it may wait for has a
        limit of its own.

        Parameters:
            interrupt: ends the call early; done where waiting ends with an error.
        """
        try:
            while not self._has_ended():
                with suppress(StallError):
                    wait(side, self._ended, False)
        except BaseException:
            self.leave(interrupt)
            raise
        self._thread.join()
        self._close()
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
            return self._result.pop()
        finally:
            # It holds this frame: they would keep each other, and what the call has open.
            del error

    def leave(self, interrupt: Callable[[], object]) -> bool:
        """Give up the call and what it returns; True where it has ended. May be called twice."""
        if self._thread.is_alive():
            interrupt()
            self._thread.join(INTERRUPTED_SECONDS)
        self._close()
        self._result.clear()
        return not self._thread.is_alive()

    def _close(self) -> None:
        if self._ended >= 0:
            os.close(self._ended)
            self._ended = -1


def compute(call: Callable[[], T], side: str, wait: Wait, interrupt: Callable[[], object]) -> T:
    """Make a call that may take long."""
    return Call(call).result(side, wait, interrupt)
