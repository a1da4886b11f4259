"""The operator that checks and ends a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import penstock
from penstock import Finished, PenstockError, combined_report
from penstock_airflow.arguments.endpoint import ARGUMENTS
from penstock_airflow.arguments.options import overrides
from penstock_airflow.lineage.assets import emit
from penstock_airflow.lineage.openlineage import CopyFacts, LineageMixin
from penstock_airflow.links.run import PartitionsLink, ReportLink
from penstock_airflow.operators.approval import AskingOperator
from penstock_airflow.operators.base import AWAIT_SNAPSHOT, airflow_exception
from penstock_airflow.runs.final_task import check_final_task_cleared
from penstock_airflow.runs.missing_run import raise_missing_run
from penstock_airflow.runs.nearest_task import nearest
from penstock_airflow.runs.nights import (
    COVERED,
    STALE_GROUP,
    covered_by,
    overtaken_message,
    store_watermark,
)
from penstock_airflow.runs.results import executions, summary_of
from penstock_airflow.runs.run_ids import clearings
from penstock_airflow.sdk import AirflowException, AirflowFailException


class VerifyCopyOperator(LineageMixin, AskingOperator):
    """Checks that every partition is committed, ends the run, and writes its report to the log.

    It compares source and target if the run asks for it (`verify="counts"` or `"checksums"`), then
    runs the final steps, such as building indexes or renaming a table. It also copies missing
    partitions, for example those of a task that a user marked as a success.

    Returns the run's rows, bytes, seconds and rates.

    Args:
        run_id: the output of `PrepareCopyOperator`.
        copied: the output of the mapped tasks, for the report.
        degree: the number of concurrent streams, and of indexes built at the same time.
        await_snapshot: seconds to wait for the holder of the run's snapshot.
        on_snapshot_lost: overrides the run's own option. Once this task has been cleared, the rest
            is read as it is now.
        outlet: an `Asset` or `AssetAlias` for the target's table; it gets an event.
        kwargs: source, target, and the arguments of `AskingOperator` and every operator.
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
        # A skipped copy is no reason to skip the check.
        kwargs.setdefault("trigger_rule", "none_failed")
        super().__init__(**kwargs)
        self.run_id = run_id
        self.copied = copied
        self.degree = degree
        self.await_snapshot = await_snapshot
        self.on_snapshot_lost = on_snapshot_lost
        self.outlet = outlet
        self._own_partitions: list[str] = []
        """The partitions that no mapped task has copied, and this one has."""

    def _copy_facts(self) -> CopyFacts:
        # Mapped tasks have reported the rows of theirs.
        return CopyFacts(self.run_id, self._own_partitions)

    def execute(self, context: Any) -> dict[str, Any]:
        """Check and end the run, and return its result."""
        if not self.run_id:
            raise_missing_run(context, nearest(self, "PrepareCopyOperator", "upstream_task_ids"))
        cleared = clearings(context["ti"])
        if cleared:
            check_final_task_cleared(self, context)
        urls = self._urls()
        try:
            finished = self._resumed(urls, cleared=bool(cleared))
        except AirflowException:
            status = self._overtaken_status(self.run_id, urls["target"])
            if status is None:
                raise
            if not covered_by(status):
                raise AirflowFailException(overtaken_message(STALE_GROUP, status)) from None
            self.log.info("%s", overtaken_message(COVERED, status))
            return summary_of(status)
        if cleared:
            self._check_rows_left(urls["target"])
        return self._conclude(context, finished, self._results())

    def _check_rows_left(self, target: str) -> None:
        """Check that the target has as many rows as were committed, before they count as copied.

        Raises:
            AirflowFailException: rows are missing.
        """
        try:
            loss = penstock.find_loss(
                self.run_id, target=target, control_schema=self.control_schema
            )
        except PenstockError as error:
            raise airflow_exception(error) from None
        if loss is not None:
            raise AirflowFailException(
                f"{loss.what}: expected the {loss.expected:,} rows that run {self.run_id} has "
                f"committed, found {loss.found:,}. Nothing was copied again. To load everything "
                "again, empty the table (of this run's rows, if it has others) and "
                f"{self._how_to_start_again()}; to accept it as it is, mark this task as a success"
            )

    def _resumed(self, urls: dict[str, Any], *, cleared: bool) -> Finished:
        return self._run_copy(
            penstock.resume(
                self.run_id,
                **urls,
                control_schema=self.control_schema,
                await_snapshot=self.await_snapshot,
                as_of_now=cleared,
                finish=True,
                degree=self.degree,
                **overrides(self.on_snapshot_lost),
                **self.approved_options,
            )
        )

    def _results(self) -> Sequence[Mapping[str, Any]]:
        # Fetch all with one request; iterating would send one for each mapped task.
        return () if not self.copied else self.copied[:]

    def _conclude(
        self, context: Any, finished: Finished, results: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        target = self._target_url()
        status = penstock.status(finished.run_id, target=target, control_schema=self.control_schema)
        copied = {id_ for result in results for id_ in result.get("partitions", ())}
        records = status.committed
        self._own_partitions = [
            each.partition_id for each in records if each.partition_id not in copied
        ]
        summary = summary_of(status)
        report = combined_report([*executions(results), finished], summary["seconds"], self.degree)
        self._log_report(report, target)
        if self.outlet is not None:
            emit(context, self.outlet, target, status)
        store_watermark(context, self.outlet, summary["night"], self.log)
        return summary
