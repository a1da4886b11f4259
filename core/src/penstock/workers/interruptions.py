"""Where a signal handler may raise an exception, what it leaves behind, and what may swallow it.

A module that tries several implementations, as drivers do, takes any exception for a missing one,
and a search for entry points takes it for an unreadable folder. The interpreter drops an exception
in a `__del__`. There the signal is put off. A driver may still take the exception for an error of
its own: then it is raised again by what would go on for long.
"""

from __future__ import annotations

import os
import sys
import threading
from types import FrameType
from typing import NoReturn

from penstock.errors import Interrupted, PenstockError

AGAIN_SECONDS = 0.02
_MACHINERY = "importlib"
_DROPPED = "generator ignored GeneratorExit"
"""The interpreter's warning about a generator that waits again while it is closed."""


class _Interruption:
    """The interruption of this process that was raised, and has not ended what it interrupted."""

    message: str | None = None


def interrupt(message: str) -> NoReturn:
    """Raise an interruption, and have it raised again if something swallows it: see `raise_again`.

    Raises:
        Interrupted: with the message.
    """
    _Interruption.message = message
    raise Interrupted(message)


def raise_again() -> None:
    """Raise an interruption again that what is running has not noticed.

    Raises:
        Interrupted: `interrupt` was called, and `forget` has not been called since.
    """
    if _Interruption.message is not None:
        raise Interrupted(_Interruption.message)


def forget() -> None:
    """Note that whatever was interrupted has ended."""
    _Interruption.message = None


def cause_of(error: BaseException) -> BaseException:
    """Return the interruption that must have caused an unexpected error, or else that error.

    A database's library may run signal handlers during a query, and turn what they raise into an
    error of its own.
    """
    expected = isinstance(error, PenstockError) or not isinstance(error, Exception)
    message = _Interruption.message
    return error if expected or message is None else Interrupted(message)


def is_deferred(number: int, frame: FrameType | None) -> bool:
    """Whether a signal arrived where an exception would get lost, and was put off.

    Args:
        number: the number of the signal.
        frame: the frame that it interrupted.
    """
    while frame is not None:
        module = str(frame.f_globals.get("__name__")).partition(".")[0]
        if module == _MACHINERY or frame.f_code.co_name == "__del__":
            repetition = threading.Timer(AGAIN_SECONDS, os.kill, (os.getpid(), number))
            repetition.daemon = True
            repetition.start()
            return True
        frame = frame.f_back
    return False


def expect_dropped_calls() -> None:
    """Stop reporting what an interruption leaves behind, because from now on there may be one.

    A driver may leave a call through a generator that waits for its server again when it is closed.
    A thread that was interrupted while it was started is no longer listed when it begins.
    """
    report = sys.unraisablehook

    def report_unless_dropped(unraisable: sys.UnraisableHookArgs) -> None:
        error = unraisable.exc_value
        is_wait = isinstance(error, RuntimeError) and str(error) == _DROPPED
        is_start = isinstance(error, KeyError) and isinstance(error.args[0], threading.Thread)
        if not (is_wait or is_start):
            report(unraisable)

    sys.unraisablehook = report_unless_dropped
