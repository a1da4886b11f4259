"""The operator of mapped tasks, each of which copies some partitions of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import penstock
from penstock import Finished
from penstock_airflow.arguments.endpoint import ARGUMENTS
from penstock_airflow.arguments.options import overrides
from penstock_airflow.lineage.openlineage import CopyFacts, LineageMixin
from penstock_airflow.links.run import ReportLink
from penstock_airflow.operators.base import AWAIT_SNAPSHOT, PenstockOperator
from penstock_airflow.runs.final_task import check_final_task_cleared
from penstock_airflow.runs.nearest_task import holder_of
from penstock_airflow.runs.nights import (
    COVERED,
    STALE_GROUP,
    covered_by,
    may_be_overtaken,
    overtaken_message,
)
from penstock_airflow.runs.results import covered_result, result_of
from penstock_airflow.runs.run_ids import clearings, recopies_partition
from penstock_airflow.runs.task_states import Tasks, dag_run_has_ended
from penstock_airflow.sdk import AirflowException, AirflowFailException

LABEL = "{{ task.partition['label'] }}"


class CopyPartitionOperator(LineageMixin, PenstockOperator):
    """Copies some partitions of a run, each in a transaction of its own.

    Committed partitions stay as they are, so a retry after the commit ends at once. A cleared task
    reads the source as it is now, regardless of the run's snapshot.

    `partial(...)` and `expand(partition=plan.output)` create one mapped task for each entry of the
    list that `PlanCopyOperator` returns.

    Returns the rows, bytes, seconds, rates and attempts of its partitions.

    Args:
        partition: one entry of the list that `PlanCopyOperator` returns.
        recopy: whether clearing this task copies committed partitions again. By default it does in
            modes replace and upsert, in which that is safe.
        degree: the number of concurrent streams, if the task has several partitions.
        attempts: attempts per partition within one try of this task. One by default, because
            Airflow retries the task.
        await_snapshot: seconds to wait for the holder of the run's snapshot.
        on_snapshot_lost: overrides the run's own option, until this task is cleared.
        kwargs: source, target, and the arguments of every operator.
    """

    # Not `partition`: Airflow would render templates found in the source's data.
    template_fields: Sequence[str] = ARGUMENTS
    operator_extra_links = (ReportLink(),)

    def __init__(
        self,
        *,
        partition: Mapping[str, Any],
        recopy: bool | None = None,
        degree: int = 1,
        attempts: int = 1,
        await_snapshot: float = AWAIT_SNAPSHOT,
        on_snapshot_lost: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.on_snapshot_lost = on_snapshot_lost
        self.partition = partition
        self.recopy = recopy
        self.degree = degree
        self.attempts = attempts
        self.await_snapshot = await_snapshot

    @classmethod
    def partial(cls, **kwargs: Any) -> Any:
        """Set the operator's arguments, and label mapped tasks in the grid with their partitions.

        Airflow reads the grid's template from these arguments, never from the operator.
        """
        kwargs.setdefault("map_index_template", LABEL)
        return super().partial(**kwargs)

    def _copy_facts(self) -> CopyFacts:
        return CopyFacts(self.partition["run_id"], self.partition["partitions"])

    def execute(self, context: Any) -> dict[str, Any]:
        """Copy the partitions, and return their result."""
        partition = self.partition
        ids = list(partition["partitions"])
        cleared = clearings(context["ti"])
        # Rows gathered in a stage are merged once, and a merged stage no longer exists.
        gathers = partition.get("gathers", False)
        self._check_wanted(context, cleared=bool(cleared))
        recopy = cleared and not gathers and recopies_partition(self.recopy, partition["mode"])
        if recopy:
            check_final_task_cleared(self, context)
        urls = self._urls()
        try:
            finished = self._resumed(urls, ids, cleared=cleared, recopy=bool(recopy))
        except AirflowException:
            moves = may_be_overtaken({**partition, "incremental": gathers})
            status = self._overtaken_status(partition["run_id"], urls["target"]) if moves else None
            if status is None:
                raise
            if not covered_by(status):
                raise AirflowFailException(overtaken_message(STALE_GROUP, status)) from None
            self.log.info("%s", overtaken_message(COVERED, status))
            return covered_result(partition["run_id"], ids, covered_by(status))
        if finished.attempts == 0:
            self.log.info("%s: already committed; nothing was copied", partition["label"])
        return result_of(finished, ids, tries=context["ti"].try_number - cleared)

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

    def _resumed(
        self, urls: dict[str, Any], ids: list[str], *, cleared: int, recopy: bool
    ) -> Finished:
        partition = self.partition
        return self._run_copy(
            penstock.resume(
                partition["run_id"],
                **urls,
                only=ids,
                control_schema=self.control_schema,
                await_snapshot=self.await_snapshot,
                as_of_now=bool(cleared),
                # The same for each retry after a clearing, so that they copy again only once.
                recopy=f"cleared-{cleared}" if recopy else None,
                finish=False,
                degree=self.degree,
                attempts=self.attempts,
                on_error="continue",
                **overrides(self.on_snapshot_lost, partition.get("max_rate")),
            ),
            only=len(ids),
        )
