"""The operator of mapped tasks that share the partitions of a run among themselves."""

from __future__ import annotations

import time
from collections.abc import Collection, Generator, Mapping
from contextlib import closing
from typing import Any

import penstock
from penstock import Committed, Event, PenstockError, SnapshotLost, TransientError
from penstock_airflow.arguments.options import overrides
from penstock_airflow.operators.base import AWAIT_SNAPSHOT, airflow_exception
from penstock_airflow.operators.mapped_copy import MappedCopyOperator
from penstock_airflow.runs.nearest_task import holder_of
from penstock_airflow.runs.results import covered_result, result_of, taken_text
from penstock_airflow.runs.run_ids import clearings
from penstock_airflow.runs.task_states import Tasks
from penstock_airflow.sdk import AirflowException

_TAKEN = "penstock_taken"
"""The variable of a task's context that holds what it has copied, once it has ended."""
LOOK_EVERY = 2.0
"""Seconds between two looks for the run's snapshot."""


class CopyWorkerOperator(MappedCopyOperator):
    """Copies partitions of a run that no other task is copying, until the run is done.

    `partial(...)` and `expand(partition=plan.output)` create one mapped task for each entry of the
    list that `PlanCopyOperator` returns with `workers`. One of the tasks compares both sides and
    does the final steps, once every partition is committed; the others wait for it. If a task is
    killed, the others copy what it was copying, and its retry takes part again.

    A cleared task copies what is left of the run, with the run's snapshot if that is still held,
    and otherwise as of now.

    Returns the rows, bytes, seconds, rates and attempts of the partitions that it has copied.

    Args:
        partition: one entry of the list that `PlanCopyOperator` returns with `workers`.
        degree: the number of concurrent streams of each task.
        attempts: attempts per partition within one try of this task.
        await_snapshot: seconds to wait for the holder of the run's snapshot.
        on_snapshot_lost: overrides the run's own option, until this task is cleared.
        kwargs: source, target, and the arguments of every operator.
    """

    _label = f"{{{{ {_TAKEN} | default(task.partition['label']) }}}}"

    def __init__(
        self,
        *,
        partition: Mapping[str, Any],
        degree: int = 1,
        attempts: int = 5,
        await_snapshot: float = AWAIT_SNAPSHOT,
        on_snapshot_lost: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            partition=partition,
            degree=degree,
            attempts=attempts,
            await_snapshot=await_snapshot,
            on_snapshot_lost=on_snapshot_lost,
            **kwargs,
        )
        self._copied: dict[str, int] = {}
        """The bytes of each partition that this try has committed."""

    def _partition_ids(self) -> Collection[str]:
        return self._copied

    def execute(self, context: Any) -> dict[str, Any]:
        """Copy partitions until the run is done, and return the result of this task's."""
        cleared = clearings(context["ti"])
        self._check_wanted(context, cleared=bool(cleared))
        urls = self._urls()
        try:
            self._await_holder(context, urls["target"])
            events = self._events(context, urls, cleared=bool(cleared))
            finished = self._run_unless_covered(events, urls["target"])
        finally:
            self._show(context)
        if isinstance(finished, str):
            return covered_result(self.partition["run_id"], list(self._copied), finished)
        return result_of(finished, list(self._copied), tries=context["ti"].try_number - cleared)

    def _show(self, context: Any) -> None:
        """Show what this try has copied, in its log and in the grid."""
        sizes = self._copied.values()
        context[_TAKEN] = taken_text(self.partition["label"], len(sizes), sum(sizes))
        self.log.info("%s", context[_TAKEN])

    def _events(
        self, context: Any, urls: dict[str, Any], *, cleared: bool
    ) -> Generator[Event, None, None]:
        """Work on the run; if a cleared task finds its snapshot lost, copy the rest as of now."""
        arguments = {
            **urls,
            "control_schema": self.control_schema,
            "attempts": self.attempts,
            "on_error": "continue",
            **overrides(None, self.partition.get("max_rate")),
        }
        run_id = self.partition["run_id"]
        # What a cleared task does about a lost snapshot is decided below.
        of_loss = overrides("fail" if cleared else self.on_snapshot_lost)
        try:
            yield from self._noted(
                penstock.work(run_id, streams=self.degree, **arguments, **of_loss)
            )
        except SnapshotLost as error:
            if self._holder_is_at_work(context, urls["target"]):
                raise TransientError(f"{error.message}; its holder may find another") from None
            if not cleared:
                raise
        else:
            return
        yield from self._noted(
            penstock.resume(run_id, degree=self.degree, as_of_now=True, finish=False, **arguments)
        )

    def _noted(self, events: Generator[Event, None, None]) -> Generator[Event, None, None]:
        """Note what this task commits, and pass all events on."""
        with closing(events):
            for event in events:
                if isinstance(event, Committed) and not event.already:
                    self._copied[event.partition_id] = event.bytes
                yield event

    # The snapshot's holder

    def _await_holder(self, context: Any, target: str) -> None:
        """Wait until the run has its snapshot, if another task is to take it.

        Workers hold it as well, but only that task outlives all of them, as between their tries.

        Raises:
            AirflowException: the holder did not take it in time.
        """
        until = time.monotonic() + self.await_snapshot
        while self._holder_is_at_work(context, target, first=True):
            if time.monotonic() >= until:
                raise AirflowException(
                    f"no snapshot is held for run {self.partition['run_id']}: waited "
                    f"{self.await_snapshot:g} s for {holder_of(self).task_id}"
                )
            time.sleep(LOOK_EVERY)

    def _holder_is_at_work(self, context: Any, target: str, *, first: bool = False) -> bool:
        """Whether a task is still to take a snapshot for the run, or another one after a loss.

        Args:
            context: the context of this task.
            target: the target's URL.
            first: whether only the run's first snapshot counts.
        """
        holder = holder_of(self)
        if holder is None:
            return False
        try:
            run = penstock.status(
                self.partition["run_id"], target=target, control_schema=self.control_schema
            ).run
        except PenstockError as error:
            raise airflow_exception(error) from None
        if run.released_at is not None or (first and run.snapshots):
            return False
        return not Tasks.of(context, [holder.task_id]).are_finished()
