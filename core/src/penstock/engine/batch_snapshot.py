"""The snapshot of a batch: taken for all its tables, and seen again to plan each window."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from penstock.backends.api.source import (
    ExplainedLoss,
    HeldSnapshot,
    JoinsSnapshots,
    LockingSource,
    SnapshotWindow,
    SourceCatalog,
    WaitingSession,
)
from penstock.engine.connections import Connections
from penstock.engine.execution import Execution
from penstock.engine.opening import SnapshotOpener
from penstock.engine.snapshot.shared import Share, SharedSnapshot
from penstock.engine.snapshot.source_view import TAKES
from penstock.engine.state import RunState
from penstock.errors import Blocked, PenstockError, SnapshotLost
from penstock.events import Event
from penstock.model.snapshots import Snapshot
from penstock.model.tables import Relation


class BatchSnapshot:
    """The snapshot of a batch, and the locks on the tables of the current window.

    Args:
        opener: takes the snapshot.
        execution: the execution of the batch, which keeps the errors of its runs.
        relations: returns what will be read with the snapshot; called when it is taken.
    """

    def __init__(
        self,
        opener: SnapshotOpener,
        execution: Execution,
        relations: Callable[[], Sequence[Relation]],
    ) -> None:
        self._execution = execution
        self._shared = SharedSnapshot(opener, relations)
        self._share: Share | None = None
        """A share of the snapshot, until the last window is planned."""
        self._planned: Share | None = None
        """A share of the current window's locks, until it is planned."""
        self._windows: dict[Relation, _Window] = {}
        """By relation: the tables that are locked together with it."""
        self._joined: dict[str, tuple[_Joiner, SharedSnapshot]] = {}
        """By their moments: snapshots of other processes, for the tables of the window."""

    def join(self, snapshot: Snapshot, relation: Relation) -> HeldSnapshot:
        """Return a share of a snapshot that another process holds, for a run that reads a relation.

        Raises:
            SnapshotLost: the other process no longer holds it.
        """
        if snapshot.taken_at not in self._joined:
            joiner = _Joiner(self._execution.ends)
            shared = SharedSnapshot(joiner, self._read_by_window)
            self._joined[snapshot.taken_at] = joiner, shared
        joiner, shared = self._joined[snapshot.taken_at]
        joiner.snapshot = snapshot
        share, _ = shared.share()
        return share

    def _read_by_window(self) -> Sequence[Relation]:
        runs = [run for run in self._execution.window if run.error is None]
        return list(dict.fromkeys(run.spec.relation for run in runs))

    def hold(self, relations: Sequence[Relation]) -> tuple[HeldSnapshot, float]:
        """Return a share for a run that reads one relation; see `SourceView`.

        Raises:
            PenstockError: the relation cannot be read with the snapshot.
        """
        (relation,) = relations
        if relation not in self._windows:
            self._windows[relation] = _Window(self._shared, relations)
        window = self._windows[relation]
        share, since = window.shared.share()
        if (error := window.refused.get(relation)) is not None:
            share.close()
            raise error
        return share, since

    def end_window(self, *, is_last: bool) -> None:
        """Give back the shares for planning: a snapshot lasts as long as runs read with it.

        Args:
            is_last: whether no other window will be planned.
        """
        if self._planned is not None:
            self._planned.close()
        if self._share is not None and is_last:
            self._share.close()

    def close(self) -> None:
        """Release the snapshot, if it was taken."""
        self._leave_windows()
        self._shared.close()
        for _, joined in self._joined.values():
            joined.close()

    def _leave_windows(self) -> None:
        for window in self._windows.values():
            window.shared.close()
        self._windows = {}

    def see(self, window: Sequence[RunState], source: SourceCatalog) -> Iterator[Event]:
        """Check that the snapshot can be read, and lock the tables of a window.

        The first call takes it. A run fails if the snapshot is lost, if other sessions wait for its
        table, or if its table was changed before it could be locked.

        Args:
            window: the runs of the window.
            source: the source's catalog, which plans the window.

        Raises:
            Blocked: other sessions wait for the tables, however often another snapshot is taken.
        """
        self._leave_windows()
        tables = {run: run.spec.relation for run in window if run.reads_snapshot}
        if not tables:
            return
        if self._share is not None and not self._share.is_alive():
            yield from self._leave_out_lost(tables)
            self._share.close()
            self._share = None
        first = self._share is None
        for tries_left in reversed(range(TAKES)):
            if self._share is None:
                self._share, _ = self._shared.share()
            yield from self._enter_window(tables)
            try:
                self._lock(list(tables.values()), source)
            except Blocked:
                if not first:
                    yield from self._leave_out_blocked(tables, source)
                    return
                # Nothing depends on the snapshot yet: let the waiting sessions go first.
                self._leave_windows()
                self._share.close()
                self._share = None
                if not tries_left:
                    raise
            else:
                return

    def _enter_window(self, tables: dict[RunState, Relation]) -> Iterator[Event]:
        """Lock the tables, if the snapshot has not, and leave out those that cannot be read."""
        window = _Window(self._shared, list(tables.values()))
        self._windows = dict.fromkeys(tables.values(), window)
        self._planned, _ = window.shared.share()
        for run, relation in list(tables.items()):
            if (error := window.refused.get(relation)) is not None:
                del tables[run]
                yield from self._execution.attempt(run, lambda error=error: _raising(error))  # type: ignore[misc]

    def _lock(self, relations: Sequence[Relation], source: SourceCatalog) -> None:
        assert self._share is not None
        if isinstance(source, LockingSource):
            source.adopt_locked(self._share.snapshot, relations)
        else:
            source.adopt(self._share.snapshot)

    def _leave_out_lost(self, tables: dict[RunState, Relation]) -> Iterator[Event]:
        """Fail these tables, because the snapshot of the earlier tables is lost."""
        for run in list(tables):
            if run.spec.loss_policy == "fail":
                del tables[run]
                error = SnapshotLost(
                    f"the batch's snapshot was lost before {run.spec.source_name} was planned, "
                    "and --on-snapshot-lost fail allows no other; start a new batch"
                )
                yield from self._execution.attempt(run, lambda error=error: _raising(error))  # type: ignore[misc]

    def _leave_out_blocked(
        self, tables: Mapping[RunState, Relation], source: SourceCatalog
    ) -> Iterator[Event]:
        """Fail only the table that other sessions wait for."""
        free = []
        for run, relation in tables.items():
            try:
                self._lock([relation], source)
                free.append(relation)
            except Blocked as error:
                yield from self._execution.attempt(run, lambda error=error: _raising(error))  # type: ignore[misc]
        self._lock(free, source)


