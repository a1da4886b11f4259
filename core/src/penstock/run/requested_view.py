"""The view of an execution that a person has asked for: the source as it is now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from penstock.backends.api.control import ControlStore
from penstock.backends.api.source import SourceCatalog
from penstock.errors import PlanningError, SnapshotLost
from penstock.events import Event, SnapshotChanged, Warned
from penstock.model.extents import BlockRange, ChildBlocks, Extent
from penstock.model.plans import Partition, PartitionPlan, named
from penstock.run.source_view import SourceView

_BLOCKS = BlockRange | ChildBlocks


class RequestedView(SourceView):
    """Takes a snapshot of its own, whoever may hold the run's.

    The run's own snapshot stays what it is, for the partitions that nobody has asked for. Each
    commit record says which moment its rows are of.

    A row that is updated may go to another block, and so from one partition that is a range of
    blocks to another. Where that may have happened, the run starts over.

    Parameters:
        only: ids of the partitions that are asked for; empty for all that are left.
    """

    def __init__(self, *args: Any, only: Sequence[str], **kwargs: Any) -> None:
        self._only = only
        super().__init__(*args, **kwargs)

    def planned_by(self, plan: PartitionPlan) -> None:
        super().planned_by(plan)
        self._partitions: Sequence[Partition] = plan.partitions

    def _recover(
        self, source: SourceCatalog, control: ControlStore, *, anything_committed: bool
    ) -> Iterator[Event]:
        if anything_committed or self._only:
            yield from self._read_now(source, control, anything_committed=anything_committed)
        else:
            # All of it is read as of now: that is the run's own snapshot from here on.
            yield from super()._recover(source, control, anything_committed=False)

    def replace_lost(self, control: ControlStore, *, anything_committed: bool) -> Iterator[Event]:
        """
        Raises:
            PlanningError: the rows are not where the plan says.
        """
        self.close()
        with closing(self.open()) as source:
            yield from self.recover(source, control, anything_committed=anything_committed)

    def _read_now(
        self, source: SourceCatalog, control: ControlStore, *, anything_committed: bool
    ) -> Iterator[Event]:
        held = self._is_held()
        now = source.state(self._spec.relation)
        self.snapshots = self._stored
        event = self._renew("renewed", "as asked: the source as it is now")
        # Only now are the tables safe from being rewritten.
        self._check_layout(source.state(self._spec.relation), anything_committed=anything_committed)
        assert self.snapshot is not None
        source.adopt(self.snapshot)
        if now.moment != self.state.moment and self._may_have_moved(source, control, held=held):
            if held:
                raise PlanningError(
                    f"rows of {self._spec.source_name} were written since the snapshot of run "
                    f"{self._run_id} was taken, and may be in the blocks of another partition "
                    "now, while others are still read with that snapshot; expected nobody to "
                    "hold it any more: ask again when the other partitions have ended"
                )
            self._state = now
            yield self._start_again(control)
        else:
            yield event
            yield self._told()

    def _is_held(self) -> bool:
        """Whether somebody holds the run's own snapshot."""
        if self.snapshot is None:
            return False
        with closing(self.open()) as source:
            try:
                source.adopt(self.snapshot)
            except SnapshotLost:
                return False
        return True

    def _may_have_moved(self, source: SourceCatalog, control: ControlStore, *, held: bool) -> bool:
        """Whether a row of what is asked for may be elsewhere, or was read elsewhere before.

        What is not committed is read as of now or later, unless the run's snapshot is held.
        """
        rows = {record.partition_id: record.rows for record in control.committed(self._run_id)}
        left = {partition.id for partition in self._partitions}.difference(rows)
        asked = {each for each in self._only if each in left} or left
        others: list[tuple[Extent, int | None]] = [
            (partition.extent, rows.get(partition.id))
            for partition in self._partitions
            if isinstance(partition.extent, _BLOCKS)
            and (partition.id in rows or (held and left != asked))
        ]
        return bool(others) and source.may_have_moved(
            self._spec.relation, self._spec.where, others, self.state
        )

    def _start_again(self, control: ControlStore) -> SnapshotChanged:
        """Copy everything as it is now: nothing else would be sure to have each row once."""
        assert self.snapshot is not None
        self.snapshots = self.snapshots[-1:]
        if self._spec.load_mode.only_adds:
            # Only what this run has added is taken back.
            committed = [record.partition_id for record in control.committed(self._run_id)]
            control.forget(
                self._run_id,
                committed,
                f"as of {self.snapshot.taken_at}",
                rows_of=self._load.table,
                patience=self._spec.stall_timeout,
            )
            self.generation = control.set_view(
                self._run_id,
                self.generation,
                self._stored,
                self.state,
                self.snapshots,
                nothing_committed=True,
            )
            self._stored = self.snapshots
        else:
            self._restart(control)
        return self._event(
            "renewed",
            "started over: rows were written since, and may be in the blocks of other partitions "
            "now, so that all is copied again, as of now",
        )

    def _told(self) -> Warned:
        assert self.snapshot is not None
        what = named(self._only) or "what is left"
        others = (
            f"; other rows of the run are of {self._stored[0].taken_at} or later"
            if self._stored
            else ""
        )
        return Warned(
            run_id=self._run_id,
            message=f"{what}: read as of {self.snapshot.taken_at}, since somebody asked for it"
            + others,
        )

    def _starts_over(self) -> bool:
        return False
