"""Files and folders that take long to make, made once and kept."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def kept(folder: str, name: str, make: Callable[[Path], None]) -> Path:
    """A file or folder that is made once and kept in $PENSTOCK_CACHE, or else ~/.cache/penstock.

    Where neither can be written it is made in the temporary directory.

    Parameters:
        folder: in which it is.
        name: its own; says all that its contents depend on.
        make: writes it to the path it is given.
    """
    place = Path(os.environ.get("PENSTOCK_CACHE") or Path.home() / ".cache/penstock") / folder
    try:
        place.mkdir(parents=True, exist_ok=True)
        (place / ".lock").touch()
    except OSError:
        place = Path(tempfile.gettempdir()) / f"penstock-{folder}-{os.getuid()}"
        place.mkdir(parents=True, exist_ok=True)
    path = place / name
    with locked(place / f".lock-{name}"):
        if not path.exists():
            making = path.with_name(f".making-{name}")
            # A folder of a process that was killed at it; a file is written over.
            shutil.rmtree(making, ignore_errors=True)
            make(making)
            making.rename(path)
    return path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock that no other process holds at the same time; waits for it."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
