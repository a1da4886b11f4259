"""Protects a driver's connection from being freed during another thread's call.

Freeing it then would crash the process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakMethod

# How long a running call may take to end before the connection is left to it.
CALL_SECONDS = 2.0


class InUse:
    """A lock held during driver calls. `free` closes the connection.

    Args:
        free: the connection's own method, which frees the driver's resources; it may be called
            twice.
    """

    def __init__(self, free: Callable[[], None]) -> None:
        self._free = WeakMethod(free)  # otherwise the connection would keep itself alive
        self._calls = threading.RLock()
        self._is_left = False

    def __enter__(self) -> None:
        self._calls.acquire()
        self._free_if_left()  # so that the driver rejects the call

    def __exit__(self, *_: Any) -> None:
        try:
            self._free_if_left()
        finally:
            self._calls.release()

    def leave(self) -> None:
        """Allow no more calls. A running call in another thread frees the connection at its end."""
        self._is_left = True

    def free(self, seconds: float = CALL_SECONDS) -> bool:
        """Free the connection, now or once another thread's call has ended.

        Args:
            seconds: how long to wait for that call.

        Returns:
            whether it was freed; otherwise the other thread frees it.
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
        if self._is_left and free is not None:
            free()
