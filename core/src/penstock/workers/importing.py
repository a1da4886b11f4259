"""Signals that come while a module is imported: what they raise would get lost there.

A module that tries several implementations, as a driver does, takes any exception for a missing
one.
"""

from __future__ import annotations

import os
import threading
from types import FrameType

AGAIN_SECONDS = 0.02
_MACHINERY = "<frozen importlib._bootstrap>"


def put_off(number: int, frame: FrameType | None) -> bool:
    """Whether an import is under way where a signal was caught; then it comes again a bit later.

    Parameters:
        number, frame: as its handler is given them.
    """
    while frame is not None:
        if frame.f_code.co_filename == _MACHINERY:
            again = threading.Timer(AGAIN_SECONDS, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
            return True
        frame = frame.f_back
    return False
