"""The operator that defines the mapped tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import penstock
from penstock import Ending, PenstockError, UsageError, mode_of
from penstock_airflow.arguments.endpoint import TARGET_ARGUMENTS
from penstock_airflow.operators.base import TargetOperator, airflow_exception
from penstock_airflow.runs.missing_run import require_run_id
from penstock_airflow.runs.packing import hire, pack
from penstock_airflow.sdk import conf


def worker_mistakes(workers: Any, partitions_per_task: Any = 1) -> Iterator[str]:
    """Yield what is wrong with a number of workers."""
    if workers is None:
        return
    most = conf.getint("core", "max_map_length")
    if type(workers) is not int or not 1 <= workers <= most:
        yield (
            "workers: expected the number of mapped tasks that share the partitions, from 1 to "
            f"{most:,} ([core] max_map_length); found {workers!r}"
        )
    if partitions_per_task != 1:
        yield (
            "workers, partitions_per_task: found both; with workers, each mapped task takes one "
            "partition after the other, so remove partitions_per_task"
        )


class PlanCopyOperator(TargetOperator):
    """Distributes the partitions of a run over mapped tasks.

    Returns the list over which to expand `CopyPartitionOperator`, or with `workers` a list for
    `CopyWorkerOperator`. It is empty if the source is empty; `VerifyCopyOperator` then does all the
    work.

    Args:
        run_id: the output of `PrepareCopyOperator`.
        partitions_per_task: partitions that a mapped task copies, one after the other; more if
            there would be too many mapped tasks for Airflow (`[core] max_map_length`).
        workers: the number of mapped tasks that share the partitions among themselves, instead of
            getting theirs here; fewer if there are fewer partitions. None to deal them out.
        kwargs: the target, and the arguments of every operator.
    """

    template_fields: Sequence[str] = ("run_id", *TARGET_ARGUMENTS)

    def __init__(
        self,
        *,
        run_id: Any,
        partitions_per_task: int = 1,
        workers: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        for mistake in worker_mistakes(workers, partitions_per_task):
            raise UsageError(mistake)
        # Callers are rarely type-checked.
        if not isinstance(partitions_per_task, int) or partitions_per_task < 1:  # type: ignore[redundant-expr]
            raise UsageError(
                "partitions_per_task: expected a whole number, at least 1; found "
                f"{partitions_per_task!r}"
            )
        self.run_id = run_id
        self.partitions_per_task = partitions_per_task
        self.workers = workers

    def execute(self, context: Any) -> list[dict[str, Any]]:
        """Read the plan from the target, and return the input of each mapped task."""
        require_run_id(self.run_id)
        try:
            run = penstock.status(
                self.run_id,
                target=self._target.connect(),
                control_schema=self.control_schema,
            ).run
        except PenstockError as error:
            raise airflow_exception(error) from None
        plan = run.plan
        if len(plan.partitions) == 1 and plan.rows == 0:
            self.log.info("run %s: the source is empty", run.run_id)
            return []
        if self.workers is not None:
            tasks = hire(
                run.run_id,
                run.spec["mode"],
                len(plan.partitions),
                workers=self.workers,
                max_rate=run.spec.get("max_rate"),
                gathers=_gathers(run.spec),
            )
            self.log.info("%d partitions for %d workers", len(plan.partitions), len(tasks))
            return tasks
        packs = pack(
            run.run_id,
            run.spec["mode"],
            plan.partitions,
            per_task=self.partitions_per_task,
            max_tasks=conf.getint("core", "max_map_length"),
            concurrency=_concurrency(run.spec.get("degree")),
            max_rate=run.spec.get("max_rate"),
            gathers=_gathers(run.spec),
        )
        self.log.info("%d partitions in %d mapped tasks", len(plan.partitions), len(packs))
        return packs


def _gathers(spec: Mapping[str, Any]) -> bool:
    """Whether the run of a stored spec gathers its rows in a stage."""
    return mode_of(spec).ending is Ending.MERGE


def _concurrency(degree: Any) -> int:
    """Return how many mapped tasks run at once, from a group's `degree`; 0 if unknown."""
    return degree if isinstance(degree, int) and degree > 0 else 0
