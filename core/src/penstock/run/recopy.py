"""Which partitions of a run an execution copies again, and when what they hold is given up."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.backends.api.control import ControlStore, RunRow
from penstock.model.plans import Partition
from penstock.spec.copy_spec import CopySpec


class Recopying:
    """
    Parameters:
        partitions: those that are asked for.
        committed: ids of all that are committed.
        request: names the request; None where nothing is to be copied again.
    """

    def __init__(
        self,
        spec: CopySpec,
        run: RunRow,
        partitions: Sequence[Partition],
        committed: set[str],
        control: ControlStore,
        request: str | None,
    ) -> None:
        self._spec = spec
        self._run = run
        self._control = control
        self._request = request or ""
        self._asked = [partition.id for partition in partitions]
        seen = control.recopied(run.run_id, request) if request else frozenset(self._asked)
        self._unseen = [partition_id for partition_id in self._asked if partition_id not in seen]
        self.wanted = committed.intersection(self._unseen)
        """Ids of the partitions that are to be copied again."""
        if self.wanted:
            control.check_recopy(run.run_id)
        self.kept = set(committed)
        """Ids of those that are committed, as far as is known."""

    def forget_all(self) -> None:
        """Forget what is wanted where nothing else is committed: the run may take a view of now."""
        if self.wanted and self.wanted == self.kept:
            self.forget()
            self.kept = set()

    def forget(self) -> None:
        """Take back what is wanted, unless this request has done so before.

        Not before the run has a view: rows are given up only for what can be copied.
        """
        if self._unseen:
            # Else the partition's next attempt takes their place, in its own transaction.
            self_replacing = self._spec.load_mode.reloads_partitions
            table = None if self_replacing else self._run.plan.load.table
            self._control.forget(
                self._run.run_id,
                self._unseen,
                self._request,
                rows_of=table,
                patience=self._spec.stall_timeout,
            )
            self._unseen = []
