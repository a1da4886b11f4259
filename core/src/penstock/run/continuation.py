"""The continuation of an existing run: the rest of it, and a view of the source to read that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext

from penstock.backends.api.execution.control import ControlStore, RunRow
from penstock.backends.api.target import TargetCatalog
from penstock.events import Event
from penstock.model.plans import Partition
from penstock.run.claims import enter
from penstock.run.connections import Connections
from penstock.run.recopy import RecopyRequest
from penstock.run.resume_checks import check_same_shape, committed_partitions, unless_complete
from penstock.run.snapshot.source_view import SourceView
from penstock.spec.copy_spec import CopySpec


class Continuation:
    """The rest of an existing run.

    Args:
        spec: the options of the run, with those of this execution.
        run: the stored run.
        partitions: the requested partitions.
        control: the target's control store.
        request: the name of a request to copy them again; None to copy nothing again.
    """

    def __init__(
        self,
        spec: CopySpec,
        run: RunRow,
        partitions: Sequence[Partition],
        control: ControlStore,
        request: str | None = None,
    ) -> None:
        self._spec = spec
        self._run = run
        committed = committed_partitions(run, control)
        self._recopying = RecopyRequest(
            spec.load_mode, run, partitions, committed, control, request, spec.stall_timeout
        )
        recopied = self._recopying.partition_ids
        self.pending = [p for p in partitions if p.id not in committed or p.id in recopied]
        """The partitions to copy."""
        self.complete = len(committed) == len(run.plan.partitions) and not recopied
        """Whether nothing is left of the whole run."""

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
