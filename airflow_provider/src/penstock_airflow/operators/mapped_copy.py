"""The base of mapped tasks that copy partitions of a run."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from typing import Any

from penstock import Event, Finished
from penstock_airflow.arguments.endpoint import ARGUMENTS
from penstock_airflow.lineage.openlineage import CopyFacts, LineageMixin
from penstock_airflow.links.run import ReportLink
from penstock_airflow.operators.base import PenstockOperator
from penstock_airflow.runs.nearest_task import holder_of
from penstock_airflow.runs.nights import (
    COVERED,
    STALE_GROUP,
    covered_by,
    may_be_overtaken,
    overtaken_message,
)
from penstock_airflow.runs.task_states import Tasks, dag_run_has_ended
from penstock_airflow.sdk import AirflowException, AirflowFailException

LABEL = "{{ task.partition['label'] }}"


class MappedCopyOperator(LineageMixin, PenstockOperator):
    """The base of operators of which Airflow creates one task for each entry of a list.

    Args:
        partition: one entry of the list that `PlanCopyOperator` returns.
        degree: the number of concurrent streams.
        attempts: attempts per partition within one try of this task.
        await_snapshot: seconds to wait for the holder of the run's snapshot.
        on_snapshot_lost: overrides the run's own option, until this task is cleared.
        kwargs: source, target, and the arguments of every operator.
    """

    # Not `partition`: Airflow would render templates found in the source's data.
    template_fields: Sequence[str] = ARGUMENTS
    operator_extra_links = (ReportLink(),)
    _label = LABEL

    def __init__(
        self,
        *,
        partition: Mapping[str, Any],
        degree: int,
        attempts: int,
        await_snapshot: float,
        on_snapshot_lost: str | None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.on_snapshot_lost = on_snapshot_lost
        self.partition = partition
        self.degree = degree
        self.attempts = attempts
        self.await_snapshot = await_snapshot

    @classmethod
    def partial(cls, **kwargs: Any) -> Any:
        """Set the operator's arguments, and label mapped tasks in the grid with what they copy.

        Airflow reads the grid's template from these arguments, never from the operator.
        """
        kwargs.setdefault("map_index_template", cls._label)
        return super().partial(**kwargs)

    def _partition_ids(self) -> Collection[str]:
        """Return the ids of the partitions that this task copies, as far as known."""
        return list(self.partition["partitions"])

    def _copy_facts(self) -> CopyFacts:
        return CopyFacts(self.partition["run_id"], self._partition_ids())

    def _check_wanted(self, context: Any, *, cleared: bool) -> None:
        """Check that the copy is still wanted, and need not wait for a snapshot in vain.

        Airflow starts tasks that were about to run when a user marked the DAG run, for example the
        ones that a mapped task expands into at that moment.

        Raises:
            AirflowFailException: the DAG run was marked, or the task that holds the snapshot has
                failed.
        """
        if dag_run_has_ended(context):
            raise AirflowFailException(
                "the DAG run has ended, because it was marked as failed or as a success, so "
                "nothing was copied. To copy after all, clear the DAG run, or this task with its "
                "downstream tasks"
            )
        holder = None if cleared else holder_of(self)
        if holder is not None and Tasks.of(context, [holder.task_id]).have_failed():
            raise AirflowFailException(
                f"{holder.task_id} has failed or was marked as failed, so no snapshot is held, and "
                "nothing was copied. Clear this task with its downstream tasks: it reads the rows "
                "as they are now"
            )

    def _run_unless_covered(
        self, events: Generator[Event, None, None], target: str, only: int = 0
    ) -> Finished | str:
        """Run a copy to its end, and return its last event, or the run that covers this one.

        Args:
            events: the events of the copy.
            target: the target's URL.
            only: how many partitions were requested; 0 for the whole plan.

        Raises:
            AirflowFailException: a retry cannot help.
            AirflowException: a retry may help.
        """
        partition = self.partition
        try:
            return self._run_copy(events, only)
        except AirflowException:
            # Rows gathered in a stage are merged once.
            moves = may_be_overtaken({**partition, "incremental": partition.get("gathers", False)})
            status = self._overtaken_status(partition["run_id"], target) if moves else None
            if status is None:
                raise
            if not covered_by(status):
                raise AirflowFailException(overtaken_message(STALE_GROUP, status)) from None
            self.log.info("%s", overtaken_message(COVERED, status))
            return covered_by(status)
