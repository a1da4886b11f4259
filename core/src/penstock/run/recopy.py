"""The partitions of a run that an execution copies again, and when their records are deleted."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.backends.api.execution.control import ControlStore, RunRow
from penstock.model.plans import Partition
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
