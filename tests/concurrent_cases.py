"""Tests that run concurrently, because they mostly wait for other processes.

The first test of a file starts them all, each in a thread, and each test reports its own result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

import pytest

Case = Callable[[Any], None]


class ConcurrentCases:
    """Cases that have started, or start as soon as others end.

    Args:
        run: the function that runs a case to its end.
        at_once: the number of cases that run at the same time.
    """

    def __init__(self, cases: list[Case], run: Callable[[Case], None], at_once: int) -> None:
        self._pool = ThreadPoolExecutor(at_once)
        self._outcomes = {case: self._pool.submit(run, case) for case in cases}

    def outcome(self, case: Case) -> None:
        """Wait for the end of a case, and raise its error, if any."""
        self._outcomes[case].result()

    def wait(self) -> None:
        """Wait for the end of all cases."""
        wait(self._outcomes.values())

    def close(self) -> None:
        """Start no more cases. Running ones end when their resources are gone."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def concurrent_test(case: Case) -> Callable[[ConcurrentCases], None]:
    """Turn a case into a test; its file has a fixture `cases` that runs the cases, see `begun`."""

    def test(cases: ConcurrentCases) -> None:
        cases.outcome(case)

    # Not functools.wraps, because pytest would look for the arguments of the case.
    test.__name__ = case.__name__
    test.__doc__ = case.__doc__
    test.__module__ = case.__module__
    test.case = case  # type: ignore[attr-defined]
    return test


@contextmanager
def start_cases(
    request: pytest.FixtureRequest, run: Callable[[Case], None], at_once: int
) -> Iterator[ConcurrentCases]:
    """Start the cases of a file that are to be tested, in their order.

    Args:
        request: the request of a fixture with module scope.
        run, at_once: see `ConcurrentCases`.
    """
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    own_items = [item for item in items if item.module is request.module]
    cases = ConcurrentCases([case for item in own_items for case in _cases_of(item)], run, at_once)
    try:
        yield cases
    finally:
        cases.close()


def _cases_of(item: pytest.Function) -> list[Case]:
    """Return the case that a test was created from, or that is its parameter `case`."""
    if hasattr(item.function, "case"):
        return [item.function.case]
    callspec = getattr(item, "callspec", None)
    return [] if callspec is None or "case" not in callspec.params else [callspec.params["case"]]
