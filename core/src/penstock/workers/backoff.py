"""How long to wait before another attempt.

tenacity is imported when something is retried: with what it looks for (asyncio, tornado) it takes
10 ms of CPU, measured.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenacity.wait import wait_base


@cache
def growing() -> wait_base:
    """What `backoff` computes, as tenacity takes it."""
    from tenacity import wait_exponential, wait_random  # noqa: PLC0415 - see above

    return wait_exponential(multiplier=0.5, max=30) + wait_random(0, 0.5)


def backoff(attempt: int) -> float:
    """Seconds before the attempt that follows this one."""
    from tenacity import RetryCallState  # noqa: PLC0415 - see above

    state = RetryCallState(None, None, (), {})  # type: ignore[arg-type] # only the number counts
    state.attempt_number = attempt
    return float(growing()(state))
