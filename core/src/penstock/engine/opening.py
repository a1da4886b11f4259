"""Sessions opened concurrently: over a network, opening each takes as long as several queries."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from typing import Generic, Protocol, TypeVar

from penstock.backends.api.backend import Backend
from penstock.backends.api.source import HeldSnapshot, SnapshotSession, WithSnapshotSession
from penstock.model.awaited import during
from penstock.model.tables import Relation

# Seconds that a thread which is still connecting may take to finish.
LEAVE_SECONDS = 2.0


class _Closable(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=_Closable)


class PendingSession(Generic[T]):
    """A session opened on a separate thread.

    An error shows only when the session is taken, so an error of the target always comes first.

    Args:
        ahead: whether to open it now; otherwise it is opened when it is taken.
    """

    def __init__(self, open_it: Callable[[], T], *, ahead: bool) -> None:
        self._open_it = open_it
        self._lock = threading.Lock()
        self._is_open = True
        self._opened: T | None = None
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        if ahead:
            self._thread = threading.Thread(
                target=copy_context().run, args=(self._open,), daemon=True
            )
            self._thread.start()

    def _open(self) -> None:
        try:
            opened = self._open_it()
        except BaseException as error:
            self._error = error
            return
        with self._lock:
            if self._is_open:
                self._opened = opened
                return
        opened.close()

    def take(self) -> T:
        """Wait for the session, and transfer it to the caller.

        Raises:
            PenstockError: the session could not be opened.
        """
        if self._thread is None:
            return self._open_it()
        self._thread.join()
        if self._error is not None:
            raise self._error
        opened, self._opened = self._opened, None
        assert opened is not None, "taken before"
        return opened

    def close(self) -> None:
        """Close the session if it was not taken."""
        if self._thread is not None and self._error is None:
            with self._lock:
                self._is_open = False
                opened, self._opened = self._opened, None
            if opened is not None:
                opened.close()
            self._thread.join(LEAVE_SECONDS)


@contextmanager
def in_background(call: Callable[[], None]) -> Iterator[None]:
    """Run a call that raises nothing on a separate thread, for the duration of the block."""
    thread = threading.Thread(target=copy_context().run, args=(call,), daemon=True)
    thread.start()
    try:
        yield
    except BaseException:
        # Its server may have stopped answering: closing the session ends the call.
        thread.join(LEAVE_SECONDS)
        raise
    thread.join()


class SnapshotOpener:
    """Snapshots of a source. The session for the first is opened ahead of time if possible.

    Args:
        backend: the source's backend.
        url: the source's URL.
        ahead: whether to start opening the session now.
    """

    def __init__(self, backend: Backend, url: str, *, ahead: bool) -> None:
        self._backend = backend
        self.url = url
        self._opening: PendingSession[SnapshotSession] | None = None
        if ahead and isinstance(backend, WithSnapshotSession):
            self._opening = PendingSession(lambda: backend.snapshot_session(url), ahead=True)

    def hold(self, relations: Sequence[Relation]) -> tuple[HeldSnapshot, float]:
        """Take a snapshot.

        Returns: the snapshot, and the time at which it was taken, by the monotonic clock.

        Raises:
            PenstockError: as `Backend.hold_snapshot` raises it.
        """
        opening, self._opening = self._opening, None
        with during("taking the snapshot"):
            if opening is None:
                snapshot = self._backend.hold_snapshot(self.url, relations)
            else:
                snapshot = opening.take().hold(relations)
        return snapshot, time.monotonic()

    def close(self) -> None:
        """Close a session that was opened but not used for a snapshot."""
        if self._opening is not None:
            self._opening.close()
