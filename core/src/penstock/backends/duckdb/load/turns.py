"""Turns at a database file.

DuckDB lets one process write to a file. Penstock's processes take turns by locking a file in the
folder next to it. A lock ends with its process for any reason. The folder is removed when it is
empty.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from penstock.backends.shared.attempts.locked_files import locked

LOCK = "lock"


@contextmanager
def turn(path: str, folder: str, patience: float) -> Iterator[None]:
    """Hold the database file exclusively, among processes that use this lock.

    Args:
        path: the database file, for messages.
        folder: the folder next to it that holds the lock.
        patience: seconds to wait for the turn; 0 for no limit.

    Raises:
        TransientError: another process had it for all that time.
        PermanentError: the folder cannot be created.
    """
    descriptor = locked(
        folder,
        LOCK,
        patience,
        lambda holder: (
            f"target: {path} is open for writing in another process (PID {holder}), which did not "
            "close it within the stall timeout; wait for that process or end it, then resume"
        ),
    )
    try:
        yield
    finally:
        _tidy(folder)
        os.close(descriptor)


def _tidy(folder: str) -> None:
    """Remove the folder if it is empty. Called by the holder of the lock."""
    with suppress(OSError):
        if os.listdir(folder) == [LOCK]:
            os.unlink(os.path.join(folder, LOCK))
            os.rmdir(folder)
