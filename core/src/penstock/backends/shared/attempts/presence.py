"""The runs that are active on a table, where the target is a file system.

Each process keeps a file locked for each run that it executes. The kernel unlocks it when the
process ends for any reason; the next process removes the file.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from urllib.parse import quote, unquote

from penstock.backends.shared.attempts.locked_files import is_locked, locked
from penstock.backends.shared.private_files import open_new
from penstock.errors import PenstockError, PermanentError, TargetBusy, TransientError

LOCK = "lock"
# A process that looks for other runs reads a few files, and may wait for its turn at the target.
ENTER_SECONDS = 60.0
# A process that leaves only removes files.
LEAVE_SECONDS = 2.0


class Presence:
    """The active runs, as locked files.

    Args:
        folder: the folder for the locked files; created when needed, removed when empty.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._locked_files: dict[tuple[str, str], tuple[str, int]] = {}
        """Files and their descriptors, by run and the mark of its table."""

    def enter(
        self, tables: Mapping[str, str], check: Callable[[str, Sequence[str]], None]
    ) -> dict[str, PenstockError]:
        """Register this process; see `Presence` of the control store.

        Raises:
            TransientError: a stopped process prevents others from entering.
            PermanentError: the folder is not writable.
        """
        failed: dict[str, PenstockError] = {}
        if not tables:
            # a process that enters nothing leaves nothing, and would not remove the folder
            return failed
        with self._hold_lock(ENTER_SECONDS):
            runs_by_mark: dict[str, set[str]] = {}
            for mark, run in self._alive():
                runs_by_mark.setdefault(mark, set()).add(run)
            for run_id, table in tables.items():
                mark = _mark(table)
                run_ids = runs_by_mark.setdefault(mark, set())
                try:
                    check(run_id, sorted(run_ids - {run_id}))
                except TargetBusy as error:
                    failed[run_id] = error
                    continue
                run_ids.add(run_id)
                if (run_id, mark) not in self._locked_files:
                    self._locked_files[run_id, mark] = self._locked(f"{mark}~{quote(run_id, '')}~")
        return failed

    def _locked(self, begin: str) -> tuple[str, int]:
        path = os.path.join(self._folder, begin + secrets.token_hex(4))
        descriptor = open_new(path, os.O_RDWR)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return path, descriptor

    def take_turns(self, names: Sequence[str]) -> frozenset[str]:
        """Take locks that only one process has at a time; see `Presence` of the control store."""
        if not names:
            return frozenset()
        with self._hold_lock(ENTER_SECONDS):
            held = {mark for mark, _ in self._alive()}
            entries = {name: (name, _turn_mark(name)) for name in names}
            for name, entry in entries.items():
                if entry[1] not in held:
                    begin = f"{entry[1]}~{quote(name, '')}~"
                    self._locked_files[entry] = self._locked(begin)
        return frozenset(name for name in names if entries[name] in self._locked_files)

    def end_turns(self, names: Sequence[str]) -> None:
        """Release such locks."""
        self._leave([(name, _turn_mark(name)) for name in names])

    def executed(self) -> set[str]:
        """Return the runs that other processes execute now, on any table."""
        if not os.path.isdir(self._folder):
            return set()
        with self._hold_lock(ENTER_SECONDS):
            return {run_id for _, run_id in self._alive()}

    def executes(self, run_id: str, table: str) -> bool:
        """Whether a process has entered and not left; changes nothing."""
        begin = f"{_mark(table)}~{quote(run_id, '')}~"
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return False
        return any(
            name.startswith(begin) and is_locked(os.path.join(self._folder, name)) for name in names
        )

    def leave(self, run_ids: Collection[str] | None = None) -> None:
        """Leave runs, and remove what killed processes have left. May be called twice.

        Args:
            run_ids: the runs to leave; all by default.
        """
        if run_ids is None:
            self._leave(list(self._locked_files), always=os.path.isdir(self._folder))
        else:
            self._leave([entry for entry in self._locked_files if entry[0] in run_ids])

    def _leave(self, entries: Collection[tuple[str, str]], *, always: bool = False) -> None:
        if not (always or self._locked_files.keys() & set(entries)):
            return
        with suppress(TransientError, PermanentError, OSError), self._hold_lock(LEAVE_SECONDS):
            self._release(entries)
            if not list(self._alive()):
                os.unlink(os.path.join(self._folder, LOCK))
                with suppress(OSError):  # it contains something else
                    os.rmdir(self._folder)
        self._release(entries)

    def _release(self, entries: Iterable[tuple[str, str]]) -> None:
        for entry in entries:
            if entry not in self._locked_files:
                continue
            path, descriptor = self._locked_files.pop(entry)
            with suppress(OSError):
                os.unlink(path)
            os.close(descriptor)

    def _alive(self) -> Iterator[tuple[str, str]]:
        """Yield the marks of tables and run ids of locked files; others are removed."""
        for name in os.listdir(self._folder):
            mark, _, suffix = name.partition("~")
            path = os.path.join(self._folder, name)
            if suffix and is_locked(path):
                yield mark, unquote(suffix.rpartition("~")[0])
            elif suffix:
                with suppress(FileNotFoundError):
                    os.unlink(path)

    @contextmanager
    def _hold_lock(self, patience: float) -> Iterator[None]:
        """Keep others from entering and leaving."""
        path = os.path.join(self._folder, LOCK)
        descriptor = locked(
            self._folder,
            LOCK,
            patience,
            lambda holder: (
                f"target: another process (PID {holder}) has kept {path} locked "
                f"for more than {patience:g} s (is it stopped?)"
            ),
        )
        try:
            yield
        finally:
            os.close(descriptor)


def _turn_mark(name: str) -> str:
    return _mark(f"turn {name}")


def _mark(table: str) -> str:
    return hashlib.sha256(table.encode()).hexdigest()[:16]
