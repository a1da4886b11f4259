"""The task that ends a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

import penstock
from penstock import Finished, as_arguments, combined_report, report_text
from penstock_airflow.arguments.endpoint import ARGUMENTS
from penstock_airflow.arguments.options import overrides
from penstock_airflow.lineage.assets import emit
from penstock_airflow.lineage.openlineage import CopyFacts, LineageMixin
from penstock_airflow.links.run import PartitionsLink, ReportLink
from penstock_airflow.operators.base import AWAIT_SNAPSHOT, PenstockOperator
from penstock_airflow.runs.final_task import check_followed
from penstock_airflow.runs.missing_run import end_without_run
from penstock_airflow.runs.nearest_task import nearest
from penstock_airflow.runs.nights import COVERED, STALE_GROUP, covered_by, mirror, said
from penstock_airflow.runs.results import executions, summary_of
from penstock_airflow.runs.run_ids import clearings

GO_ON = "clear the failed partitions; committed ones are left alone"


class VerifyCopyOperator(LineageMixin, PenstockOperator):
    """Checks that every partition is committed, ends the run, and writes its report to the log.

    It compares both sides if the run asks for it (`verify="counts"` or `"checksums"`), then runs
    the steps after the last partition, such as building indexes or renaming a table. It also copies
    partitions that are missing, for instance because their task was marked as a success.

    Returns the run's rows, bytes, seconds and rates.

    Parameters:
        run_id: the output of `PrepareCopyOperator`.
        copied: the output of the mapped tasks, for the report.
        degree: the number of concurrent streams, and of indexes built at once.
        on_snapshot_lost: replaces the run's own option; once this task has been cleared, the rest
            is read as it is now.
        outlet: an `Asset` or `AssetAlias` for the target's table; it gets an event.
    """

    template_fields: Sequence[str] = ("run_id", "copied", *ARGUMENTS)
    operator_extra_links = (ReportLink(), PartitionsLink())

    def __init__(
        self,
        *,
        run_id: Any,
        copied: Any = (),
        degree: int = 1,
        await_snapshot: float = AWAIT_SNAPSHOT,
        on_snapshot_lost: str | None = None,
        outlet: Any = None,
        **kwargs: Any,
    ) -> None:
        if outlet is not None:
            kwargs["outlets"] = [*kwargs.get("outlets", ()), outlet]
        # Skipping a copy that was not needed is no reason to skip the check.
        kwargs.setdefault("trigger_rule", "none_failed")
        super().__init__(**kwargs)
        self.run_id = run_id
        self.copied = copied
        self.degree = degree
        self.await_snapshot = await_snapshot
        self.on_snapshot_lost = on_snapshot_lost
        self.outlet = outlet

    def _copy_facts(self) -> CopyFacts:
        return CopyFacts(self.run_id)

    def execute(self, context: Any) -> dict[str, Any]:
        if not self.run_id:
            end_without_run(context, nearest(self, "PrepareCopyOperator", "upstream_task_ids"))
        cleared = clearings(context["ti"])
        if cleared:
            check_followed(self, context)
        ends = self._ends()
        try:
            finished = self._resumed(ends, cleared=bool(cleared))
        except AirflowException:
            status = self._overtaken(self.run_id, ends["target"])
            if status is None:
                raise
            if not covered_by(status):
                raise AirflowFailException(said(STALE_GROUP, status)) from None
            self.log.info("%s", said(COVERED, status))
            return summary_of(status)
        return self._conclude(context, finished, self._results())

    def _resumed(self, ends: dict[str, Any], *, cleared: bool) -> Finished:
        return self._follow(
            penstock.resume(
                self.run_id,
                **ends,
                control_schema=self.control_schema,
                await_snapshot=self.await_snapshot,
                as_of_now=cleared,
                finish=True,
                degree=self.degree,
                **overrides(self.on_snapshot_lost),
            )
        )

    def _results(self) -> Sequence[Mapping[str, Any]]:
        # Fetch all at once: iterating would request each mapped task's result on its own.
        return () if not self.copied else self.copied[:]

    def _conclude(
        self, context: Any, finished: Finished, results: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        target = self._target.connect()
        status = penstock.status(finished.run_id, target=target, control_schema=self.control_schema)
        summary = summary_of(status)
        report = combined_report([*executions(results), finished], summary["seconds"], self.degree)
        self.log.info("the run's report\n%s", as_arguments(report_text(report, GO_ON)))
        self._say_where_time_went(finished.run_id, target)
        if self.outlet is not None:
            emit(context, self.outlet, target, status)
        mirror(context, self.outlet, summary["night"], self.log)
        return summary
