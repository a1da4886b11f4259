"""A run's view of the source: the snapshot it reads with, and the known facts of the source."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from penstock.backends.api.backend import Backend
from penstock.backends.api.execution.control import ControlStore, RunRow, RunView
from penstock.backends.api.optional.cursors import ReadsByColumn
from penstock.backends.api.source import (
    HeldSnapshot,
    JoinsSnapshots,
    LockingSource,
    SourceCatalog,
)
from penstock.engine.snapshot.handle import SnapshotHandle
from penstock.engine.snapshot.planned_columns import check_columns
from penstock.errors import Blocked, PlanningError, SnapshotLost
from penstock.events import Event, SnapshotChanged, Warned
from penstock.model.extents import BlockRange, ChildBlocks, Children, Files
from penstock.model.plans import PartitionPlan
from penstock.model.snapshots import Snapshot, SourceState
from penstock.model.source_columns import SourceColumn
from penstock.model.tables import Relation
from penstock.spec.copy_spec import CopySpec

Join = Callable[[Snapshot, Relation], HeldSnapshot]
"""Holds a snapshot that another process holds, to read a relation with it."""
Hold = Callable[[Sequence[Relation]], tuple[HeldSnapshot, float]]
"""Takes a snapshot to read relations with; returns it with its time by the monotonic clock."""
# How often to try to take a snapshot while another session waits to change the table.
TAKES = 3


class LossPolicy(Protocol):
    """A policy for finding a view of the source for an unfinished run or after a lost snapshot."""

    def recover(
        self,
        view: SourceView,
        source: SourceCatalog,
        control: ControlStore,
        *,
        anything_committed: bool,
    ) -> Iterator[Event]:
        """Find a view for the rest of an unfinished run.

        Args:
            view: the run's view of the source.
            source: a catalog of the source.
            control: the target's control store.
            anything_committed: whether the run has committed partitions.

        Raises:
            SnapshotLost: the run allows no other view.
            PlanningError: the rows are not where the plan says.
        """

    def replace_lost(
        self, view: SourceView, control: ControlStore, *, anything_committed: bool
    ) -> Iterator[Event]:
        """Find another view after the snapshot was lost during the run.

        Args:
            view: the view, whose snapshot is lost.
            control: the target's control store.
            anything_committed: whether the run has committed partitions.

        Raises:
            SnapshotLost: the run does not allow it.
            PlanningError: the rows are not where the plan says.
        """

    def view_for_comparison(self, view: SourceView, control: ControlStore) -> Iterator[Event]:
        """Find a view for comparing both sides; without one, they are compared as they are now.

        Args:
            view: the run's view of the source.
            control: the target's control store.
        """


class SourceView:
    """The snapshot of a run: taken, watched and replaced as its policy allows.

    Args:
        spec: the options of the run.
        run_id: the id of the run.
        url: the source's URL.
        backend: the source's backend.
        policy: replaces a lost snapshot.
        run: the run as stored in the target; None if it is new.
        hold: takes a snapshot; None if the run takes its own.
        pause: sleeps for a number of seconds.
        shares: whether to hold a snapshot that other processes hold, so that it lasts as long as
            any of them.
        join: does that; None if the run does it alone.
    """

    def __init__(
        self,
        spec: CopySpec,
        run_id: str,
        url: str,
        backend: Backend,
        policy: LossPolicy,
        run: RunRow | None = None,
        hold: Hold | None = None,
        pause: Callable[[float], object] = time.sleep,
        *,
        shares: bool = False,
        join: Join | None = None,
    ) -> None:
        self.shares = shares
        self._join = join or self._join_alone
        self._token = ""
        """Another token than the snapshot's first one, by which it is read here."""
        self.spec = spec
        self.run_id = run_id
        self.pause = pause
        self._url = url
        self.backend = backend
        self._policy = policy
        self.handle = SnapshotHandle(
            run_id,
            lambda: (hold or self._hold_own)([self.spec.relation]),
            backend.snapshot_burden,
            spec.give_way_after,
        )
        self._by_blocks = self._by_tables = False
        self._plan: PartitionPlan | None = None
        self.started_over = False
        self.lost_because = ""
        """The source's reason for ending the last lost snapshot's session; empty if unknown."""
        self.generation = 1
        self._state: SourceState | None = None
        self.snapshots: tuple[Snapshot, ...] = ()
        """The snapshots for the rows read so far, and the one for the rest, newest last."""
        self.stored: tuple[Snapshot, ...] = ()
        """The snapshots as stored in the target."""
        if run is not None:
            self.use_plan(run.plan)
            self.reload(run)

    def _hold_own(self, relations: Sequence[Relation]) -> tuple[HeldSnapshot, float]:
        return self.backend.hold_snapshot(self._url, relations), time.monotonic()

    def _join_alone(self, snapshot: Snapshot, relation: Relation) -> HeldSnapshot:
        backend = self.backend
        assert isinstance(backend, JoinsSnapshots)
        return backend.join_snapshot(self._url, snapshot, [relation])

    def reload(self, run: RunRow | RunView) -> None:
        """Adopt the run as the target has it now."""
        self.generation = run.generation
        self._state = run.source_state
        self.snapshots = self.stored = run.snapshots
        self._token = ""

    @property
    def readable(self) -> Snapshot | None:
        """The newest snapshot, by a token of a session that should still hold it."""
        if self.snapshot is None or not self._token:
            return self.snapshot
        return replace(self.snapshot, token=self._token)

    @property
    def snapshot(self) -> Snapshot | None:
        """The newest snapshot; None without one."""
        return self.snapshots[-1] if self.snapshots else None

    @property
    def is_noted(self) -> bool:
        """Whether the source's state is known."""
        return self._state is not None

    @property
    def state(self) -> SourceState:
        """The source's state when the run was planned or its snapshot replaced."""
        assert self._state is not None
        return self._state

    @property
    def plan(self) -> PartitionPlan:
        """The run's plan, once it is known."""
        assert self._plan is not None
        return self._plan

    def open(self) -> SourceCatalog:
        """Open another connection to the source."""
        return self.backend.source(self._url)

    def open_to_compare(self, moments: Iterable[str]) -> SourceCatalog:
        """Open the source for a comparison.

        It reads in the snapshot's own session if that sees the rows, and if another session
        would queue behind those that wait for the snapshot.

        Args:
            moments: the moments as of which rows were read.
        """
        ours = len(self.snapshots) == 1 and set(moments) <= {"", self.snapshots[0].taken_at}
        return (self.handle.catalog() if ours else None) or self.open()

    def note_state(self, source: SourceCatalog) -> None:
        """Note the state of the source, before its snapshot is taken."""
        # Read before the snapshot is taken: a write in between counts as a later one.
        self._state = self.read_state(source)
        if self.spec.cursor_columns and isinstance(source, ReadsByColumn):
            source.note_open()

    def take(self, source: SourceCatalog) -> Sequence[Event]:
        """Take the run's first snapshot, and make planning read with it."""
        if self.spec.snapshot == "none":
            return ()
        for tries_left in reversed(range(TAKES)):
            event = self.renew("taken", "all partitions are read as of this moment")
            assert self.snapshot is not None
            try:
                if isinstance(source, LockingSource):
                    source.adopt_locked(self.snapshot, [self.spec.relation])
                else:
                    source.adopt(self.snapshot)
                break
            except Blocked:
                # Nothing depends on it yet: let the others go first, and read what they changed.
                self.handle.close()
                self.snapshots = ()
                if not tries_left:
                    raise
                self.note_state(source)
        self.stored = self.snapshots
        return (event,)

    def enter(self, source: SourceCatalog) -> None:
        """Make planning read with the snapshot, even if planning's transaction has ended since."""
        if self.readable is not None:
            source.adopt(self.readable)

    def adopt(self, source: SourceCatalog, control: ControlStore | None = None) -> None:
        """Have a catalog read with the newest snapshot, whichever process holds it.

        Args:
            source: the catalog. If the snapshot is lost, it reads as before.
            control: the target's control store, if this process is to hold the snapshot, too, as
                far as it is shared.

        Raises:
            SnapshotLost: none does.
        """
        if control is not None and self.shares and isinstance(self.backend, JoinsSnapshots):
            # First: whoever holds it may end at any moment, and a catalog that reads with a
            # snapshot cannot tell what was written since.
            self._try_tokens(lambda held: self._hold_too(held, control))
        self._try_tokens(source.adopt)

    def _hold_too(self, snapshot: Snapshot, control: ControlStore) -> None:
        if self.handle.holds:
            return
        assert self.snapshot is not None
        self.handle.join(lambda: self._join(snapshot, self.spec.relation))
        self._token = self.handle.token
        control.generations.add_holder(
            self.run_id, self.generation, self.snapshot, self._token, self._gone
        )

    def _try_tokens(self, use: Callable[[Snapshot], None]) -> None:
        """Call a function with the newest snapshot, by each of its tokens until one is held.

        Raises:
            SnapshotLost: none is.
        """
        assert self.snapshot is not None and self.readable is not None
        lost: SnapshotLost | None = None
        self._gone: list[str] = []
        newest_first = reversed(self.snapshot.also)
        for token in dict.fromkeys((self.readable.token, *newest_first, self.snapshot.token)):
            try:
                use(replace(self.snapshot, token=token))
            except SnapshotLost as error:
                self._gone.append(token)
                lost = lost or error
            else:
                self._token = self.handle.token or token
                return
        assert lost is not None
        raise lost

    def use_plan(self, plan: PartitionPlan) -> None:
        """Set the plan, which decides what a rewrite of the table means for the run."""
        self._plan = plan
        extents = [partition.extent for partition in plan.partitions]
        self._by_blocks = any(
            isinstance(each, BlockRange | ChildBlocks | Files) for each in extents
        )
        self._by_tables = plan.night is not None or any(
            isinstance(each, Children | ChildBlocks) for each in extents
        )

    # What the policy says

    def recover(
        self, source: SourceCatalog, control: ControlStore, *, anything_committed: bool
    ) -> Iterator[Event]:
        """Find a view for the rest of the run; see `LossPolicy.recover`.

        Args:
            source: a catalog of the source.
            control: the target's control store.
            anything_committed: whether the run has committed partitions.
        """
        return self._policy.recover(self, source, control, anything_committed=anything_committed)

    def replace_lost(self, control: ControlStore, *, anything_committed: bool) -> Iterator[Event]:
        """See `LossPolicy.replace_lost`."""
        return self._policy.replace_lost(self, control, anything_committed=anything_committed)

    def view_for_comparison(self, control: ControlStore) -> Iterator[Event]:
        """See `LossPolicy.view_for_comparison`."""
        return self._policy.view_for_comparison(self, control)

    # What a policy does

    def read_state(self, source: SourceCatalog) -> SourceState:
        """Return the source's state, with its columns.

        Raises:
            PlanningError: the table does not exist.
        """
        relation = self.spec.relation
        columns = tuple(map(SourceColumn.of, source.columns(relation)))
        return replace(source.state(relation), columns=columns)

    def check_layout(
        self, now: SourceState, *, anything_committed: bool, may_start_over: bool = True
    ) -> bool:
        """Whether block ranges no longer hold the same rows, so that the run starts over.

        Args:
            now: the current state of the source; see `read_state`.
            anything_committed: whether the run has committed partitions.
            may_start_over: whether the run may start over.

        Raises:
            PlanningError: the columns are no longer those that the run was planned with; block
                ranges no longer hold the same rows, and the run may not start over; or the table
                now consists of other tables than planned.
        """
        check_columns(self.spec, self.run_id, self.plan, self.state.columns, now.columns)
        if self._by_tables and now.parts != self.state.parts:
            raise PlanningError(
                f"{self.spec.source_name} consists of other tables than when run {self.run_id} "
                "was planned (child tables were attached, detached or recreated); start a new "
                "run"
            )
        if not self._by_blocks or not anything_committed or now.layout == self.state.layout:
            return False
        if may_start_over and self.spec.loss_policy == "restart":
            return True
        raise PlanningError(
            f"{self.spec.source_name} was rewritten after run {self.run_id} was planned, so its "
            f"rows are in other blocks or files ({self.backend.rewrites}, or another server); "
            "start a new run, or use --on-snapshot-lost restart"
        )

    def renew(self, state: str, message: str) -> SnapshotChanged:
        """Take a snapshot of the current state, for the rest of the run."""
        self.snapshots = (*self.snapshots, self.handle.take())
        self._token = ""
        return self.event(state, message)

    def read_as_before(self) -> None:
        """Note that the newest snapshot shows the same rows as the one before it.

        Its rows are as of the moment of that one.
        """
        *before, newest = self.snapshots
        if before:
            self.snapshots = (*before, replace(newest, taken_at=before[-1].taken_at))

    def store(self, control: ControlStore, now: SourceState, *, nothing_committed: bool) -> None:
        """Store the snapshots in the target.

        Args:
            control: the target's control store.
            now: the state of the source when the newest snapshot was taken.
            nothing_committed: see `Generations.set_view`.

        Raises:
            Superseded: another process has replaced them since.
        """
        self._state = now
        self.generation = control.generations.set_view(
            self.run_id,
            self.generation,
            self.stored,
            now,
            self.snapshots,
            nothing_committed=nothing_committed,
        )
        self.stored = self.snapshots

    def restart(self, control: ControlStore, now: SourceState) -> None:
        """Begin a new generation, which reads everything with the newest snapshot."""
        self._state = now
        self.generation = control.generations.start_over(
            self.run_id, self.generation, self.plan.load, now, self.snapshot
        )
        self.started_over = True
        self.snapshots = self.stored = self.snapshots[-1:]

    def load_again(self, control: ControlStore, message: str) -> Warned:
        """Start over with the same view, because the target lost rows, not the source."""
        self.restart(control, self.state)
        return Warned(run_id=self.run_id, message=f"started over: {message}")

    def event(self, state: str, message: str) -> SnapshotChanged:
        """Return an event about the newest snapshot."""
        assert self.snapshot is not None
        return SnapshotChanged(
            run_id=self.run_id, state=state, taken_at=self.snapshot.taken_at, message=message
        )

    # While it is held

    def lost_event(self, message: str) -> SnapshotChanged:
        """Return the event of a lost snapshot, with the source's reason, which is kept."""
        self.lost_because = self.handle.why_lost() or self.lost_because
        return self.event(
            "lost", f"{message}: {self.lost_because}" if self.lost_because else message
        )

    def released_event(self) -> SnapshotChanged:
        """Return the event of a snapshot that is no longer needed."""
        return self.event("released", "the run no longer needs it")

    def close(self) -> None:
        """Release the snapshot, if this process holds it."""
        self.handle.close()
