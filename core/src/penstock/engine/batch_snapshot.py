"""The snapshot of a batch: taken for all its tables, and seen again to plan each window."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from penstock.backends.api.source import HeldSnapshot, LockingSource, SourceCatalog
from penstock.engine.execution import Execution
from penstock.engine.opening import SnapshotOpener
from penstock.engine.snapshot.shared import SharedSnapshot
from penstock.engine.snapshot.source_view import TAKES
from penstock.engine.state import RunState
from penstock.errors import Blocked, PenstockError, SnapshotLost
from penstock.events import Event
from penstock.model.tables import Relation


class BatchSnapshot:
    """The snapshot of a batch.

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
        self._share: HeldSnapshot | None = None
        """A share of the snapshot, for planning."""

    def hold(self, _: Sequence[Relation]) -> tuple[HeldSnapshot, float]:
        """Return a share, whatever a run reads with it; see `SourceView`."""
        return self._shared.share()

    def end_planning(self) -> None:
        """Give back the share for planning: the snapshot lasts as long as runs read with it."""
        if self._share is not None:
            self._share.close()

    def close(self) -> None:
        """Release the snapshot, if it was taken."""
        self._shared.close()

    def see(self, window: Sequence[RunState], source: SourceCatalog) -> Iterator[Event]:
        """Check that the snapshot can be read, and lock the tables of a window.

        The first call takes it. A run fails if the snapshot is lost or other sessions wait for its
        table.

        Args:
            window: the runs of the window.
            source: the source's catalog, which plans the window.

        Raises:
            Blocked: other sessions wait for the tables, however often another snapshot is taken.
        """
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
            try:
                self._lock(list(tables.values()), source)
            except Blocked:
                if not first:
                    yield from self._leave_out_blocked(tables, source)
                    return
                # Nothing depends on the snapshot yet: let the waiting sessions go first.
                self._share.close()
                self._share = None
                if not tries_left:
                    raise
            else:
                return

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


def _raising(error: PenstockError) -> Iterator[Event]:
    raise error
