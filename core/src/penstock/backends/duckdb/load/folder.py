"""The folder beside a database file: who may open the file now, and what is staged for it.

DuckDB lets one process write to a file. Those of Penstock take turns by a lock on a file in that
folder; staged partitions lie there too, each locked by the process that writes it. A lock goes with
its process, however that ends. The folder is removed when nothing is left in it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import quote, unquote

from penstock.backends.shared.presence import is_at, try_lock
from penstock.errors import Diagnosis, PermanentError, TransientError

LOCK = "lock"
SUFFIX = ".arrows"
POLL = 0.02


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
    deadline = time.monotonic() + patience if patience else None
    descriptor = _locked(path, deadline)
    try:
        yield
    finally:
        _tidy(path)
        os.close(descriptor)


def _locked(path: str, deadline: float | None) -> int:
    name = os.path.join(folder_of(path), LOCK)
    while True:
        descriptor = create(path, LOCK)
        try:
            while True:
                if try_lock(descriptor):
                    # Whoever had it before may have removed the file.
                    if is_at(descriptor, name):
                        os.ftruncate(descriptor, 0)
                        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
                        return descriptor
                    break
                if deadline is not None and time.monotonic() > deadline:
                    held = os.pread(descriptor, 20, 0).decode(errors="replace")
                    raise TransientError(
                        f"target: {path} is open for writing in another process (PID {held}); "
                        "expected that it ends within the stall timeout",
                        Diagnosis(side="target"),
                    )
                time.sleep(POLL)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def create(path: str, name: str) -> int:
    """A descriptor of a file in the folder, which is made where it is missing.

    Raises:
        PermanentError: it cannot be made.
    """
    folder = folder_of(path)
    while True:
        try:
            os.makedirs(folder, exist_ok=True)
            return os.open(os.path.join(folder, name), os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:
            if not os.path.isdir(os.path.dirname(path)):
                raise PermanentError(
                    f"target: expected a folder {os.path.dirname(path)} for {path}, found none",
                    Diagnosis(side="target"),
                ) from None
            continue  # somebody removes it at this moment
        except OSError as error:
            raise PermanentError(
                f"target: expected that {folder} can be written, for what is staged; found: "
                f"{error.strerror}",
                Diagnosis(side="target"),
            ) from error


def tidy(path: str) -> None:
    """Remove the folder unless something else is in it. Somebody who has the lock does that."""
    name = os.path.join(folder_of(path), LOCK)
    try:
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        return
    try:
        if try_lock(descriptor) and is_at(descriptor, name):
            _tidy(path)
    finally:
        os.close(descriptor)


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
        try:
            descriptor = os.open(self.file, os.O_RDWR)
        except OSError:
            return False
        try:
            return not try_lock(descriptor)
        finally:
            os.close(descriptor)


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
