"""A run whose snapshot somebody else holds: its executions wait for the holder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing

from penstock.backends.api.control import ControlStore
from penstock.backends.api.source import SourceCatalog
from penstock.errors import NoHolder, SnapshotLost, UsageError
from penstock.events import Event, Warned
from penstock.run.loss_policy import AsAsked
from penstock.run.source_view import SourceView

LOOK_EVERY = 0.5


class AwaitHolder:
    """Waits for the run's holder where there is no snapshot, and takes none of its own.

    What the loss of a snapshot means is the holder's to say: it may find that nothing was written
    to the source. Once the run is marked as released no holder will come, and the execution finds
    one by itself, as any other.

    Parameters:
        seconds: how long a holder is waited for.
    """

    awaits = True

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._alone = AsAsked()

    def recover(
        self,
        view: SourceView,
        source: SourceCatalog,
        control: ControlStore,
        *,
        anything_committed: bool,
    ) -> Iterator[Event]:
        """
        Raises:
            NoHolder: nobody came in time. Else as `LossPolicy.recover`.
        """
        return self._await(
            view,
            source,
            control,
            lambda: self._alone.recover(
                view, source, control, anything_committed=anything_committed
            ),
        )

    def replace_lost(
        self, view: SourceView, control: ControlStore, *, anything_committed: bool
    ) -> Iterator[Event]:
        """
        Raises:
            NoHolder: nobody came in time. Else as `LossPolicy.replace_lost`.
        """
        with closing(view.open()) as source:
            yield from self._await(
                view,
                source,
                control,
                lambda: self._alone.replace_lost(
                    view, control, anything_committed=anything_committed
                ),
            )

    def compare_with(
        self, view: SourceView, source: SourceCatalog, control: ControlStore
    ) -> Iterator[Event]:
        """Wait for the snapshot, to compare with; where it is released, do without.

        Raises:
            NoHolder: nobody came in time.
        """
        return self._await(view, source, control, lambda: iter(()))

    def _await(
        self,
        view: SourceView,
        source: SourceCatalog,
        control: ControlStore,
        alone: Callable[[], Iterator[Event]],
    ) -> Iterator[Event]:
        begun = time.monotonic()
        told = False
        while True:
            run = control.load_run(view.run_id)
            if run is None:
                raise UsageError(f"run {view.run_id!r} is not in the target any more")
            view.reload(run)
            if run.released_at is not None:
                yield from alone()
                return
            if view.snapshot is not None:
                try:
                    source.adopt(view.snapshot)
                except SnapshotLost:
                    pass
                else:
                    yield view.event("adopted", "the run's holder holds it")
                    return
            if time.monotonic() - begun >= self._seconds:
                raise NoHolder(
                    f"nobody holds the snapshot of run {view.run_id}: waited "
                    f"{self._seconds:g} s and "
                    f"found {'one that is gone' if view.snapshot else 'none'}; start a holder with "
                    f"`penstock hold {view.run_id}`"
                )
            if not told:
                told = True
                yield Warned(
                    run_id=view.run_id,
                    message="waiting for whoever holds the run's snapshot, up to "
                    f"{self._seconds:g} s",
                )
            view.pause(LOOK_EVERY)
