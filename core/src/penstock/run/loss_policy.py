"""A run goes on without its snapshot as `on_snapshot_lost` says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing

from penstock.backends.api.control import ControlStore
from penstock.backends.api.source import SourceCatalog
from penstock.errors import SnapshotLost, Superseded
from penstock.events import Event, SnapshotChanged, Warned
from penstock.model.snapshots import SourceState
from penstock.run.source_view import SourceView


class AsAsked:
    """Replaces the snapshot where nothing is committed, or where the source shows that nothing was
    written to it since; else as `on_snapshot_lost` says."""

    awaits = False

    def recover(
        self,
        view: SourceView,
        source: SourceCatalog,
        control: ControlStore,
        *,
        anything_committed: bool,
    ) -> Iterator[Event]:
        """See `LossPolicy.recover`."""

        return until_ours(
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
        """As `recover`.

        Raises:
            Superseded: somebody else has replaced the snapshot at this moment.
        """
        now = source.state(view.spec.relation)
        if view.check_layout(now, anything_committed=anything_committed):
            yield self._start_over(view, source, control, now)
        elif view.spec.snapshot == "shared":
            if view.snapshot is not None:
                try:
                    source.adopt(view.snapshot)
                except SnapshotLost:
                    pass
                else:
                    yield view.event("adopted", "somebody still holds the run's snapshot")
                    return
            yield from self._replace(
                view, source, control, now, anything_committed=anything_committed
            )

    def compare_with(
        self, view: SourceView, source: SourceCatalog, control: ControlStore
    ) -> Iterator[Event]:
        """Both sides are compared as they are now."""
        return iter(())

    def replace_lost(
        self, view: SourceView, control: ControlStore, *, anything_committed: bool
    ) -> Iterator[Event]:
        """See `LossPolicy.replace_lost`."""
        view.close()
        if view.spec.on_snapshot_lost == "fail":
            raise SnapshotLost(_choices(view.run_id, "the source dropped its session"))
        with closing(view.open()) as source:
            now = source.state(view.spec.relation)
            if view.check_layout(now, anything_committed=anything_committed):
                yield self._start_over(view, source, control, now)
            else:
                yield from self._replace(
                    view, source, control, now, anything_committed=anything_committed
                )

    def _replace(
        self,
        view: SourceView,
        source: SourceCatalog,
        control: ControlStore,
        now: SourceState,
        *,
        anything_committed: bool,
    ) -> Iterator[Event]:
        policy = view.spec.on_snapshot_lost
        if anything_committed and policy == "restart":
            yield self._start_over(view, source, control, now)
            return
        had_one = bool(view.snapshots)
        if not anything_committed:
            view.snapshots = ()
            if had_one:
                event = view.renew("renewed", "nothing was committed with the one that was lost")
            else:
                event = view.renew("taken", "all partitions are read as of this moment")
            # Looked at again: only now are the tables safe from being others.
            view.check_layout(source.state(view.spec.relation), anything_committed=False)
        elif policy == "accept":
            event = view.renew(
                "renewed",
                "accepted: the rest is read as of another moment than what is committed; rows "
                "that changed in between may be missing or doubled",
            )
            # Looked at again: only now is the table safe from being rewritten.
            view.check_layout(source.state(view.spec.relation), anything_committed=True)
        else:
            # Taken first: what is written after it does not matter, what was before is counted.
            event = view.renew("renewed", "nothing was written to the source in between")
            after = source.state(view.spec.relation)
            if after.moment != view.state.moment:
                self._check_unwritten(view, after)
                # Of many runs that share the snapshot, the first waits for all.
                left = view.held_since + source.settle_seconds - time.monotonic()
                if left > 0:
                    yield Warned(
                        run_id=view.run_id,
                        message=f"waiting {left:.0f} s for the source's statistics to settle, to "
                        "see whether the table was written to since the lost snapshot",
                    )
                    view.pause(left)
                after = source.state(view.spec.relation)
                self._check_unwritten(view, after)
                event = view.event(
                    "renewed",
                    "by the source's statistics nothing was written to the table since the one "
                    f"that was lost ({after.writes})",
                )
        view.store(control, now, nothing_committed=had_one and not anything_committed)
        yield event

    def _check_unwritten(self, view: SourceView, now: SourceState) -> None:
        """
        Raises:
            SnapshotLost: the table was written to, or the source cannot tell.
        """
        was = view.state
        if now.layout != was.layout:
            why = f"was rewritten since ({view.backend.rewrites}?), so its rows may have changed"
        elif not now.writes or now.writes != was.writes:
            why = (
                f"may have been written to since (then: {was.writes or 'unknown'}; now: "
                f"{now.writes or 'unknown'})"
            )
        else:
            return
        view.close()
        raise SnapshotLost(_choices(view.run_id, f"{view.spec.source_name} {why}"))

    def _start_over(
        self, view: SourceView, source: SourceCatalog, control: ControlStore, now: SourceState
    ) -> SnapshotChanged:
        view.snapshots = ()
        event = view.renew("renewed", "started over: what was committed is copied again")
        view.check_layout(source.state(view.spec.relation), anything_committed=False)
        view.restart(control, now)
        return event


def until_ours(
    view: SourceView,
    control: ControlStore,
    attempt: Callable[[bool], Iterator[Event]],
    *,
    anything_committed: bool,
) -> Iterator[Event]:
    """Try again with the run as others have left it, until nobody has been faster."""
    while True:
        try:
            yield from attempt(anything_committed)
            return
        except Superseded:
            # By whoever else goes on with the run: theirs is the one to look for.
            view.close()
            run = control.load_run(view.run_id)
            assert run is not None
            view.reload(run)
            anything_committed = bool(control.committed(view.run_id))


def _choices(run_id: str, why: str) -> str:
    return (
        f"the snapshot of run {run_id} is lost: {why}. Rows that changed in between could be "
        "missing or doubled. To go on, use --on-snapshot-lost accept (read the rest as it is now) "
        "or --on-snapshot-lost restart (copy everything again; not with mode append)"
    )
