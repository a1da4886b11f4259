"""Files and folders that take long to create, created once and kept."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cached_path(folder: str, name: str, make: Callable[[Path], None]) -> Path:
    """Return a file or folder that is created once and kept.

    It is in $PENSTOCK_CACHE or else ~/.cache/penstock; if neither can be written, in the temporary
    directory.

    Args:
        folder: the folder that contains it.
        name: its name, which must include everything that its contents depend on.
        make: writes it to the path in its argument.
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
            unfinished = path.with_name(f".making-{name}")
            # A killed process may have left a folder; a file is simply overwritten.
            shutil.rmtree(unfinished, ignore_errors=True)
            make(unfinished)
            unfinished.rename(path)
    return path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock between processes, waiting for it if necessary."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
