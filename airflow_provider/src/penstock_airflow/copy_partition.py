"""The mapped task: some partitions of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import penstock
from penstock_airflow.base import PenstockOperator
from penstock_airflow.ends import ARGUMENTS
from penstock_airflow.identity import clearings, recopies_partition
from penstock_airflow.lineage import TellsLineage, Told
from penstock_airflow.links import ReportLink
from penstock_airflow.options import overrides
from penstock_airflow.results import result_of

AWAIT_SNAPSHOT = 180.0
"""Seconds. A triggerer that is started anew takes a minute until its triggers run again."""
LABEL = "{{ task.partition['label'] }}"


class CopyPartitionOperator(TellsLineage, PenstockOperator):
    """Copies some partitions of a run, each in a transaction of its own. Returns what it did.

    What is committed is left alone: a retry after that ends at once. Who clears this task wants the
    rows as they are now: what it copies then is read so, whatever became of the run's snapshot.

    `partial(...)` and `expand(partition=plan.output)` make one mapped task for each entry of
    `PlanCopyOperator`.

    Parameters:
        partition: an entry of what `PlanCopyOperator` returned.
        recopy: whether partitions that are committed are copied again when this task is cleared;
            by default in modes replace and upsert, where that is safe.
        degree: streams of this task, where it has several partitions.
        attempts: of each partition within a try of this task. One by default: Airflow retries.
        await_snapshot: seconds to wait for whoever holds the run's snapshot.
        on_snapshot_lost: what a lost snapshot means to a task that nobody has cleared, in place of
            what the run was begun with.
    """

    # Not `partition`: Airflow would render templates in data of the source.
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
        """As every operator's; the grid shows partitions by their names.

        Airflow reads that template from what is given here, never from the operator.
        """
        kwargs.setdefault("map_index_template", LABEL)
        return super().partial(**kwargs)

    def _told(self) -> Told:
        return Told(self.partition["run_id"], self.partition["partitions"])

    def execute(self, context: Any) -> dict[str, Any]:
        partition = self.partition
        ids = list(partition["partitions"])
        cleared = clearings(context["ti"])
        recopy = cleared and recopies_partition(self.recopy, partition["mode"])
        finished = self._follow(
            penstock.resume(
                partition["run_id"],
                **self._ends(),
                only=ids,
                control_schema=self.control_schema,
                await_snapshot=self.await_snapshot,
                as_of_now=bool(cleared),
                # Each clearing asks once, however often the task is retried after it.
                recopy=f"cleared-{cleared}" if recopy else None,
                finish=False,
                degree=self.degree,
                attempts=self.attempts,
                on_error="continue",
                **overrides(self.on_snapshot_lost),
            ),
            only=len(ids),
        )
        if finished.attempts == 0:
            self.log.info("%s: committed before; nothing was copied", partition["label"])
        return result_of(finished, ids, tries=context["ti"].try_number - cleared)
