"""A handle on a snapshot: holds it, watches it, releases it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from penstock.backends.api.source import (
    ExplainedLoss,
    HeldSnapshot,
    LockingSnapshot,
    SourceCatalog,
    WaitingSession,
)
from penstock.errors import Blocked, Diagnosis, SnapshotLost
from penstock.events import Event, Warned
from penstock.model.snapshots import Snapshot

CHECK_INTERVAL = 1.0
WARN_AFTER = 3600.0
"""Seconds for which a snapshot is held before each warning that it still is."""
# Seconds between two checks for sessions that wait for the snapshot, and before a warning.
WAITING_INTERVAL = 1.0
QUIET = 3.0


class SnapshotHandle:
    """A holder of one snapshot at a time, or none.

    Args:
        run_id: the id of the run, for warnings.
        hold: takes a snapshot, and returns it with its time by the monotonic clock.
        burden: what holding a snapshot costs the source, for the warning.
        give_way_after: seconds for which a session may wait for a lock that the snapshot holds,
            before the run ends to let it proceed; None for no limit.
    """

    def __init__(
        self,
        run_id: str,
        hold: Callable[[], tuple[HeldSnapshot, float]],
        burden: str,
        give_way_after: float | None = None,
    ) -> None:
        self._burden = burden
        self._give_way_after = give_way_after
        self._waiting_since: dict[str, float] = {}
        """Sessions that wait, and since when they have been seen waiting."""
        self._reported: set[str] = set()
        self._noted: deque[Event] = deque()
        self._looked = 0.0
        self._run_id = run_id
        self._hold = hold
        self._snapshot: HeldSnapshot | None = None
        self.since = 0.0
        """The time at which it was taken, by the monotonic clock."""
        self._checked = 0.0
        self._warned = 0

    @property
    def holds(self) -> bool:
        """Whether a snapshot is held, lost or not."""
        return self._snapshot is not None

    def holds_alive(self) -> bool:
        """Whether a snapshot is held, and not lost."""
        return self._snapshot is not None and self._snapshot.is_alive()

    def why_lost(self) -> str:
        """Return the source's reason for the loss of the snapshot; empty if it gave none."""
        if isinstance(self._snapshot, ExplainedLoss) and not self._snapshot.is_alive():
            return self._snapshot.why_lost()
        return ""

    def take(self) -> Snapshot:
        """Take a snapshot."""
        self._snapshot, self.since = self._hold()
        self._warned = 0
        return self._snapshot.snapshot

    def join(self, hold: Callable[[], HeldSnapshot]) -> None:
        """Hold a snapshot that another process holds.

        Args:
            hold: holds it, and returns it.
        """
        self._snapshot, self.since = hold(), time.monotonic()
        self._warned = 0

    @property
    def token(self) -> str:
        """The token of the snapshot that is held; empty without one."""
        return "" if self._snapshot is None else self._snapshot.snapshot.token

    def watch(self) -> Iterator[Event]:
        """Check on the snapshot; cheap enough to be called all the time.

        Raises:
            SnapshotLost: its session has ended.
            Blocked: a session has waited for the snapshot's locks for longer than the run allows.
        """
        now = time.monotonic()
        if self._snapshot is None or now - self._checked < CHECK_INTERVAL:
            return
        self._checked = now
        if not self._snapshot.is_alive():
            raise SnapshotLost("source: the session that holds the snapshot has ended")
        if isinstance(self._snapshot, LockingSnapshot) and now - self._looked >= WAITING_INTERVAL:
            self._looked = now
            self.note_waiting(self._snapshot.waiting_sessions())
        yield from self.pending_warnings()
        if now - self.since >= WARN_AFTER * (self._warned + 1):
            self._warned += 1
            minutes = (now - self.since) / 60
            yield Warned(
                run_id=self._run_id,
                message=f"the snapshot has {self._burden} for {minutes:,.1f} minutes; it is "
                "released when the run ends",
            )

    def catalog(self) -> SourceCatalog | None:
        """Return a catalog that reads in the snapshot's own session; None if that is not needed.

        It is needed if other sessions may wait for the snapshot's locks.
        """
        if isinstance(self._snapshot, LockingSnapshot):
            return self._snapshot.catalog(self.note_waiting)
        return None

    def note_waiting(self, waiting: Sequence[WaitingSession]) -> None:
        """Note the sessions that wait for the snapshot.

        Raises:
            Blocked: a session has waited for too long.
        """
        now = time.monotonic()
        self._waiting_since = {
            each.id: self._waiting_since.get(each.id, now - each.seconds) for each in waiting
        }
        for each in waiting:
            waited = now - self._waiting_since[each.id]
            limit = self._give_way_after
            if limit is not None and waited >= limit:
                raise Blocked(
                    f"source: gave way to {each.description}, which has waited {waited:.0f} s "
                    f"for the run's snapshot (--give-way-after {limit:g}s); resume the run once "
                    "that statement is done",
                    Diagnosis(side="source"),
                )
            if waited >= QUIET and each.id not in self._reported:
                self._reported.add(each.id)
                how = "pass --give-way-after DURATION to end the run for it"
                if limit is not None:
                    how = f"the run gives way after {limit:g} s"
                self._noted.append(
                    Warned(
                        run_id=self._run_id,
                        message=f"source: {each.description}: it waits for this run's snapshot, "
                        "which protects the table from changes; new readers of the "
                        f"table wait, too; {how}",
                    )
                )

    def pending_warnings(self) -> Iterator[Event]:
        """Yield warnings that have not been yielded yet."""
        while self._noted:
            yield self._noted.popleft()

    def close(self) -> None:
        """Release the snapshot, if one is held."""
        if self._snapshot is not None:
            self._snapshot.close()
            self._snapshot = None
