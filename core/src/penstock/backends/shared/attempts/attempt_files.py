"""Files next to a database that show which attempts are active, and how far they have come.

Each is named after its attempt, which keeps it locked as long as it lives. It holds the staged
rows, so it grows while the attempt makes progress. Files of dead attempts are removed by the next
process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from secrets import token_hex
from urllib.parse import quote, unquote

from penstock.backends.api.execution.attempt import Attempt
from penstock.backends.api.execution.control import RunningAttempt
from penstock.backends.shared.attempts.locked_files import POLL, create, is_at, is_locked, try_lock
from penstock.errors import Diagnosis, TransientError

SUFFIX = ".arrows"


@dataclass(frozen=True, slots=True)
class AttemptFile:
    """The file of one attempt, found by its name; its process may be dead."""

    run_id: str
    partition_id: str
    attempt: int
    path: str

    @property
    def bytes(self) -> int:
        with suppress(OSError):
            return os.stat(self.path).st_size
        return 0

    @property
    def since(self) -> str:
        try:
            created = os.stat(self.path).st_ctime
        except FileNotFoundError:
            created = time.time()
        return datetime.fromtimestamp(created, UTC).isoformat(sep=" ")

    def is_alive(self) -> bool:
        """Whether a process holds the lock; False if the file is gone."""
        return is_locked(self.path)


class AttemptFiles:
    """The attempt files in a folder, of all runs. They are an `AttemptLock`."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def create(self, attempt: Attempt) -> tuple[str, int]:
        """Return the path and descriptor of a file that the attempt has locked."""
        names = quote(attempt.spec.run_id, ""), quote(attempt.partition.id, "")
        name = "~".join((*names, str(attempt.number), token_hex(4))) + SUFFIX
        path = os.path.join(self._folder, name)
        while True:
            descriptor = create(self._folder, name)
            # A process that is sweeping now may find it unlocked, and remove it.
            if try_lock(descriptor) and is_at(descriptor, path):
                return path, descriptor
            os.close(descriptor)

    def find_all(self) -> list[AttemptFile]:
        """Return all files, including those of dead attempts."""
        files = []
        with suppress(FileNotFoundError):
            for name in sorted(os.listdir(self._folder)):
                parts = name.removesuffix(SUFFIX).split("~")
                if name.endswith(SUFFIX) and len(parts) == 4 and parts[2].isdecimal():
                    run_id, partition_id = map(unquote, parts[:2])
                    path = os.path.join(self._folder, name)
                    files.append(AttemptFile(run_id, partition_id, int(parts[2]), path))
        return files

    def lock(self, attempt: Attempt) -> Mapping[str, int] | None:
        alive = self._alive(attempt.spec.run_id, [attempt.partition.id])
        return {each.path: each.bytes for each in alive} or None

    def _alive(self, run_id: str, partition_ids: Collection[str]) -> list[AttemptFile]:
        return [
            each
            for each in self.find_all()
            if each.run_id == run_id and each.partition_id in partition_ids and each.is_alive()
        ]

    def end_older(self, attempt: Attempt, older: str) -> None:
        """End an older attempt, which notices that its file is gone when it continues."""
        with suppress(FileNotFoundError):
            os.unlink(older)

    def sweep(self) -> None:
        """Remove what dead attempts have left behind."""
        for each in self.find_all():
            if not each.is_alive():
                with suppress(FileNotFoundError):
                    os.unlink(each.path)

    def running_attempts(self, run_id: str) -> tuple[RunningAttempt, ...]:
        return tuple(
            RunningAttempt(each.partition_id, each.attempt, "active", each.since, each.bytes)
            for each in self.find_all()
            if each.run_id == run_id and each.is_alive()
        )

    def wait(self, run_id: str, partition_ids: Collection[str], patience: float) -> None:
        """Wait until no attempt of these partitions is active.

        Args:
            run_id: the id of the run.
            partition_ids: the ids of the partitions.
            patience: seconds; 0 for no limit.

        Raises:
            TransientError: one is active for all that time.
        """
        deadline = time.monotonic() + patience if patience else None
        while partition_ids and self._alive(run_id, partition_ids):
            if deadline is not None and time.monotonic() > deadline:
                raise TransientError(
                    f"target: run {run_id}: partitions to copy again are being copied now; wait "
                    "until their attempts have ended",
                    Diagnosis(side="target"),
                )
            time.sleep(POLL)
