"""Waiting for what a process of another program does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(ask: Callable[[], T | None], timeout: float, otherwise: Callable[[], str]) -> T:
    """Ask again and again until there is an answer that is not None. Returns it.

    Parameters:
        timeout: in seconds.
        otherwise: gives the error's message.

    Raises:
        TimeoutError: there was none in time.
    """
    deadline = time.monotonic() + timeout
    while True:
        if (found := ask()) is not None:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {timeout:g} s: {otherwise()}")
        time.sleep(0.2)
