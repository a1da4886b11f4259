"""The continuation of an existing run: the rest of it, and a view of the source to read that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass

from penstock.backends.api.execution.control import ControlStore, RunRow
from penstock.backends.api.target import TargetCatalog
from penstock.engine.claims import enter
from penstock.engine.connections import Connections
from penstock.engine.resume_checks import (
    check_same_shape,
    check_version,
    committed_partitions,
    unless_complete,
)
from penstock.engine.snapshot.awaited_holder import AwaitHolder
from penstock.engine.snapshot.current_reads import CurrentReads
from penstock.engine.snapshot.loss_policy import OptionPolicy
from penstock.engine.snapshot.source_view import Hold, Join, LossPolicy, SourceView
from penstock.events import Event
from penstock.model.plans import Partition, PartitionPlan
from penstock.spec.copy_spec import CopySpec
from penstock.spec.modes import Mode


class RecopyRequest:
    """A request to copy partitions again.

    Args:
        mode: the run's mode.
        run: the stored run.
        partitions: the requested partitions.
        committed: ids of all committed partitions.
        control: the target's control store.
        request: the name of the request; None to copy nothing again.
        patience: seconds to wait for a session that blocks and makes no progress.
    """

    def __init__(
        self,
        mode: Mode,
        run: RunRow,
        partitions: Sequence[Partition],
        committed: set[str],
        control: ControlStore,
        request: str | None,
        patience: float,
    ) -> None:
        self._mode = mode
        self._patience = patience
        self._run = run
        self._control = control
        self._request = request or ""
        self._requested = [partition.id for partition in partitions]
        recopied = (
            control.recopies.of(run.run_id, request) if request else frozenset(self._requested)
        )
        self._new = [
            partition_id for partition_id in self._requested if partition_id not in recopied
        ]
        self.partition_ids = committed.intersection(self._new)
        """Ids of the partitions to copy again."""
        if self.partition_ids:
            control.recopies.check(run.run_id)
        self.committed = set(committed)
        """Ids of the committed partitions, as far as known."""

    def forget_all(self) -> None:
        """Drop the request if nothing else is committed: then the run may take another snapshot."""
        if self.partition_ids and self.partition_ids == self.committed:
            self.forget()
            self.committed = set()

    def forget(self) -> None:
        """Delete the commit records of what to copy again, unless this request already did.

        Only call this once the run has a view: rows are deleted only if they can be copied again.
        """
        if self._new:
            # Otherwise the partition's next attempt replaces the rows, in its own transaction.
            self_replacing = self._mode.reloads_partitions
            table = None if self_replacing else self._run.plan.load.table
            self._control.recopies.forget(
                self._run.run_id,
                self._new,
                self._request,
                rows_of=table,
                patience=self._patience,
            )
            self._new = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """What to copy of an existing run, and how to read it; see `resume`."""

    only: Sequence[str] = ()
    await_snapshot: float | None = None
    as_of_now: bool = False
    recopy: str | None = None

    def partitions(self, plan: PartitionPlan) -> Sequence[Partition]:
        """Return the requested partitions of a plan.

        Raises:
            UsageError: the plan has no such partition.
        """
        return [plan.partition(each) for each in self.only] or plan.partitions


class Continuation:
    """The rest of an existing run.

    Args:
        spec: the options of the run, with those of this execution.
        run: the stored run.
        rest: what to copy of it.
        control: the target's control store.
    """

    def __init__(
        self,
        spec: CopySpec,
        run: RunRow,
        rest: Rest,
        control: ControlStore,
    ) -> None:
        check_version(run)
        self._spec = spec
        self._run = run
        self._rest = rest
        self.partitions = rest.partitions(run.plan)
        """The requested partitions."""
        committed = committed_partitions(run, control)
        self._recopying = RecopyRequest(
            spec.load_mode,
            run,
            self.partitions,
            committed,
            control,
            rest.recopy,
            spec.stall_timeout,
        )
        recopied = self._recopying.partition_ids
        self.pending = [p for p in self.partitions if p.id not in committed or p.id in recopied]
        """The partitions to copy."""
        self.complete = len(committed) == len(run.plan.partitions) and not recopied
        """Whether nothing is left of the whole run."""

    def view(self, ends: Connections, hold: Hold, *, shares: bool, join: Join | None) -> SourceView:
        """Return the run's view of the source, as stored; `find_view` finds one for the rest.

        Args:
            ends: the connections of the run.
            hold: takes a snapshot.
            shares: see `SourceView`.
            join: see `SourceView`.
        """
        return SourceView(
            self._spec,
            self._run.run_id,
            ends.source_url,
            ends.source_backend,
            self._policy(),
            self._run,
            hold,
            shares=shares,
            join=join,
        )

    def _policy(self) -> LossPolicy:
        rest = self._rest
        if self._spec.snapshot == "none":
            return OptionPolicy()
        # With nothing to copy, both sides are compared as of the run's own snapshot.
        if rest.as_of_now and self.pending:
            return CurrentReads([p.id for p in self.pending] if rest.only else ())
        if rest.await_snapshot is None:
            return OptionPolicy()
        return AwaitHolder(rest.await_snapshot)

    def find_view(
        self, view: SourceView, ends: Connections, target: TargetCatalog
    ) -> Iterator[Event]:
        """Check that the run may continue, and find a view of the source for the rest.

        Args:
            view: the run's view of the source.
            ends: the connections of the run.
            target: the target's catalog.

        Raises:
            TargetBusy: another run is already writing these rows.
            PlanningError: the shape of the source or target has changed.
            SnapshotLost: the run allows no other view.
        """
        spec, recopying = self._spec, self._recopying
        run, control = self._run, target.control
        enter(spec, run.run_id, run.plan, control)
        # Partitions to copy again are committed, but still need a view.
        guard = nullcontext() if recopying.partition_ids else unless_complete(run, control)
        with guard, closing(ends.open_source()) as source:
            check_same_shape(spec, run, source, target, ends.capabilities.formats)
            recopying.forget_all()
            yield from view.recover(source, control, anything_committed=bool(recopying.committed))
        recopying.forget()
