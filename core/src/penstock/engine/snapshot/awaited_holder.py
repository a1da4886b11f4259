"""Executions that wait for the holder of their run's snapshot, which is another process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing

from penstock.backends.api.execution.control import ControlStore
from penstock.backends.api.source import SourceCatalog
from penstock.engine.snapshot.loss_policy import OptionPolicy
from penstock.engine.snapshot.source_view import SourceView
from penstock.errors import NoHolder, SnapshotLost, UsageError
from penstock.events import Event, Warned

LOOK_EVERY = 0.5


class AwaitHolder:
    """A policy that waits for the run's holder if there is no snapshot, and takes none itself.

    The holder decides what losing a snapshot means: it may find that nothing was written to the
    source. Once the run is marked as released, no holder will come, and the execution finds a view
    by itself, like any other.

    Args:
        seconds: how long to wait for a holder.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._fallback = OptionPolicy()

    def recover(
        self,
        view: SourceView,
        source: SourceCatalog,
        control: ControlStore,
        *,
        anything_committed: bool,
    ) -> Iterator[Event]:
        """See `LossPolicy.recover`.

        Raises:
            NoHolder: no holder came in time; otherwise as `LossPolicy.recover`.
        """
        return self._await(
            view,
            source,
            control,
            lambda: self._fallback.recover(
                view, source, control, anything_committed=anything_committed
            ),
        )

    def replace_lost(
        self, view: SourceView, control: ControlStore, *, anything_committed: bool
    ) -> Iterator[Event]:
        """See `LossPolicy.replace_lost`.

        Raises:
            NoHolder: no holder came in time; otherwise as `LossPolicy.replace_lost`.
        """
        with closing(view.open()) as source:
            yield from self._await(
                view,
                source,
                control,
                lambda: self._fallback.replace_lost(
                    view, control, anything_committed=anything_committed
                ),
            )

    def view_for_comparison(self, view: SourceView, control: ControlStore) -> Iterator[Event]:
        """See `LossPolicy.view_for_comparison`; once the snapshot is released, none is needed.

        Raises:
            NoHolder: no holder came in time.
        """
        with closing(view.open()) as source:
            yield from self._await(view, source, control, lambda: iter(()))

    def _await(
        self,
        view: SourceView,
        source: SourceCatalog,
        control: ControlStore,
        alone: Callable[[], Iterator[Event]],
    ) -> Iterator[Event]:
        started = time.monotonic()
        announced = False
        loss = ""
        while True:
            stored = control.runs.view(view.run_id)
            if stored is None:
                raise UsageError(f"run {view.run_id!r} is no longer in the target")
            view.reload(stored)
            if stored.released_at is not None:
                yield from alone()
                return
            if view.snapshot is not None:
                try:
                    view.adopt(source)
                except SnapshotLost as error:
                    loss = error.message
                else:
                    yield view.event("adopted", "from the run's snapshot holder")
                    return
            if time.monotonic() - started >= self._seconds:
                raise NoHolder(
                    f"no process holds the snapshot of run {view.run_id}: waited "
                    f"{self._seconds:g} s and found "
                    f"{f'a lost one ({loss})' if view.snapshot else 'none'}; start a holder with "
                    f"`penstock hold {view.run_id}`"
                )
            if not announced:
                announced = True
                yield Warned(
                    run_id=view.run_id,
                    message=f"waiting up to {self._seconds:g} s for the holder of the run's "
                    "snapshot",
                )
            view.pause(LOOK_EVERY)
