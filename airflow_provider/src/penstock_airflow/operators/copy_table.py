"""The task that copies a whole table."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException

import penstock
from penstock import CopySpec, Event, PenstockError, as_arguments, report_text
from penstock_airflow.arguments import option_types as kinds
from penstock_airflow.arguments.default_args import with_own_defaults
from penstock_airflow.arguments.endpoint import ARGUMENTS, ends_of
from penstock_airflow.arguments.options import (
    asked_for,
    asks_for_interval,
    check,
    check_interval,
    execution_of,
    make_spec,
    naming_table,
    options_of,
)
from penstock_airflow.lineage.assets import emit
from penstock_airflow.lineage.openlineage import CopyFacts, LineageMixin
from penstock_airflow.links.run import ReportLink
from penstock_airflow.operators.base import PenstockOperator, as_airflow
from penstock_airflow.runs.nights import (
    COVERED,
    MOST_NIGHTS,
    STALE,
    covered_by,
    may_be_overtaken,
    mirror,
    next_id,
    said,
)
from penstock_airflow.runs.packing import MAX_LABEL
from penstock_airflow.runs.results import summary_of
from penstock_airflow.runs.run_ids import begins_again, clearings, run_id_of

LABEL = "{{ task.copied }}"


class CopyTableOperator(LineageMixin, PenstockOperator):
    """Plans, copies and ends a run in one task, with several streams: suited to many small tables.

    A retry continues the run: it copies what is not committed. So does clearing the task in mode
    append, in which a new run would add the rows again; the rest is then read as it is now.

    Parameters:
        recopy: whether clearing this task begins a new run; by default it does, except in mode
            append, which would double the rows.
        outlet: an `Asset` or `AssetAlias` for the target's table; it gets an event.
        table, mode, degree ...: the options of a copy, as in `penstock.CopySpec`.
        kwargs: the arguments of every operator.

    Raises:
        UsageError: wrong options; raised when the DAG is parsed, as far as templates allow.
    """

    template_fields: Sequence[str] = ("options", *ARGUMENTS)
    operator_extra_links = (ReportLink(),)

    def __init__(
        self,
        *,
        recopy: bool | None = None,
        outlet: Any = None,
        # ends and options: scripts/option_arguments.py
        source_conn_id: kinds.Text | None = None,
        source: kinds.Text | None = None,
        source_aws_conn_id: kinds.Text | None = None,
        target_conn_id: kinds.Text | None = None,
        target: kinds.Text | None = None,
        target_aws_conn_id: kinds.Text | None = None,
        table: kinds.Text | None = None,
        query: kinds.Text | None = None,
        target_table: kinds.Text | None = None,
        descendants: kinds.Descendants | kinds.Text | None = None,
        where: kinds.Text | None = None,
        columns: kinds.Names | None = None,
        exclude_columns: kinds.Names | None = None,
        set: kinds.Names | None = None,
        mask: kinds.Names | None = None,
        map: kinds.Map | kinds.Text = "name",
        strategy: kinds.Strategy | kinds.Text = "auto",
        key: kinds.Text | None = None,
        values_query: kinds.Text | None = None,
        interval: kinds.Text | None = None,
        partitions: int | kinds.Text | None = None,
        rows_per_partition: int | kinds.Text | None = None,
        bytes_per_partition: int | kinds.Text | None = None,
        degree: int | kinds.Text = "auto",
        max_rate: int | kinds.Text | None = None,
        max_lag: float | kinds.Text | None = None,
        mode: kinds.Mode | kinds.Text = "append",
        conflict_columns: kinds.Names | None = None,
        incremental: kinds.Text | None = None,
        lookback: kinds.Text | None = None,
        null_cursor: kinds.NullCursor | kinds.Text = "refuse",
        max_ahead: float | kinds.Text = 86400.0,
        atomic: kinds.Atomic | kinds.Text | None = None,
        atomic_limit: kinds.Text | None = None,
        above_atomic_limit: kinds.AboveAtomicLimit | kinds.Text = "swap",
        deletes: kinds.Text = "ignore",
        max_deletes: kinds.Text = "30%,1000",
        full_every: float | kinds.Text | None = None,
        on_target_changed: kinds.OnTargetChanged | kinds.Text = "full",
        on_drift: kinds.Text = "fail",
        watermark: kinds.Text | None = None,
        schema_only: bool | kinds.Returned = False,
        data_only: bool | kinds.Returned = False,
        indexes: kinds.Indexes | kinds.Text = "keep",
        unlogged: bool | kinds.Returned = False,
        partitioning: bool | kinds.Returned = False,
        allow_ddl: bool | kinds.Returned = False,
        sequences: kinds.Sequences | kinds.Text = "set",
        types: kinds.ColumnTypes | None = None,
        arrays: kinds.Arrays | kinds.Text = "refuse",
        enums: kinds.Enums | kinds.Text = "check",
        order_by: kinds.Names | None = None,
        partition_by: kinds.Names | None = None,
        file_size: int | kinds.Text | None = None,
        row_group_size: int | kinds.Text | None = None,
        compression: kinds.Compression | kinds.Text | None = None,
        snapshot: kinds.Snapshot | kinds.Text = "shared",
        on_snapshot_lost: kinds.OnSnapshotLost | kinds.Text | None = None,
        accept_moving_rows: bool | kinds.Returned = False,
        attempts: int | kinds.Text = 5,
        on_error: kinds.OnError | kinds.Text = "stop",
        verify: kinds.Verify | kinds.Text = "none",
        check_partitions: kinds.CheckPartitions | kinds.Text = "auto",
        stall_timeout: float | kinds.Text = 600.0,
        grace: float | kinds.Text = 10.0,
        snapshot_warn_after: float | kinds.Text = 3600.0,
        give_way_after: float | kinds.Text | None = None,
        show_values: kinds.ShowValues | kinds.Text | None = None,
        control_schema: str = "penstock",
        # end of options
        **kwargs: Any,
    ) -> None:
        options, ends = asked_for(options_of(locals())), ends_of(locals())
        # A mapped task gets it from `partial`.
        if outlet is not None and outlet not in kwargs.get("outlets", ()):
            kwargs["outlets"] = [*kwargs.get("outlets", ()), outlet]
        with naming_table(options):
            super().__init__(**ends, control_schema=control_schema, **kwargs)
            check(options, self._source, self._target)
        self.options = options
        self._of_interval = asks_for_interval(options)
        self.recopy = recopy
        self.outlet = outlet
        self._run_id: str | None = None

    @classmethod
    def partial(cls, **kwargs: Any) -> Any:
        """Set the operator's arguments, and show mapped tasks by what they copy in the grid."""
        kwargs.setdefault("map_index_template", LABEL)
        if kwargs.get("outlet") is not None:
            kwargs["outlets"] = [*kwargs.get("outlets", ()), kwargs["outlet"]]
        return super().partial(**with_own_defaults(kwargs))

    @property
    def copied(self) -> str:
        """Return what the task copies, for people: its table, and the condition if it has one."""
        named = self.options.get("target_table") or self.options.get("table") or self.task_id
        where = self.options.get("where")
        text = f"{named} where {where}" if where else str(named)
        return text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"

    def _copy(
        self, spec: CopySpec, run_id: str, ends: dict[str, Any], *, cleared: bool
    ) -> Generator[Event, None, None]:
        if not cleared:
            yield from penstock.copy(spec)
            return
        # Use the stored run if it has the same options, otherwise a new one.
        penstock.create(spec)
        yield from penstock.resume(
            run_id,
            **ends,
            control_schema=self.control_schema,
            as_of_now=True,
            **execution_of(spec),
        )

    def _copy_facts(self) -> CopyFacts:
        return CopyFacts(self._run_id, options=self.options)

    def execute(self, context: Any) -> dict[str, Any]:
        ends = self._ends()
        again = begins_again(self.recopy, self.options.get("mode", "append"))
        first = run_id_of(context, again=again)
        for number in range(MOST_NIGHTS):
            run_id = self._run_id = next_id(first, number)
            try:
                return self._copied(context, run_id, ends)
            except AirflowException:
                # Resuming a night that was overtaken would always fail.
                asked = may_be_overtaken(self.options)
                status = self._overtaken(run_id, ends["target"]) if asked else None
                if status is None:
                    raise
            if covered_by(status):
                self.log.info("%s", said(COVERED, status))
                return summary_of(status)
            self.log.warning("%s; a new run begins from there", said(STALE, status))
        raise AirflowException(f"{MOST_NIGHTS} nights in a row were overtaken")

    def _copied(self, context: Any, run_id: str, ends: dict[str, Any]) -> dict[str, Any]:
        try:
            if self._of_interval:
                check_interval(context)
            spec = make_spec(ends["source"], ends["target"], self.options, run_id)
        except PenstockError as error:
            raise as_airflow(error) from None
        # A night always reads the source as it is now.
        is_night = spec.incremental is not None and spec.load_mode.merges_at_end
        cleared = bool(clearings(context["ti"])) and not is_night
        finished = self._follow(self._copy(spec, run_id, ends, cleared=cleared))
        self.log.info(
            "the run's report\n%s", as_arguments(report_text(finished, "clear this task"))
        )
        self._say_where_time_went(finished.run_id, ends["target"])
        status = penstock.status(
            finished.run_id, target=ends["target"], control_schema=self.control_schema
        )
        summary = summary_of(status)
        if self.outlet is not None:
            emit(context, self.outlet, ends["target"], status)
        mirror(context, self.outlet, summary["night"], self.log)
        return summary
