"""A separate folder next to a file-based target, with a target of its own, for measurements.

Its creator keeps a file in it locked: see `locked_files`.
"""

from __future__ import annotations

import os
import shlex
import shutil
from abc import ABC, abstractmethod
from contextlib import suppress

from penstock.backends.shared.attempts.locked_files import is_locked, locked
from penstock.backends.shared.scratch_schema import NAMED, NEEDED_BY, scratch_name
from penstock.errors import Diagnosis, PlanningError, TransientError
from penstock.model.tables import TableRef

_LOCK = "lock"


class ScratchFolder(ABC):
    """See `Scratch`.

    Args:
        target_path: the target's path, which need not exist.
    """

    table: TableRef | None = None

    def __init__(self, target_path: str) -> None:
        self._target_path = target_path
        self._descriptor: int | None = None
        self.name = scratch_name()
        self.folder = f"{target_path}.{self.name}"
        self.place = f"folder {self.folder}"
        self.target: str | None = self._target()
        self.removal = f"rm -r {shlex.quote(self.folder)}"
        self.remarks: tuple[str, ...] = ()
        parent = os.path.dirname(target_path)
        if not os.path.isdir(parent) or not os.access(parent, os.W_OK | os.X_OK):
            raise PlanningError(
                f"{NEEDED_BY}: expected a writable folder {parent}, for a scratch folder beside "
                "the target; found none"
            )
        with suppress(FileNotFoundError):
            if os.stat(target_path).st_dev != os.stat(parent).st_dev:
                self.remarks = ("it is not on the file system of the target",)

    @abstractmethod
    def _target(self) -> str:
        """Return the URL of the target in the folder."""

    @abstractmethod
    def _create(self) -> None:
        """Create what must be in the folder before the first copy."""

    @abstractmethod
    def make_table(self) -> None: ...

    def sweep(self) -> tuple[str, ...]:
        parent, name = os.path.split(self._target_path)
        swept = []
        for entry in sorted(os.listdir(parent)):
            folder = os.path.join(parent, entry)
            if (
                entry.startswith(f"{name}.")
                and NAMED.fullmatch(entry.removeprefix(f"{name}."))
                and not is_locked(os.path.join(folder, _LOCK))
            ):
                _remove(folder)
                swept.append(entry)
        return tuple(swept)

    def begin(self) -> None:
        self._descriptor = locked(
            self.folder, _LOCK, 1.0, lambda holder: f"{self.folder} is in use by process {holder}"
        )
        self._create()

    def drop(self) -> None:
        if self._descriptor is not None:
            _remove(self.folder)
            self.close()

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _remove(folder: str) -> None:
    """Remove a folder.

    Raises:
        TransientError: a process still writes to it, such as a worker whose parent was killed.
    """
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise TransientError(
            f"target: {folder} cannot be removed: {error.strerror}", Diagnosis(side="target")
        ) from error
