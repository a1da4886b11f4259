"""DuckDB's long calls, made on a thread, so that a signal or a stall is noticed meanwhile.

Within a call DuckDB looks at no signal (measured): a worker that waited in one could not be
cancelled.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from penstock.backends.base import Wait

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

    def result(self, side: str, wait: Wait, interrupt: Callable[[], object]) -> T:
        """What the call returns or raises.

        Parameters:
            interrupt: ends the call early; done where waiting ends with an error.
        """
        try:
            wait(side, self._ended, False)
        except BaseException:
            interrupt()
            self._thread.join(INTERRUPTED_SECONDS)
            raise
        finally:
            os.close(self._ended)
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._result[0]


def compute(call: Callable[[], T], side: str, wait: Wait, interrupt: Callable[[], object]) -> T:
    """Make a call that may take long."""
    return Call(call).result(side, wait, interrupt)


def interrupting(connection: object) -> Callable[[], None]:
    """What interrupts whatever a connection does."""

    def interrupt() -> None:
        with suppress(Exception):  # closed meanwhile
            connection.interrupt()  # type: ignore[attr-defined]

    return interrupt
