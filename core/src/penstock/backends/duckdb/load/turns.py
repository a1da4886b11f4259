"""Whose turn it is at a database file.

DuckDB lets one process write to a file. Those of Penstock take turns by a lock on a file in the
folder beside it. A lock goes with its process, however that ends. The folder is removed when
nothing is left in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from penstock.backends.shared.attempts.locked_files import locked

LOCK = "lock"


@contextmanager
def turn(path: str, folder: str, patience: float) -> Iterator[None]:
    """Have the database file to oneself, among all that go by this lock.

    Parameters:
        patience: seconds to wait for it; 0: for ever.

    Raises:
        TransientError: somebody else had it for all that time.
        PermanentError: the folder cannot be made.
    """
    descriptor = locked(
        folder,
        LOCK,
        patience,
        lambda holder: (
            f"target: {path} is open for writing in another process (PID {holder}); "
            "expected that it ends within the stall timeout"
        ),
    )
    try:
        yield
    finally:
        _tidy(folder)
        os.close(descriptor)


def _tidy(folder: str) -> None:
    """Remove the folder unless something else is in it. Done by who has the lock."""
    with suppress(OSError):
        if os.listdir(folder) == [LOCK]:
            os.unlink(os.path.join(folder, LOCK))
            os.rmdir(folder)
