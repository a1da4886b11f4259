"""Wait for an older attempt at the same partition, and end one that makes no progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from penstock.backends.api.execution.attempt import Attempt, AttemptLock, BeginResult, Standing
from penstock.backends.api.worker import Wait
from penstock.backends.shared.attempts.refusals import locked_by_others, taken

K = TypeVar("K")
# Between two looks at an older attempt, at first and after a while: many may wait for it.
POLL_SECONDS, LONGEST_POLL_SECONDS = 0.2, 2.0


class Stalled(Generic[K]):
    """A detector of attempts without progress.

    Args:
        grace: seconds without progress before an attempt counts as stalled.
    """

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._last_signs: dict[K, tuple[object, float]] = {}

    def find(self, signs: Mapping[K, object]) -> list[K]:
        """Return those whose signs have not changed for the grace time.

        Each is returned again after another grace time without progress.

        Args:
            signs: values that change as each makes progress.
        """
        now = time.monotonic()
        stalled = []
        for each, sign in signs.items():
            if each not in self._last_signs or self._last_signs[each][0] != sign:
                self._last_signs[each] = (sign, now)
            elif now - self._last_signs[each][1] >= self._grace:
                stalled.append(each)
                self._last_signs[each] = (sign, now)
        return stalled


def lock_partition(hooks: AttemptLock, attempt: Attempt, wait: Wait) -> bool:
    """Lock an attempt's partition; wait for an older attempt as `await_older` does.

    Args:
        hooks: the backend's part of the lock.
        attempt: the attempt.
        wait: waits until a socket is ready, and raises `StallError`.

    Returns:
        whether the lock was free at once; if not, an older attempt may have committed.

    Raises:
        TransientError: another process has locked the partition.
    """
    tries = 0

    def begin(this: Attempt) -> BeginResult:
        nonlocal tries
        tries += 1
        return BeginResult(older_attempts=hooks.lock(this))

    await_older(begin, hooks.end_older, attempt, wait)
    return tries == 1


def await_older(
    begin: Callable[[Attempt], BeginResult],
    end_older: Callable[[Attempt, Any], None],
    attempt: Attempt,
    wait: Wait,
) -> Standing | None:
    """Begin an attempt; wait for an older one at its partition as long as that makes progress.

    An older attempt without progress for the grace time belongs to a worker that was stopped or cut
    off, and is ended.

    Args:
        begin: begins the attempt, and reports older ones that are in its way.
        end_older: ends an older attempt, given what stands in its way.
        attempt: the attempt.
        wait: waits until a socket is ready, and raises `StallError`.

    Returns:
        anything else that prevents the attempt.

    Raises:
        Taken: there is an older attempt, and the run leaves its partition to it.
        TransientError: another process has locked the partition.
    """
    stalled: Stalled[object] = Stalled(attempt.spec.grace)
    explained_at = time.monotonic()
    pause = POLL_SECONDS
    while True:
        with wait.answering("target"):
            result = begin(attempt)
        if result.older_attempts is None:
            return result.standing
        if attempt.spec.leaves_taken:
            raise taken(attempt)
        for each in stalled.find(result.older_attempts):
            end_older(attempt, each)
        now = time.monotonic()
        if result.older_attempts:
            explained_at = now
        elif now - explained_at > 3 * attempt.spec.grace + 1:
            raise locked_by_others(attempt)
        time.sleep(pause)
        pause = min(LONGEST_POLL_SECONDS, pause * 1.5)
