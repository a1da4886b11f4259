"""A handle on a snapshot: holds it, watches it, releases it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from penstock.backends.api.source import HeldSnapshot
from penstock.errors import SnapshotLost
from penstock.events import Event, Warned
from penstock.model.snapshots import Snapshot

CHECK_INTERVAL = 1.0


class SnapshotHandle:
    """Holds one snapshot at a time, or none.

    Parameters:
        hold: takes a snapshot, and returns it with its time by the monotonic clock.
        warn_after: seconds after which to warn, again and again; 0: never.
        burden: what holding a snapshot does to the source, for the warning.
    """

    def __init__(
        self,
        run_id: str,
        hold: Callable[[], tuple[HeldSnapshot, float]],
        warn_after: float,
        burden: str,
    ) -> None:
        self._burden = burden
        self._run_id = run_id
        self._hold = hold
        self._warn_after = warn_after
        self._held: HeldSnapshot | None = None
        self.since = 0.0
        """When it was taken, by the monotonic clock."""
        self._checked = 0.0
        self._warned = 0

    @property
    def holds(self) -> bool:
        return self._held is not None

    def holds_alive(self) -> bool:
        """Whether one is held, and not lost."""
        return self._held is not None and self._held.alive()

    def take(self) -> Snapshot:
        self._held, self.since = self._hold()
        self._warned = 0
        return self._held.snapshot

    def watch(self) -> Iterator[Event]:
        """Check on the snapshot; cheap enough to be called all the time.

        Raises:
            SnapshotLost: its session is gone.
        """
        now = time.monotonic()
        if self._held is None or now - self._checked < CHECK_INTERVAL:
            return
        self._checked = now
        if not self._held.alive():
            raise SnapshotLost("source: the session that holds the snapshot is gone")
        limit = self._warn_after
        if limit and now - self.since >= limit * (self._warned + 1):
            self._warned += 1
            minutes = (now - self.since) / 60
            yield Warned(
                run_id=self._run_id,
                message=f"the snapshot has {self._burden} for {minutes:,.1f} "
                "minutes; it is released when the run ends",
            )

    def close(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None
