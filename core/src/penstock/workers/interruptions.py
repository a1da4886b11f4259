"""Where a signal handler may raise an exception, and what the exception leaves behind.

A module that tries several implementations, as drivers do, takes any exception for a missing one,
and a search for entry points takes it for an unreadable folder. There the exception would be lost.
"""

from __future__ import annotations

import os
import sys
import threading
from types import FrameType

AGAIN_SECONDS = 0.02
_MACHINERY = "importlib"
_DROPPED = "generator ignored GeneratorExit"
"""The interpreter's warning about a generator that waits again while it is closed."""


def is_deferred(number: int, frame: FrameType | None) -> bool:
    """Whether a signal arrived during an import or a search for one, and was put off.

    Args:
        number: the number of the signal.
        frame: the frame that it interrupted.
    """
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] == _MACHINERY:
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