class _Joiner:
    """Holds a snapshot that another process holds."""

    snapshot: Snapshot
    """The snapshot, by a token of a session that held it a moment ago."""

    def __init__(self, ends: Connections) -> None:
        self._ends = ends

    def hold(self, relations: Sequence[Relation]) -> tuple[HeldSnapshot, float]:
        backend = self._ends.source_backend
        assert isinstance(backend, JoinsSnapshots)
        joined = backend.join_snapshot(self._ends.source_url, self.snapshot, relations)
        return joined, time.monotonic()


class _Window:
    """The tables of a batch that are read at a time; it opens the snapshot that they share.

    Args:
        whole: the snapshot of the batch.
        relations: the tables' relations.
    """

    def __init__(self, whole: SharedSnapshot, relations: Sequence[Relation]) -> None:
        self._whole = whole
        self.shared = SharedSnapshot(self, lambda: relations)
        self.refused: Mapping[Relation, PenstockError] = {}
        """The relations that cannot be read with the snapshot, each with the reason."""

    def hold(self, relations: Sequence[Relation]) -> tuple[HeldSnapshot, float]:
        share, since = self._whole.share()
        self.refused = {}
        try:
            window = share.window(relations)
        except BaseException:
            share.close()
            raise
        if window is None:
            return share, since
        self.refused = window.refused
        return _WindowOfSnapshot(share, window), since


class _WindowOfSnapshot:
    """The locks on a window's tables, and a share of the snapshot, as one."""

    def __init__(self, share: Share, window: SnapshotWindow) -> None:
        self._share = share
        self._window = window
        self.snapshot = share.snapshot

    def is_alive(self) -> bool:
        return self._share.is_alive() and self._window.is_alive()

    def why_lost(self) -> str:
        window = self._window
        return self._share.why_lost() or (
            window.why_lost() if isinstance(window, ExplainedLoss) else ""
        )

    def waiting_sessions(self) -> Sequence[WaitingSession]:
        return self._window.waiting_sessions()

    def catalog(self, check_waiting: Callable[[Sequence[WaitingSession]], None]) -> SourceCatalog:
        return self._window.catalog(check_waiting)

    def close(self) -> None:
        self._window.close()
        self._share.close()


def _raising(error: PenstockError) -> Iterator[Event]:
    raise error
