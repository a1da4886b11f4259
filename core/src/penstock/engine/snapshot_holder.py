"""`hold`, `release`: the snapshot of a run that many processes execute, held by one of them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any

from penstock.backends.api.execution.control import ControlStore, Outlook
from penstock.engine.connections import Connections, connect
from penstock.engine.control_link import ControlLink
from penstock.engine.resume_checks import committed_partitions, stored_spec
from penstock.engine.snapshot.loss_policy import OptionPolicy
from penstock.engine.snapshot.source_view import SourceView
from penstock.engine.stored_runs import load_run, missing_run_error, target_catalog
from penstock.engine.value_display import isolate_display, isolate_generator_display
from penstock.errors import PermanentError, SnapshotLost, TransientError
from penstock.events import Event, SnapshotChanged
from penstock.model import values
from penstock.spec.copy_spec import CopySpec
from penstock.spec.ids import check_run_id
from penstock.verification.partitions import is_compared

# Seconds between checks of the snapshot's session and of the target.
LOOK_EVERY = 0.5
LOOK_AT_TARGET_EVERY = 2.0
# Seconds for which a server may be unreachable before the holder ends; another may take over.
AWAY_SECONDS = 300.0


@isolate_generator_display
def hold(
    run_id: str,
    *,
    source: str,
    target: str,
    control_schema: str = "penstock",
    stop: threading.Event | None = None,
    **overrides: Any,
) -> Generator[Event, None, None]:
    """Hold a run's snapshot for as long as the run needs it; yields its events.

    Takes a snapshot if the run has none. If the run's snapshot is lost, another one replaces it as
    far as `on_snapshot_lost` allows; if another process holds it, it is only watched. Ends when
    every partition is committed (and, if requested, both sides are compared), or after `release`;
    at once if that was called before, unless `require_snapshot` was called since. Closing the
    iterator releases the snapshot.

    Args:
        run_id: the id of the run.
        source: the source's connection, which is not stored with the run.
        target: the target's connection, which is not stored with the run.
        control_schema: the schema of the control tables.
        stop: once set, the snapshot is dropped within about a second; the run still waits for it.
        overrides: as in `resume`; only `on_snapshot_lost` and
            `give_way_after` matter.

    Raises:
        UsageError: no such run or option.
        SnapshotLost: the snapshot is lost, and the run may not continue with another one;
            executions then stop waiting for a holder.
        PlanningError: the rows are not where the plan says.
        TransientError: a server stays unreachable.
    """
    check_run_id(run_id)
    ends = connect(source, target)
    with (
        closing(ends.target_backend.target(ends.target_url, control_schema)) as catalog,
        closing(ends.link(catalog, control_schema)) as link,
    ):
        run = load_run(catalog, run_id, control_schema)
        spec = stored_spec(run, source, target, control_schema, "hold", overrides)
        values.choose(spec.show_values)
        outlook = catalog.control.runs.outlook(run_id)
        assert outlook is not None
        compared = is_compared(spec, run.plan)
        if outlook.released or not _needs_snapshot(spec, outlook, compared=compared):
            return
        holder = _Holder(spec, run_id, ends, link, stop or threading.Event(), compared=compared)
        yield from holder.run()


@isolate_display
def release(run_id: str, *, target: str, control_schema: str = "penstock") -> None:
    """Mark a run's snapshot as no longer needed; its holder ends within seconds.

    Args:
        run_id: the id of the run.
        target: the connection to the target.
        control_schema: the schema of the control tables.

    Raises:
        UsageError: no such run.
    """
    _note(run_id, target, control_schema, lambda control: control.runs.release_snapshot(run_id))


@isolate_display
def require_snapshot(run_id: str, *, target: str, control_schema: str = "penstock") -> None:
    """Mark a run as needing a snapshot again after it was released; `hold` will hold one.

    A holder must not call this by itself: one that starts late or again would outlive its run.

    Args:
        run_id: the id of the run.
        target: the connection to the target.
        control_schema: the schema of the control tables.

    Raises:
        UsageError: no such run.
    """
    _note(run_id, target, control_schema, lambda control: control.runs.require_snapshot(run_id))


def _note(
    run_id: str, target: str, control_schema: str, write: Callable[[ControlStore], bool]
) -> None:
    """Change the run's row.

    Raises:
        UsageError: no such run.
    """
    check_run_id(run_id)
    with target_catalog(target, control_schema) as catalog:
        if not write(catalog.control):
            raise missing_run_error(run_id, control_schema)


def _needs_snapshot(spec: CopySpec, outlook: Outlook, *, compared: bool) -> bool:
    if spec.snapshot == "none" or outlook.status == "done":
        return False
    # The execution that compares both sides marks the snapshot as released.
    return outlook.pending > 0 or (compared and not outlook.released)


class _Stopped(Exception):
    """The caller wants the snapshot released."""


class _Holder:
    def __init__(
        self,
        spec: CopySpec,
        run_id: str,
        ends: Connections,
        link: ControlLink,
        stop: threading.Event,
        *,
        compared: bool,
    ) -> None:
        self._spec = spec
        self._run_id = run_id
        self._ends = ends
        self._link = link
        self._stop = stop
        self._compared = compared
        self._view = SourceView(spec, run_id, ends.source_url, ends.source_backend, OptionPolicy())
        self._looked = time.monotonic()
        self._away_since: float | None = None
        self._replaced = False
        """Whether another process has given the run another snapshot."""

    def run(self) -> Iterator[Event]:
        try:
            yield from self._find()
            while self._is_needed():
                self._pause(LOOK_EVERY)
                yield from self._watch()
            yield self._released()
        except _Stopped:
            return
        except PermanentError:
            # Executions must not wait for a holder: there will be none.
            with contextlib.suppress(TransientError):
                self._release()
            raise
        finally:
            self._view.close()

    def _pause(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise _Stopped

    def _find(self) -> Iterator[Event]:
        """Take, adopt or replace the snapshot, as the run's row and its policy say.

        Raises:
            SnapshotLost, PlanningError: the policy does not allow it.
            TransientError: a server stays unreachable.
        """
        while True:
            self._view.close()
            self._replaced = False
            try:
                run = load_run(self._link.catalog, self._run_id, self._spec.control_schema)
                ends = self._ends.with_planned_types(run.plan)
                self._view = SourceView(
                    self._spec,
                    self._run_id,
                    ends.source_url,
                    ends.source_backend,
                    OptionPolicy(),
                    run,
                    pause=self._pause,
                )
                control = self._link.catalog.control
                committed = committed_partitions(run, control)
                with closing(self._view.open()) as source:
                    yield from self._view.recover(
                        source, control, anything_committed=bool(committed)
                    )
                self._away_since = None
                return
            except TransientError as error:
                self._note_away(error)
                self._link.drop()
                self._pause(LOOK_AT_TARGET_EVERY)

    def _watch(self) -> Iterator[Event]:
        """Watch the snapshot, even if another process holds it, and replace it if it is lost."""
        if self._replaced:
            yield from self._find()
            return
        try:
            yield from self._view.handle.watch()
            if not self._view.handle.holds and self._due():
                self._check_other_holder()
        except SnapshotLost as error:
            yield self._view.lost_event(error.message)
            yield from self._find()

    def _check_other_holder(self) -> None:
        """Check that another process holds the snapshot.

        Raises:
            SnapshotLost: no process holds it.
        """
        try:
            with closing(self._view.open()) as source:
                self._view.adopt(source)
        except TransientError as error:
            self._note_away(error)

    def _due(self) -> bool:
        return time.monotonic() - self._looked >= LOOK_AT_TARGET_EVERY

    def _is_needed(self) -> bool:
        """Whether the run still needs the snapshot; true if the target does not answer."""
        if not self._due():
            return True
        self._looked = time.monotonic()
        try:
            outlook = self._link.catalog.control.runs.outlook(self._run_id)
        except TransientError as error:
            self._note_away(error)
            self._link.drop()
            return True
        self._away_since = None
        if outlook is None:
            return False
        self._replaced = outlook.snapshot != self._view.snapshot
        return not outlook.released and _needs_snapshot(
            self._spec, outlook, compared=self._compared
        )

    def _note_away(self, error: TransientError) -> None:
        """Note that a server is unreachable.

        Raises:
            TransientError: a server has been unreachable for too long.
        """
        now = time.monotonic()
        self._away_since = self._away_since or now
        if now - self._away_since >= AWAY_SECONDS:
            raise error

    def _released(self) -> SnapshotChanged:
        # In this order, so that no execution finds a lost snapshot and still waits for a holder.
        self._release()
        self._view.close()
        return self._view.released_event()

    def _release(self) -> None:
        self._link.call(lambda control: control.runs.release_snapshot(self._run_id))
