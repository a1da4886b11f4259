"""Tests that run beside each other, since most of their time they wait for a stack of processes.

The first one of a file begins all of them, each in a thread, and each reports in its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

import pytest

Case = Callable[[Any], None]


class SideBySide:
    """Cases that have begun, or will as soon as others are done.

    Args:
        run: runs a case to its end.
        at_once: how many run at the same time.
    """

    def __init__(self, cases: list[Case], run: Callable[[Case], None], at_once: int) -> None:
        self._pool = ThreadPoolExecutor(at_once)
        self._outcomes = {case: self._pool.submit(run, case) for case in cases}

    def outcome(self, case: Case) -> None:
        """Wait for the end of a case, and raise what it has raised."""
        self._outcomes[case].result()

    def wait(self) -> None:
        """Wait for the end of all of them."""
        wait(self._outcomes.values())

    def close(self) -> None:
        """Begin no more. Those that run end when they find what they need gone."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def side_by_side(case: Case) -> Callable[[SideBySide], None]:
    """Make a test of a case; its file has a fixture `cases` that runs them, see `begun`."""

    def test(cases: SideBySide) -> None:
        cases.outcome(case)

    # Not by functools.wraps: pytest would look for the arguments of the case.
    test.__name__ = case.__name__
    test.__doc__ = case.__doc__
    test.__module__ = case.__module__
    test.case = case  # type: ignore[attr-defined]
    return test


@contextmanager
def begun(
    request: pytest.FixtureRequest, run: Callable[[Case], None], at_once: int
) -> Iterator[SideBySide]:
    """Begin the cases of a file that are to be tested, in their order.

    Args:
        request: of a fixture with the scope of a module.
        run, at_once: those of `SideBySide`.
    """
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    here = [item for item in items if item.module is request.module]
    cases = SideBySide([case for item in here for case in _cases_of(item)], run, at_once)
    try:
        yield cases
    finally:
        cases.close()


def _cases_of(item: pytest.Function) -> list[Case]:
    """The case that a test is made of, or that is its parameter `case`."""
    if hasattr(item.function, "case"):
        return [item.function.case]
    callspec = getattr(item, "callspec", None)
    return [] if callspec is None or "case" not in callspec.params else [callspec.params["case"]]
