"""One snapshot for all runs of a batch, taken on first use, released after the last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.backends.api.source import (
    ExplainedLoss,
    HeldSnapshot,
    LockingSnapshot,
    SnapshotWindow,
    SourceCatalog,
    WaitingSession,
    WindowedSnapshot,
)
from penstock.model.snapshots import Snapshot
from penstock.model.tables import Relation


class Opener(Protocol):
    """Takes snapshots; see `SnapshotOpener`."""

    def hold(self, relations: Sequence[Relation]) -> tuple[HeldSnapshot, float]: ...


class SharedSnapshot:
    """One snapshot, shared by all runs of a batch.

    Args:
        opener: takes the snapshot.
        relations: returns what will be read with it; called when it is taken.
    """

    def __init__(self, opener: Opener, relations: Callable[[], Sequence[Relation]]) -> None:
        self._opener = opener
        self._relations = relations
        self._snapshot: HeldSnapshot | None = None
        self._since = 0.0
        self._shares: set[Share] = set()

    def share(self) -> tuple[Share, float]:
        """Return a share of the snapshot, and the time it was taken by the monotonic clock.

        Once every share is closed, the snapshot is released; the next share takes a new one.
        """
        if self._snapshot is not None and not self._snapshot.is_alive():
            self._shares.clear()  # the snapshot that they share is lost
            self.close()
        if self._snapshot is None:
            self._snapshot, self._since = self._opener.hold(self._relations())
        locking = isinstance(self._snapshot, LockingSnapshot)
        share = (_LockingShare if locking else Share)(self, self._snapshot)
        self._shares.add(share)
        return share, self._since

    def give_back(self, share: Share) -> None:
        """End a share; the last one releases the snapshot."""
        if share in self._shares:
            self._shares.remove(share)
            if not self._shares:
                self.close()

    def close(self) -> None:
        """Release the snapshot, if it was taken."""
        if self._snapshot is not None:
            self._snapshot.close()
            self._snapshot = None


class Share:
    """A share of a snapshot, which ends with the last of its shares."""

    def __init__(self, shared: SharedSnapshot, snapshot: HeldSnapshot) -> None:
        self._shared = shared
        self._snapshot = snapshot
        self.snapshot: Snapshot = snapshot.snapshot

    def is_alive(self) -> bool:
        return self._snapshot.is_alive()

    def why_lost(self) -> str:
        return self._snapshot.why_lost() if isinstance(self._snapshot, ExplainedLoss) else ""

    def window(self, relations: Sequence[Relation]) -> SnapshotWindow | None:
        """Lock the relations if the snapshot has not; see `WindowedSnapshot`."""
        if not isinstance(self._snapshot, WindowedSnapshot):
            return None
        return self._snapshot.window(relations)

    def close(self) -> None:
        self._shared.give_back(self)


class _LockingShare(Share):
    """A share of a snapshot that other sessions wait for."""

    _snapshot: LockingSnapshot

    def waiting_sessions(self) -> Sequence[WaitingSession]:
        return self._snapshot.waiting_sessions()

    def catalog(self, check_waiting: Callable[[Sequence[WaitingSession]], None]) -> SourceCatalog:
        return self._snapshot.catalog(check_waiting)
