"""The run's view of the source: its snapshot, what becomes of it, and what a loss means."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

from penstock.backends.api.backend import Backend
from penstock.backends.api.control import ControlStore, RunRow
from penstock.backends.api.source import HeldSnapshot, SourceCatalog
from penstock.errors import PlanningError, SnapshotLost, Superseded
from penstock.events import Event, SnapshotChanged, Warned
from penstock.model.extents import BlockRange, ChildBlocks, Children, Files
from penstock.model.plans import PartitionPlan
from penstock.model.snapshots import Snapshot, SourceState
from penstock.spec.copy_spec import CopySpec

CHECK_INTERVAL = 1.0


class SourceView:
    """Takes, watches and, where the run allows it, replaces the snapshot.

    Parameters:
        run: as the target has it, where the run existed before.
        hold: takes a snapshot, and says when by the monotonic clock; by default one of the run's
            own, now.
        pause: waits for so many seconds.
    """

    awaits = False
    """Whether it waits for somebody else to hold the snapshot."""

    def __init__(
        self,
        spec: CopySpec,
        run_id: str,
        url: str,
        backend: Backend,
        run: RunRow | None = None,
        hold: Callable[[], tuple[HeldSnapshot, float]] | None = None,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._spec = spec
        self._run_id = run_id
        self._url = url
        self._backend = backend
        self._hold = hold or (
            lambda: (backend.hold_snapshot(url, [spec.relation]), time.monotonic())
        )
        self._pause = pause
        self._by_blocks = self._by_tables = False
        self._held: HeldSnapshot | None = None
        self._held_since = 0.0
        self._checked = 0.0
        self._warned = 0
        self.started_over = False
        self.generation = 1
        self._state: SourceState | None = None
        self.snapshots: tuple[Snapshot, ...] = ()
        """Those that the run's rows were read with, and the one for what is left, newest last."""
        self._stored: tuple[Snapshot, ...] = ()
        """The same, as the target has it."""
        if run is not None:
            self.planned_by(run.plan)
            self.reload(run)

    def reload(self, run: RunRow) -> None:
        """See the run as the target has it now."""
        self.generation = run.generation
        self._state = run.source_state
        self.snapshots = self._stored = run.snapshots

    @property
    def snapshot(self) -> Snapshot | None:
        return self.snapshots[-1] if self.snapshots else None

    @property
    def holds(self) -> bool:
        """Whether a snapshot is held for this run."""
        return self._held is not None

    @property
    def state(self) -> SourceState:
        assert self._state is not None
        return self._state

    def open(self) -> SourceCatalog:
        """Another connection to the source."""
        return self._backend.source(self._url)

    def look(self, source: SourceCatalog) -> None:
        """Note the state of the source, before its snapshot is taken."""
        source.columns(self._spec.relation)  # a table that is not there is said so in its words
        # Read before the snapshot is taken: a write in between counts as one that came later.
        self._state = source.state(self._spec.relation)

    def take(self, source: SourceCatalog) -> Sequence[Event]:
        """Take the run's first snapshot, and have planning read with it."""
        if self._spec.snapshot == "none":
            return ()
        event = self._renew("taken", "all partitions are read as of this moment")
        assert self.snapshot is not None
        source.adopt(self.snapshot)
        self._stored = self.snapshots
        return (event,)

    def planned_by(self, plan: PartitionPlan) -> None:
        extents = [partition.extent for partition in plan.partitions]
        self._by_blocks = any(
            isinstance(each, BlockRange | ChildBlocks | Files) for each in extents
        )
        self._by_tables = any(isinstance(each, Children | ChildBlocks) for each in extents)
        self._load = plan.load

    def recover(
        self, source: SourceCatalog, control: ControlStore, *, anything_committed: bool
    ) -> Iterator[Event]:
        """Find a view for the rest of a run that was left unfinished.

        Raises:
            SnapshotLost: there is none that the run allows.
            PlanningError: the rows are not where the plan says.
        """
        while True:
            try:
                yield from self._recover(source, control, anything_committed=anything_committed)
                return
            except Superseded:
                # By whoever else goes on with the run: theirs is the one to look for.
                self.close()
                run = control.load_run(self._run_id)
                assert run is not None
                self.reload(run)
                anything_committed = bool(control.committed(self._run_id))

    def _recover(
        self, source: SourceCatalog, control: ControlStore, *, anything_committed: bool
    ) -> Iterator[Event]:
        now = source.state(self._spec.relation)
        if self._check_layout(now, anything_committed=anything_committed):
            yield self._start_over(source, control, now)
        elif self._spec.snapshot == "shared":
            if self.snapshot is not None:
                try:
                    source.adopt(self.snapshot)
                except SnapshotLost:
                    pass
                else:
                    yield self._event("adopted", "somebody still holds the run's snapshot")
                    return
            yield from self._replace(source, control, now, anything_committed=anything_committed)

    def compare_with(self, source: SourceCatalog, control: ControlStore) -> Iterator[Event]:
        """Find a view to compare both sides with; where there is none, do without."""
        return iter(())

    def replace_lost(self, control: ControlStore, *, anything_committed: bool) -> Iterator[Event]:
        """Go on after the snapshot was lost in mid-run, as `on_snapshot_lost` says.

        Raises:
            SnapshotLost: it says fail.
            PlanningError: the rows are not where the plan says.
        """
        self.close()
        if self._spec.on_snapshot_lost == "fail":
            raise SnapshotLost(_choices(self._run_id, "the source dropped its session"))
        with closing(self._backend.source(self._url)) as source:
            now = source.state(self._spec.relation)
            if self._check_layout(now, anything_committed=anything_committed):
                yield self._start_over(source, control, now)
            else:
                yield from self._replace(
                    source, control, now, anything_committed=anything_committed
                )

    def _check_layout(self, now: SourceState, *, anything_committed: bool) -> bool:
        """Whether block ranges no longer hold the rows they held, and the run may start over.

        Raises:
            PlanningError: they do not, and it may not; or the plan's tables are not all of them.
        """
        if self._by_tables and now.parts != self.state.parts:
            raise PlanningError(
                f"{self._spec.source_name} does not consist of the tables it consisted of when run "
                f"{self._run_id} was planned (partitions were attached, detached, or made anew); "
                "start a new run"
            )
        if not self._by_blocks or not anything_committed or now.layout == self.state.layout:
            return False
        if self._starts_over():
            return True
        raise PlanningError(
            f"{self._spec.source_name} was rewritten since run {self._run_id} was planned, so its "
            f"rows are in other blocks or files (after {self._backend.rewrites}, or on another "
            "server); start a new run, or use --on-snapshot-lost restart"
        )

    def _starts_over(self) -> bool:
        """Whether the run may copy everything again where its partitions hold other rows now."""
        return self._spec.on_snapshot_lost == "restart"

    def _replace(
        self,
        source: SourceCatalog,
        control: ControlStore,
        now: SourceState,
        *,
        anything_committed: bool,
    ) -> Iterator[Event]:
        policy = self._spec.on_snapshot_lost
        if anything_committed and policy == "restart":
            yield self._start_over(source, control, now)
            return
        had_one = bool(self.snapshots)
        if not anything_committed:
            self.snapshots = ()
            if had_one:
                event = self._renew("renewed", "nothing was committed with the one that was lost")
            else:
                event = self._renew("taken", "all partitions are read as of this moment")
            # Looked at again: only now are the tables safe from being others.
            self._check_layout(source.state(self._spec.relation), anything_committed=False)
        elif policy == "accept":
            event = self._renew(
                "renewed",
                "accepted: the rest is read as of another moment than what is committed; rows "
                "that changed in between may be missing or doubled",
            )
            # Looked at again: only now is the table safe from being rewritten.
            self._check_layout(source.state(self._spec.relation), anything_committed=True)
        else:
            # Taken first: what is written after it does not matter, what was before is counted.
            event = self._renew("renewed", "nothing was written to the source in between")
            after = source.state(self._spec.relation)
            if after.moment != self.state.moment:
                self._check_unwritten(after)
                # Of many runs that share the snapshot, the first waits for all.
                left = self._held_since + source.settle_seconds - time.monotonic()
                if left > 0:
                    yield Warned(
                        run_id=self._run_id,
                        message=f"waiting {left:.0f} s for the source's statistics to settle, to "
                        "see whether the table was written to since the lost snapshot",
                    )
                    self._pause(left)
                after = source.state(self._spec.relation)
                self._check_unwritten(after)
                event = self._event(
                    "renewed",
                    "by the source's statistics nothing was written to the table since the one "
                    f"that was lost ({after.writes})",
                )
        self._state = now
        self.generation = control.set_view(
            self._run_id,
            self.generation,
            self._stored,
            now,
            self.snapshots,
            nothing_committed=had_one and not anything_committed,
        )
        self._stored = self.snapshots
        yield event

    def _check_unwritten(self, now: SourceState) -> None:
        """
        Raises:
            SnapshotLost: the table was written to, or the source cannot tell.
        """
        was = self.state
        if now.layout != was.layout:
            why = f"was rewritten since ({self._backend.rewrites}?), so its rows may have changed"
        elif not now.writes or now.writes != was.writes:
            why = (
                f"may have been written to since (then: {was.writes or 'unknown'}; now: "
                f"{now.writes or 'unknown'})"
            )
        else:
            return
        self.close()
        raise SnapshotLost(_choices(self._run_id, f"{self._spec.source_name} {why}"))

    def _start_over(
        self, source: SourceCatalog, control: ControlStore, now: SourceState
    ) -> SnapshotChanged:
        self.snapshots = ()
        event = self._renew("renewed", "started over: what was committed is copied again")
        self._check_layout(source.state(self._spec.relation), anything_committed=False)
        self._state = now
        assert self.snapshot is not None
        self._restart(control)
        return event

    def _restart(self, control: ControlStore) -> None:
        self.generation = control.start_over(
            self._run_id, self.generation, self._load, self.state, self.snapshot
        )
        self.started_over = True
        self.snapshots = self._stored = self.snapshots[-1:]

    def load_again(self, control: ControlStore, message: str) -> Warned:
        """Start over with the same view: what was lost is in the target."""
        self._restart(control)
        return Warned(run_id=self._run_id, message=f"started over: {message}")

    def _renew(self, state: str, message: str) -> SnapshotChanged:
        self._held, self._held_since = self._hold()
        self._warned = 0
        self.snapshots = (*self.snapshots, self._held.snapshot)
        return self._event(state, message)

    def _event(self, state: str, message: str) -> SnapshotChanged:
        assert self.snapshot is not None
        return SnapshotChanged(
            run_id=self._run_id, state=state, taken_at=self.snapshot.taken_at, message=message
        )

    def watch(self) -> Iterator[Event]:
        """Look after the snapshot; cheap enough to be called all the time.

        Raises:
            SnapshotLost: its session is gone.
        """
        now = time.monotonic()
        if self._held is None or now - self._checked < CHECK_INTERVAL:
            return
        self._checked = now
        if not self._held.alive():
            raise SnapshotLost("source: the session that holds the snapshot is gone")
        limit = self._spec.snapshot_warn_after
        if limit and now - self._held_since >= limit * (self._warned + 1):
            self._warned += 1
            minutes = (now - self._held_since) / 60
            yield Warned(
                run_id=self._run_id,
                message=f"the snapshot has {self._backend.snapshot_burden} for {minutes:,.1f} "
                "minutes; it is released when the run ends",
            )

    def lost(self, message: str) -> SnapshotChanged:
        return self._event("lost", message)

    def released(self) -> SnapshotChanged:
        return self._event("released", "the run needs it no more")

    def close(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None


def _choices(run_id: str, why: str) -> str:
    return (
        f"the snapshot of run {run_id} is lost: {why}. Rows that changed in between could be "
        "missing or doubled. To go on, use --on-snapshot-lost accept (read the rest as it is now) "
        "or --on-snapshot-lost restart (copy everything again; not with mode append)"
    )
