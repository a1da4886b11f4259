"""How long to wait before another attempt.

tenacity is imported only when something is retried: with the modules it looks for (asyncio,
tornado) the import takes 10 ms of CPU time, measured.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenacity.wait import wait_base


@cache
def backoff_wait() -> wait_base:
    """Return the wait of `backoff` for tenacity."""
    from tenacity import wait_exponential, wait_random  # noqa: PLC0415 - see above

    return wait_exponential(multiplier=0.5, max=30) + wait_random(0, 0.5)


def backoff(attempt: int) -> float:
    """Return the seconds to wait before the attempt after this one."""
    from tenacity import RetryCallState  # noqa: PLC0415 - see above

    state = RetryCallState(None, None, (), {})  # type: ignore[arg-type] # only the number counts
    state.attempt_number = attempt
    return float(backoff_wait()(state))
