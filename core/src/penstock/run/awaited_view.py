"""The view of an execution that reads with a snapshot which somebody else holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

from penstock.backends.api.backend import Backend
from penstock.backends.api.control import ControlStore, RunRow
from penstock.backends.api.source import SourceCatalog
from penstock.errors import NoHolder, SnapshotLost, UsageError
from penstock.events import Event, Warned
from penstock.run.requested_view import RequestedView
from penstock.run.source_view import SourceView
from penstock.spec.copy_spec import CopySpec

LOOK_EVERY = 0.5


class AwaitedView(SourceView):
    """Waits for the run's holder where there is no snapshot, and takes none of its own.

    What the loss of a snapshot means is the holder's to say: it may find that nothing was written
    to the source. Once the run is marked as released no holder will come, and the view finds one by
    itself, as any other.

    Parameters:
        seconds: how long a holder is waited for.
    """

    awaits = True

    def __init__(self, *args: Any, seconds: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._seconds = seconds

    def recover(
        self, source: SourceCatalog, control: ControlStore, *, anything_committed: bool
    ) -> Iterator[Event]:
        """
        Raises:
            NoHolder: nobody came in time. Else as `SourceView.recover`.
        """

        def alone() -> Iterator[Event]:
            return super(AwaitedView, self).recover(
                source, control, anything_committed=anything_committed
            )

        return self._await(source, control, alone)

    def replace_lost(self, control: ControlStore, *, anything_committed: bool) -> Iterator[Event]:
        """
        Raises:
            NoHolder: nobody came in time. Else as `SourceView.replace_lost`.
        """

        def alone() -> Iterator[Event]:
            return super(AwaitedView, self).replace_lost(
                control, anything_committed=anything_committed
            )

        with closing(self.open()) as source:
            yield from self._await(source, control, alone)

    def compare_with(self, source: SourceCatalog, control: ControlStore) -> Iterator[Event]:
        """Wait for the snapshot, to compare with; where it is released, do without.

        Raises:
            NoHolder: nobody came in time.
        """
        return self._await(source, control, lambda: iter(()))

    def _await(
        self,
        source: SourceCatalog,
        control: ControlStore,
        alone: Callable[[], Iterator[Event]],
    ) -> Iterator[Event]:
        begun = time.monotonic()
        told = False
        while True:
            run = control.load_run(self._run_id)
            if run is None:
                raise UsageError(f"run {self._run_id!r} is not in the target any more")
            self.reload(run)
            if run.released_at is not None:
                yield from alone()
                return
            if self.snapshot is not None:
                try:
                    source.adopt(self.snapshot)
                except SnapshotLost:
                    pass
                else:
                    yield self._event("adopted", "the run's holder holds it")
                    return
            if time.monotonic() - begun >= self._seconds:
                raise NoHolder(
                    f"nobody holds the snapshot of run {self._run_id}: waited "
                    f"{self._seconds:g} s and "
                    f"found {'one that is gone' if self.snapshot else 'none'}; start a holder with "
                    f"`penstock hold {self._run_id}`"
                )
            if not told:
                told = True
                yield Warned(
                    run_id=self._run_id,
                    message="waiting for whoever holds the run's snapshot, up to "
                    f"{self._seconds:g} s",
                )
            self._pause(LOOK_EVERY)


def make_view(
    spec: CopySpec,
    run: RunRow,
    url: str,
    backend: Backend,
    *,
    await_snapshot: float | None,
    asked: Sequence[str] | None,
) -> SourceView:
    """The view of a run that exists.

    Parameters:
        await_snapshot: seconds to wait for the snapshot's holder; None to be its holder.
        asked: ids of the partitions that a person wants to be read as of now, empty for all that
            are left; None where nobody does.
    """
    if asked is not None and spec.snapshot != "none":
        return RequestedView(spec, run.run_id, url, backend, run, only=asked)
    if await_snapshot is None or spec.snapshot == "none":
        return SourceView(spec, run.run_id, url, backend, run)
    return AwaitedView(spec, run.run_id, url, backend, run, seconds=await_snapshot)
