"""The reaction to a lost snapshot: `on_snapshot_lost` decides."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing

from penstock.backends.api.execution.control import ControlStore
from penstock.backends.api.source import SourceCatalog
from penstock.backends.shared.attempts.refusals import superseded
from penstock.engine.snapshot.source_view import SourceView
from penstock.errors import SnapshotLost, Superseded
from penstock.events import Event, SnapshotChanged, Warned
from penstock.model.snapshots import SourceState


class OptionPolicy:
    """A policy that follows `on_snapshot_lost`, unless replacing the snapshot is safe.

    It is safe if nothing is committed yet, or if the source shows no writes since.
    """

    def recover(
        self,
        view: SourceView,
        source: SourceCatalog,
        control: ControlStore,
        *,
        anything_committed: bool,
    ) -> Iterator[Event]:
        """See `LossPolicy.recover`."""
        return retry_if_superseded(
            view,
            control,
            lambda committed: self.recover_once(
                view, source, control, anything_committed=committed
            ),
            anything_committed=anything_committed,
        )

    def recover_once(
        self,
        view: SourceView,
        source: SourceCatalog,
        control: ControlStore,
        *,
        anything_committed: bool,
    ) -> Iterator[Event]:
        """Recover once, without a retry if another process was faster; see `LossPolicy.recover`.

        Args:
            view: the run's view of the source.
            source: a catalog of the source.
            control: the target's control store.
            anything_committed: whether the run has committed partitions.

        Raises:
            Superseded: another process has just replaced the snapshot.
        """
        if view.snapshot is None and anything_committed:
            # The run was read before another execution stored the snapshot of what is committed.
            stored = control.runs.view(view.run_id)
            if stored is not None and stored.snapshots:
                raise superseded(view.run_id)
        now = view.read_state(source)
        if view.check_layout(now, anything_committed=anything_committed):
            yield self._start_over(view, source, control, now)
        elif view.spec.snapshot == "shared":
            if view.snapshot is not None:
                try:
                    view.adopt(source, control)
                except SnapshotLost:
                    pass
                else:
                    yield view.event("adopted", "another process still holds the run's snapshot")
                    return
            yield from self._replace(
                view, source, control, now, anything_committed=anything_committed
            )

    def view_for_comparison(self, view: SourceView, control: ControlStore) -> Iterator[Event]:
        """See `LossPolicy.view_for_comparison`; both sides are compared as they are now."""
        return iter(())

    def replace_lost(
        self, view: SourceView, control: ControlStore, *, anything_committed: bool
    ) -> Iterator[Event]:
        """See `LossPolicy.replace_lost`."""
        view.close()
        if view.shares:
            # Other executions may hold it still, or have replaced it.
            found = yield from self._adopt_again(view, control)
            if found:
                return
        if view.spec.loss_policy == "fail":
            raise SnapshotLost(_choices(view, "the source ended its session"))
        with closing(view.open()) as source:
            now = view.read_state(source)
            if view.check_layout(now, anything_committed=anything_committed):
                yield self._start_over(view, source, control, now)
            else:
                yield from self._replace(
                    view, source, control, now, anything_committed=anything_committed
                )

    def _adopt_again(self, view: SourceView, control: ControlStore) -> Generator[Event, None, bool]:
        """Adopt the snapshot that other executions hold; return whether there is one."""
        stored = control.runs.view(view.run_id)
        if stored is None or stored.generation != view.generation:
            return False
        view.reload(stored)
        if view.snapshot is None:
            return False
        with closing(view.open()) as source:
            try:
                view.adopt(source, control)
            except SnapshotLost:
                return False
        yield view.event("adopted", "another process still holds the run's snapshot")
        return True

    def _replace(
        self,
        view: SourceView,
        source: SourceCatalog,
        control: ControlStore,
        now: SourceState,
        *,
        anything_committed: bool,
    ) -> Iterator[Event]:
        policy = view.spec.loss_policy
        if anything_committed and policy == "restart":
            yield self._start_over(view, source, control, now)
            return
        had_one = bool(view.snapshots)
        if not anything_committed:
            view.snapshots = ()
            if had_one:
                event = view.renew("renewed", "nothing was committed with the lost one")
            else:
                event = view.renew("taken", "all partitions are read as of this moment")
            # Checked again: from here on, the tables can no longer be replaced by others.
            view.check_layout(view.read_state(source), anything_committed=False)
        elif policy == "accept":
            event = view.renew(
                "renewed",
                "accepted: the remaining rows are read as of a later moment than the committed "
                "ones; rows that changed in between may be missing or doubled",
            )
            # Checked again: from here on, the table can no longer be rewritten.
            view.check_layout(view.read_state(source), anything_committed=True)
        else:
            # Taken first: later writes do not matter, and earlier ones are counted.
            event = view.renew("renewed", "nothing was written to the source in between")
            after = view.read_state(source)
            if after.moment != view.state.moment:
                self._check_unwritten(view, after)
                # If many runs share the snapshot, the first one waits for all.
                seconds_left = view.handle.since + source.settle_seconds - time.monotonic()
                if seconds_left > 0:
                    yield Warned(
                        run_id=view.run_id,
                        message=f"waiting {seconds_left:.0f} s for the source's statistics to "
                        "settle, to find out whether the table was written to after "
                        "the snapshot was lost",
                    )
                    view.pause(seconds_left)
                after = view.read_state(source)
                self._check_unwritten(view, after)
                event = view.event(
                    "renewed",
                    "the source's statistics show no write to the table since the lost snapshot "
                    f"({after.writes})",
                )
            view.read_as_before()
        view.store(control, now, nothing_committed=had_one and not anything_committed)
        yield event

    def _check_unwritten(self, view: SourceView, now: SourceState) -> None:
        """Check that the table was not written to.

        Raises:
            SnapshotLost: the table was written to, or the source cannot tell.
        """
        was = view.state
        if now.shape != was.shape:
            why = "has other columns or types since, so values of unchanged rows may differ"
        elif now.layout != was.layout:
            why = f"was rewritten since ({view.backend.rewrites}?), so its rows may have changed"
        elif not (was.writes and now.writes):
            why = "may have been written to since: this source cannot tell whether it was"
        elif now.writes != was.writes:
            why = f"may have been written to since (then: {was.writes}; now: {now.writes})"
        else:
            return
        view.close()
        raise SnapshotLost(_choices(view, f"{view.spec.source_name} {why}"))

    def _start_over(
        self, view: SourceView, source: SourceCatalog, control: ControlStore, now: SourceState
    ) -> SnapshotChanged:
        view.snapshots = ()
        event = view.renew("renewed", "started over: committed partitions are copied again")
        view.check_layout(view.read_state(source), anything_committed=False)
        view.restart(control, now)
        return event


def retry_if_superseded(
    view: SourceView,
    control: ControlStore,
    attempt: Callable[[bool], Iterator[Event]],
    *,
    anything_committed: bool,
) -> Iterator[Event]:
    """Try, and retry with what other processes have stored in the run, until none was faster.

    Args:
        view: the run's view of the source.
        control: the target's control store.
        attempt: the call to try; it gets whether anything is committed.
        anything_committed: whether anything is committed, for the first try.
    """
    while True:
        try:
            yield from attempt(anything_committed)
            return
        except Superseded:
            # Another execution continues the run: look for its snapshot.
            view.close()
            stored = control.runs.view(view.run_id)
            assert stored is not None
            view.reload(stored)
            anything_committed = bool(control.commits.ids([view.run_id])[view.run_id])


def _choices(view: SourceView, why: str) -> str:
    because = f" The source ended its session: {view.lost_because}." if view.lost_because else ""
    return (
        f"the snapshot of run {view.run_id} is lost: {why}.{because} Rows that changed in between "
        "could be missing or doubled. To continue, use --on-snapshot-lost accept (read the "
        "remaining partitions as they are now) or --on-snapshot-lost restart (copy everything "
        "again; not with mode append)"
    )
