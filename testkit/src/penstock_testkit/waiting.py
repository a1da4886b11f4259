"""Functions that wait for another program's processes."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# Seconds between an answer and the next call.
SOONEST, LATEST = 0.1, 1.0


def until(
    ask: Callable[[], T | None],
    timeout: float,
    otherwise: Callable[[], str],
    soonest: float = SOONEST,
) -> T:
    """Call a function repeatedly until it returns something other than None, and return that.

    The longer a call takes, the longer the pause before the next: waiting must not load a machine
    that is slow because it is busy.

    Args:
        ask: the function to call.
        timeout: seconds.
        otherwise: returns the error's message.
        soonest: the shortest pause after an answer, in seconds.

    Raises:
        TimeoutError: the time ran out.
    """
    deadline = time.monotonic() + timeout
    while True:
        called = time.monotonic()
        if (answer := ask()) is not None:
            return answer
        answered = time.monotonic()
        if answered > deadline:
            raise TimeoutError(f"after {timeout:g} s: {otherwise()}")
        time.sleep(min(max(soonest, 10 * (answered - called)), LATEST))


def end_when_orphaned(folder: str) -> None:
    """End this process within half a second after its parent is gone.

    Args:
        folder: a folder to remove at that time.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
