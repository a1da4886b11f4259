"""Asking or doing something for many at once, with failures isolated by bisection."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

from penstock.errors import Interrupted, PenstockError

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
E = TypeVar("E", bound=Exception)


def halved(
    keys: Sequence[K],
    do_several: Callable[[Sequence[K]], Mapping[K, T]],
    refusal: type[E] | tuple[type[E], ...],
    lasting: Callable[[E], bool] = lambda error: True,
) -> tuple[dict[K, T], dict[K, E]]:
    """Return the answer for each key, and the errors of those that fail alone.

    Args:
        keys: the keys, each answered once.
        do_several: asks about several at once.
        refusal: the exception that one of them may have caused.
        lasting: whether one of them caused it. Other errors are raised at once.
    """
    if not keys:
        return {}, {}
    try:
        return dict(do_several(keys)), {}
    except refusal as error:
        if not lasting(error):
            raise
        if len(keys) == 1:
            return {}, {keys[0]: error}
    middle = len(keys) // 2
    answers, errors = halved(keys[:middle], do_several, refusal, lasting)
    more, further = halved(keys[middle:], do_several, refusal, lasting)
    return answers | more, errors | further


def is_no_interruption(error: Exception) -> bool:
    """Whether an error may be the fault of what was asked about."""
    return not isinstance(error, Interrupted)


def bisected(
    run_ids: Sequence[str],
    do_several: Callable[[Sequence[str]], Mapping[str, T]],
    do_one: Callable[[str], T],
) -> dict[str, T | PenstockError]:
    """Return the outcome for each run, or the error with which it failed alone.

    Args:
        run_ids: the ids of the runs.
        do_several: handles several runs, or raises and leaves nothing done.
        do_one: handles one run.

    Raises:
        Interrupted: at once.
    """

    def do(some: Sequence[str]) -> Mapping[str, T]:
        return do_several(some) if len(some) > 1 else {some[0]: do_one(some[0])}

    done, failed = halved(run_ids, do, PenstockError, is_no_interruption)
    return {**done, **failed}
