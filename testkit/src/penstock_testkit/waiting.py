"""Waiting for what a process of another program does."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# How long after an answer is asked again, in seconds.
SOONEST, LATEST = 0.1, 1.0


def until(
    ask: Callable[[], T | None],
    timeout: float,
    otherwise: Callable[[], str],
    soonest: float = SOONEST,
) -> T:
    """Ask again and again until there is an answer that is not None. Returns it.

    The longer it takes to answer, the more seldom it is asked: who waits must not keep a machine
    busy that is slow because it is busy.

    Parameters:
        timeout: in seconds.
        otherwise: gives the error's message.
        soonest: how long after an answer is asked again.

    Raises:
        TimeoutError: there was none in time.
    """
    deadline = time.monotonic() + timeout
    while True:
        asked = time.monotonic()
        if (found := ask()) is not None:
            return found
        answered = time.monotonic()
        if answered > deadline:
            raise TimeoutError(f"after {timeout:g} s: {otherwise()}")
        time.sleep(min(max(soonest, 10 * (answered - asked)), LATEST))


def end_when_orphaned(folder: str) -> None:
    """Have this process end, in half a second, when the one that started it is gone.

    Parameters:
        folder: is removed then.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
