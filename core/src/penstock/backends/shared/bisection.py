"""Doing something for many runs at once; where that fails, one bad run fails alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from penstock.errors import Interrupted, PenstockError

T = TypeVar("T")


def bisected(
    run_ids: Sequence[str],
    together: Callable[[Sequence[str]], Mapping[str, T]],
    alone: Callable[[str], T],
) -> dict[str, T | PenstockError]:
    """The outcome for each run, or the error with which it failed alone.

    Parameters:
        together: does it for several, or raises and leaves nothing done.
        alone: does it for one.

    Raises:
        Interrupted: at once.
    """
    if len(run_ids) > 1:
        try:
            return dict(together(run_ids))
        except Interrupted:
            raise
        except PenstockError:
            middle = len(run_ids) // 2
            first, second = run_ids[:middle], run_ids[middle:]
            return bisected(first, together, alone) | bisected(second, together, alone)
    found: dict[str, T | PenstockError] = {}
    for run_id in run_ids:
        try:
            found[run_id] = alone(run_id)
        except Interrupted:
            raise
        except PenstockError as error:
            found[run_id] = error
    return found
