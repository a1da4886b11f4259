"""The operator of mapped tasks, each of which copies some partitions of a run."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

import penstock
from penstock import Event
from penstock_airflow.arguments.options import overrides
from penstock_airflow.operators.base import AWAIT_SNAPSHOT
from penstock_airflow.operators.mapped_copy import MappedCopyOperator
from penstock_airflow.runs.final_task import check_final_task_cleared
from penstock_airflow.runs.results import covered_result, result_of
from penstock_airflow.runs.run_ids import clearings, recopies_partition


class CopyPartitionOperator(MappedCopyOperator):
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
        super().__init__(
            partition=partition,
            degree=degree,
            attempts=attempts,
            await_snapshot=await_snapshot,
            on_snapshot_lost=on_snapshot_lost,
            **kwargs,
        )
        self.recopy = recopy

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
        finished = self._run_unless_covered(
            self._events(urls, ids, cleared=cleared, recopy=bool(recopy)), urls["target"], len(ids)
        )
        if isinstance(finished, str):
            return covered_result(partition["run_id"], ids, finished)
        if finished.attempts == 0:
            self.log.info("%s: already committed; nothing was copied", partition["label"])
        return result_of(finished, ids, tries=context["ti"].try_number - cleared)

    def _events(
        self, urls: dict[str, Any], ids: list[str], *, cleared: int, recopy: bool
    ) -> Generator[Event, None, None]:
        partition = self.partition
        return penstock.resume(
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
        )
