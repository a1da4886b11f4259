"""Calls from outside, each with its own choice of whether values of rows are shown."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from functools import wraps
from typing import ParamSpec, TypeVar

from penstock.errors import PenstockError
from penstock.model.awaited import watching
from penstock.model.values import are_shown
from penstock.spec.terms import in_callers_terms

P = ParamSpec("P")
R = TypeVar("R")


def isolate_display(call: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that its choice (`values.choose`) ends with it and covers its errors."""

    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        with _for_the_caller(), watching():
            return call(*args, **kwargs)

    @wraps(call)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        return copy_context().run(guarded, *args, **kwargs)

    return called


def isolate_generator_display(
    call: Callable[P, Generator[R, None, None]],
) -> Callable[P, Generator[R, None, None]]:
    """Wrap a generator like `isolate_display`; between items, the choice is the caller's again."""

    @wraps(call)
    def called(*args: P.args, **kwargs: P.kwargs) -> Generator[R, None, None]:
        context = copy_context()
        items = call(*args, **kwargs)

        def following() -> tuple[R, ...]:
            with _for_the_caller():
                for item in items:
                    return (item,)
                return ()

        watch = watching()
        context.run(watch.__enter__)
        try:
            while result := context.run(following):
                yield result[0]
        finally:
            context.run(items.close)
            context.run(watch.__exit__, None, None, None)

    return called


@contextmanager
def _for_the_caller() -> Iterator[None]:
    """Raise errors without the driver's own error, because a traceback would show the values in it.

    Options are named in the caller's terms.
    """
    try:
        yield
    except PenstockError as error:
        in_callers_terms(error)
        if not are_shown():
            error.__cause__ = error.__context__ = None
            error.__suppress_context__ = True
        raise
