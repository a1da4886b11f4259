"""The task that ends a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import penstock
from penstock import Finished, combined_report, report_text
from penstock_airflow.assets import emit
from penstock_airflow.base import PenstockOperator
from penstock_airflow.copy_partition import AWAIT_SNAPSHOT
from penstock_airflow.ends import ARGUMENTS
from penstock_airflow.identity import clearings
from penstock_airflow.lineage import TellsLineage, Told
from penstock_airflow.links import PartitionsLink
from penstock_airflow.options import overrides
from penstock_airflow.results import ending_of, executions

GO_ON = "clear the partitions that failed; what is committed is left alone"


class VerifyCopyOperator(TellsLineage, PenstockOperator):
    """Proves that every partition is committed, ends the run, and writes its report to the log.

    What the run was told to compare (`verify="counts"` or `"checksums"`) is compared here; then
    come the steps after the last partition: indexes are built, a table is renamed. A partition that
    is left, because somebody marked its task a success for instance, is copied here.

    Returns the run's rows, bytes, seconds and rates.

    Parameters:
        run_id: of `PrepareCopyOperator`.
        copied: what the mapped tasks returned, for the report.
        degree: streams, and indexes built side by side.
        on_snapshot_lost: what a lost snapshot means, in place of what the run was begun with;
            where somebody has cleared this task, what is left is read as it is now.
        outlet: an `Asset` or `AssetAlias` for the target's table; it gets an event.
    """

    template_fields: Sequence[str] = ("run_id", "copied", *ARGUMENTS)
    operator_extra_links = (PartitionsLink(),)

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
        # A copy that was not needed is skipped; that is no reason to skip the proof.
        kwargs.setdefault("trigger_rule", "none_failed")
        super().__init__(**kwargs)
        self.run_id = run_id
        self.copied = copied
        self.degree = degree
        self.await_snapshot = await_snapshot
        self.on_snapshot_lost = on_snapshot_lost
        self.outlet = outlet

    def _told(self) -> Told:
        return Told(self.run_id)

    def execute(self, context: Any) -> dict[str, Any]:
        finished = self._follow(
            penstock.resume(
                self.run_id,
                **self._ends(),
                control_schema=self.control_schema,
                await_snapshot=self.await_snapshot,
                as_of_now=bool(clearings(context["ti"])),
                finish=True,
                degree=self.degree,
                **overrides(self.on_snapshot_lost),
            )
        )
        return self._conclude(context, finished, self._results())

    def _results(self) -> Sequence[Mapping[str, Any]]:
        # One by one, a mapped task's results are fetched in a request each.
        return () if not self.copied else self.copied[:]

    def _conclude(
        self, context: Any, finished: Finished, results: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        target = self._target.connect()
        status = penstock.status(finished.run_id, target=target, control_schema=self.control_schema)
        ending = ending_of(status)
        report = combined_report([*executions(results), finished], ending["seconds"], self.degree)
        self.log.info("the run's report\n%s", report_text(report, GO_ON))
        if self.outlet is not None:
            emit(context, self.outlet, target, status, ending)
        return ending
