"""Copies that read the source as it is now, because the user requested that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

from penstock.backends.api.execution.control import ControlStore
from penstock.backends.api.source import SourceCatalog
from penstock.engine.snapshot.loss_policy import OptionPolicy, retry_if_superseded
from penstock.engine.snapshot.source_view import SourceView
from penstock.errors import SnapshotLost, TargetBusy
from penstock.events import Event, SnapshotChanged, Warned
from penstock.model.extents import BlockRange, ChildBlocks, Extent
from penstock.model.plans import id_list
from penstock.model.snapshots import SourceState

_BLOCKS = BlockRange | ChildBlocks


class CurrentReads:
    """A policy that takes a snapshot of its own, even if the run's is held.

    The run's own snapshot stays valid for the other partitions. Each commit record has the moment
    as of which its rows were read.

    An update may move a row to another block, and so to another partition if partitions are block
    ranges. If that may have happened, the run starts over.

    Args:
        only: ids of the requested partitions; empty for all that are left.
    """

    def __init__(self, only: Sequence[str]) -> None:
        self._only = only
        self._all = OptionPolicy()

    def recover(
        self,
        view: SourceView,
        source: SourceCatalog,
        control: ControlStore,
        *,
        anything_committed: bool,
    ) -> Iterator[Event]:
        """See `LossPolicy.recover`."""

        def once(committed: bool) -> Iterator[Event]:
            if committed or self._only:
                return self._read_now(view, source, control, anything_committed=committed)
            # Everything is read as it is now: this becomes the run's own snapshot.
            return self._all.recover_once(view, source, control, anything_committed=False)

        return retry_if_superseded(view, control, once, anything_committed=anything_committed)

    def replace_lost(
        self, view: SourceView, control: ControlStore, *, anything_committed: bool
    ) -> Iterator[Event]:
        """See `LossPolicy.replace_lost`.

        Raises:
            PlanningError: the rows are not where the plan says.
            TargetBusy: others still read with a snapshot in which some rows are elsewhere.
        """
        view.close()
        with closing(view.open()) as source:
            yield from self.recover(view, source, control, anything_committed=anything_committed)

    def view_for_comparison(self, view: SourceView, control: ControlStore) -> Iterator[Event]:
        """See `LossPolicy.view_for_comparison`; both sides are compared as they are now."""
        return iter(())

    def _read_now(
        self,
        view: SourceView,
        source: SourceCatalog,
        control: ControlStore,
        *,
        anything_committed: bool,
    ) -> Iterator[Event]:
        is_held = _is_held(view)
        now = view.read_state(source)
        view.snapshots = view.stored
        event = view.renew("renewed", "as requested: read the source as it is now")
        # From here on the tables are safe from being rewritten.
        view.check_layout(
            view.read_state(source),
            anything_committed=anything_committed,
            may_start_over=False,
        )
        assert view.snapshot is not None
        source.adopt(view.snapshot)
        if now.moment != view.state.moment and self._may_have_moved(
            view, source, control, is_held=is_held
        ):
            if is_held:
                raise TargetBusy(
                    f"rows of {view.spec.source_name} were written after the snapshot of run "
                    f"{view.run_id} was taken, and may have moved to another partition's blocks, "
                    "while other partitions are still read with that snapshot; try again once "
                    "those have ended"
                )
            yield _start_again(view, control, now)
        else:
            yield event
            yield self._read_later_warning(view)

    def _may_have_moved(
        self, view: SourceView, source: SourceCatalog, control: ControlStore, *, is_held: bool
    ) -> bool:
        """Whether a row of the requested partitions may have moved out, or been read elsewhere.

        Uncommitted partitions are read as they are now or later, unless the run's snapshot is held.
        """
        rows = {
            record.partition_id: record.rows
            for record in control.commits.of([view.run_id])[view.run_id]
        }
        uncommitted = {partition.id for partition in view.plan.partitions}.difference(rows)
        requested = {each for each in self._only if each in uncommitted} or uncommitted
        extents: list[tuple[Extent, int | None]] = [
            (partition.extent, rows.get(partition.id))
            for partition in view.plan.partitions
            if isinstance(partition.extent, _BLOCKS)
            and (partition.id in rows or (is_held and uncommitted != requested))
        ]
        return bool(extents) and source.may_have_moved(
            view.spec.relation, view.plan.where(view.spec.where), extents, view.state
        )

    def _read_later_warning(self, view: SourceView) -> Warned:
        assert view.snapshot is not None
        what = id_list(self._only) or "the remaining partitions"
        earlier = (
            f"; other rows of the run were read as of {view.stored[0].taken_at} or later"
            if view.stored
            else ""
        )
        return Warned(
            run_id=view.run_id,
            message=f"{what}: read as of {view.snapshot.taken_at}, as requested" + earlier,
        )


def _is_held(view: SourceView) -> bool:
    """Whether a session holds the run's own snapshot."""
    if view.snapshot is None:
        return False
    with closing(view.open()) as source:
        try:
            view.adopt(source)
        except SnapshotLost:
            return False
    return True


def _start_again(view: SourceView, control: ControlStore, now: SourceState) -> SnapshotChanged:
    """Copy everything as it is now: only that is sure to copy each row exactly once."""
    assert view.snapshot is not None
    view.snapshots = view.snapshots[-1:]
    if view.spec.load_mode.only_adds:
        # Only rows that this run has added are removed.
        committed = [
            record.partition_id for record in control.commits.of([view.run_id])[view.run_id]
        ]
        control.recopies.forget(
            view.run_id,
            committed,
            f"as of {view.snapshot.taken_at}",
            rows_of=view.plan.load.table,
            patience=view.spec.stall_timeout,
        )
        view.store(control, now, nothing_committed=True)
    else:
        view.restart(control, now)
    return view.event(
        "renewed",
        "started over: rows were written since, and may have moved to the blocks of other "
        "partitions, so everything is copied again as it is now",
    )
