"""A driver's connection is not freed beneath another thread's call: that crashes the process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakMethod

# Seconds that a call under way may take to end before the connection is left to it.
CALL_SECONDS = 2.0


class InUse:
    """Calls of a driver are made within it, as within a lock. `free` closes the connection.

    Parameters:
        free: the connection's own method, which frees what the driver has; it may be called twice.
    """

    def __init__(self, free: Callable[[], None]) -> None:
        self._free = WeakMethod(free)  # else the connection would be kept by itself
        self._calls = threading.RLock()
        self._left = False

    def __enter__(self) -> None:
        self._calls.acquire()
        self._free_if_left()  # so that the driver refuses the call

    def __exit__(self, *_: Any) -> None:
        try:
            self._free_if_left()
        finally:
            self._calls.release()

    def leave(self) -> None:
        """From now on no call begins. One that another thread makes frees it at its end."""
        self._left = True

    def free(self, seconds: float = CALL_SECONDS) -> bool:
        """Free it now, or once another thread's call has ended.

        Parameters:
            seconds: how long to wait for that call.

        Returns: whether it is done; else that thread does it.
        """
        self.leave()
        if not self._calls.acquire(timeout=seconds):
            return False
        try:
            self._free_if_left()
        finally:
            self._calls.release()
        return True

    def _free_if_left(self) -> None:
        free = self._free()
        if self._left and free is not None:
            free()
