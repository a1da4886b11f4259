"""How long to wait before another attempt."""

from __future__ import annotations

from tenacity import RetryCallState, wait_exponential, wait_random
from tenacity.wait import wait_base

BACKOFF: wait_base = wait_exponential(multiplier=0.5, max=30) + wait_random(0, 0.5)


def backoff(attempt: int) -> float:
    """Seconds before the attempt that follows this one."""
    state = RetryCallState(None, None, (), {})  # type: ignore[arg-type] # only the number counts
    state.attempt_number = attempt
    return float(BACKOFF(state))
