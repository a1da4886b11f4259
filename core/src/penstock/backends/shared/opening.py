"""A connection that is opened in a thread, in parallel with other waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Generic, TypeVar

T = TypeVar("T")


class ConnectionOpening(Generic[T]):
    """A connection being opened.

    Args:
        open: called in the thread.
        close: closes a connection that is not taken.
    """

    def __init__(self, open: Callable[[], T], close: Callable[[T], object]) -> None:
        self._open = open
        self._close = close
        self._opened: list[T] = []
        self._error: BaseException | None = None
        self._is_left = False
        self._changing = threading.Lock()
        # Not the thread's `join`: if a signal interrupts it, the thread may be taken to have ended.
        self._over = threading.Event()
        # The caller's context: a server that does not answer is reported.
        run = copy_context().run
        threading.Thread(target=run, args=(self._run,), name="opening", daemon=True).start()

    def _run(self) -> None:
        try:
            opened = self._open()
            with self._changing:
                if not self._is_left:
                    self._opened.append(opened)
                    return
            self._close(opened)
        except BaseException as error:
            self._error = error
        finally:
            self._over.set()

    def take(self) -> T:
        """Wait for the connection, and transfer it to the caller.

        Raises:
            BaseException: opening it failed.
        """
        self._over.wait()
        if self._error is not None:
            raise self._error
        return self._opened.pop()

    def leave(self) -> None:
        """Have the connection closed, now or as soon as it is open. Does not wait."""
        with self._changing:
            self._is_left = True
            opened, self._opened = self._opened, []
        for each in opened:
            self._close(each)
