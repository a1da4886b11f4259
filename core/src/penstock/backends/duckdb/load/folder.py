"""The folder beside a database file: who may open the file now, and what is staged for it.

DuckDB lets one process write to a file. Those of Penstock take turns by a lock on a file in that
folder; staged partitions lie there too, each locked by the process that writes it. A lock goes with
its process, however that ends. The folder is removed when nothing is left in it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import quote, unquote

from penstock.backends.shared import locked_files
from penstock.backends.shared.locked_files import POLL, is_locked, locked
from penstock.errors import PenstockError

LOCK = "lock"
SUFFIX = ".arrows"


def folder_of(path: str) -> str:
    return f"{path}.penstock"


@contextmanager
def turn(path: str, patience: float) -> Iterator[None]:
    """Have the database file to oneself, among all that go by this lock.

    Parameters:
        patience: seconds to wait for it; 0: for ever.

    Raises:
        TransientError: somebody else had it for all that time.
        PermanentError: the folder cannot be made.
    """
    descriptor = locked(
        folder_of(path),
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
        _tidy(path)
        os.close(descriptor)


def create(path: str, name: str) -> int:
    """A descriptor of a file in the folder; see `locked_files.create`."""
    return locked_files.create(folder_of(path), name)


def tidy(path: str) -> None:
    """Remove the folder unless something else is in it. Somebody who has a turn does that."""
    if os.path.isdir(folder_of(path)):
        with suppress(PenstockError), turn(path, POLL):
            pass


def _tidy(path: str) -> None:
    """Remove the folder unless something else is in it. Done by who has the lock."""
    folder = folder_of(path)
    with suppress(OSError):
        if os.listdir(folder) == [LOCK]:
            os.unlink(os.path.join(folder, LOCK))
            os.rmdir(folder)


@dataclass(frozen=True, slots=True)
class Staged:
    """A file that an attempt writes, or has left behind."""

    run_id: str
    partition_id: str
    attempt: int
    file: str

    @property
    def bytes(self) -> int:
        with suppress(OSError):
            return os.stat(self.file).st_size
        return 0

    def is_alive(self) -> bool:
        """Whether a process has it locked; also False where it is gone."""
        return is_locked(self.file)


def stage_name(run_id: str, partition_id: str, attempt: int, nonce: str) -> str:
    return "~".join((quote(run_id, ""), quote(partition_id, ""), str(attempt), nonce)) + SUFFIX


def staged(path: str) -> list[Staged]:
    """All that is staged for a database, by whatever run."""
    folder = folder_of(path)
    found = []
    with suppress(FileNotFoundError):
        for name in sorted(os.listdir(folder)):
            parts = name.removesuffix(SUFFIX).split("~")
            if name.endswith(SUFFIX) and len(parts) == 4 and parts[2].isdecimal():
                run_id, partition_id = map(unquote, parts[:2])
                file = os.path.join(folder, name)
                found.append(Staged(run_id, partition_id, int(parts[2]), file))
    return found


def sweep(path: str) -> None:
    """Remove what dead attempts have staged."""
    for each in staged(path):
        if not each.is_alive():
            with suppress(FileNotFoundError):
                os.unlink(each.file)
