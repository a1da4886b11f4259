"""Files that a process keeps locked, in a folder created when needed.

The kernel unlocks them when the process ends for any reason.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable

from penstock.backends.shared.private_files import make_own_folder, open_new
from penstock.errors import Diagnosis, PermanentError, TransientError

POLL = 0.02


def try_lock(descriptor: int) -> bool:
    """Lock an open file for this process alone, without waiting; return False if it is locked."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_at(descriptor: int, path: str) -> bool:
    """Whether an open file is still the one with that name."""
    try:
        by_path, by_descriptor = os.stat(path), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    return (by_path.st_dev, by_path.st_ino) == (by_descriptor.st_dev, by_descriptor.st_ino)


def is_locked(path: str) -> bool:
    """Whether a process has locked a file; False if the file is gone."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        return not try_lock(descriptor)
    finally:
        os.close(descriptor)


def create(folder: str, name: str) -> int:
    """Open a file, which may exist, and return its descriptor.

    Raises:
        PermanentError: the folder or the file cannot be created.
    """
    while True:
        try:
            make_own_folder(folder, os.path.dirname(folder))
            return open_new(os.path.join(folder, name), os.O_RDWR)
        except FileNotFoundError:
            continue  # the folder is being removed at this moment
        except OSError as error:
            raise PermanentError(
                f"target: cannot write to {folder}, where processes that load the target keep "
                f"staged rows and locks: {error.strerror}",
                Diagnosis(side="target"),
            ) from error


def locked(folder: str, name: str, patience: float, busy: Callable[[str], str]) -> int:
    """Lock a file, write this process's id into it, and return its descriptor.

    Args:
        folder: the folder of the file.
        name: the name of the file.
        patience: seconds to wait for the lock; 0 for no limit.
        busy: returns the error message, given the id of the process that holds the lock.

    Raises:
        TransientError: another process holds the lock for all that time.
        PermanentError: as for `create`.
    """
    deadline = time.monotonic() + patience if patience else None
    while True:
        descriptor = create(folder, name)
        try:
            while not try_lock(descriptor):
                if deadline is not None and time.monotonic() > deadline:
                    holder = os.pread(descriptor, 20, 0).decode(errors="replace")
                    raise TransientError(busy(holder), Diagnosis(side="target"))
                time.sleep(POLL)
            # The previous holder may have removed the file.
            if is_at(descriptor, os.path.join(folder, name)):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, str(os.getpid()).encode(), 0)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
