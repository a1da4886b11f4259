"""The task that begins a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import penstock
from penstock import PenstockError, UsageError
from penstock_airflow.arguments import option_types as kinds
from penstock_airflow.arguments.endpoint import ARGUMENTS, ends_of
from penstock_airflow.arguments.options import (
    asked_for,
    asks_for_interval,
    check,
    check_interval,
    make_spec,
    naming_table,
    options_of,
)
from penstock_airflow.links.run import ReportLink
from penstock_airflow.operators.base import PenstockOperator, as_airflow
from penstock_airflow.runs.final_task import judge_that_has_passed
from penstock_airflow.runs.nearest_task import nearest
from penstock_airflow.runs.run_ids import begins_again, earlier_run_ids, run_id_of
from penstock_airflow.runs.task_states import Tasks

# The operators that work on the prepared run.
_WORKERS = ("PlanCopyOperator", "CopyPartitionOperator", "VerifyCopyOperator")


class PrepareCopyOperator(PenstockOperator):
    """Checks both ends, plans, and stores the run in the target. Returns the run's id.

    It does not touch the target's table: the first partition empties or creates it, as the mode
    requires, once per run. A retry finds the stored run.

    Parameters:
        recopy: whether clearing this task begins a new run. By default it does, except in mode
            append, which would double the rows. It never does unless all later tasks that work on
            the run are cleared with it: the others would take no part in the new run, which empties
            the table.
        table, mode, strategy ...: the options of a copy, as in `penstock.CopySpec`.
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
        # ends and options but schema_only: scripts/option_arguments.py
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
        with naming_table(options):
            super().__init__(**ends, control_schema=control_schema, **kwargs)
            check(options, self._source, self._target)
        self.options = options
        self._of_interval = asks_for_interval(options)
        self.recopy = recopy

    def execute(self, context: Any) -> str:
        ends = self._ends()
        again = begins_again(self.recopy, self.options.get("mode", "append"))
        try:
            if self._of_interval:
                check_interval(context)
            run_id = run_id_of(context, again=again)
            if again:
                run_id = self._run_in_use(context, ends["target"]) or run_id
            spec = make_spec(ends["source"], ends["target"], self.options, run_id)
            run = penstock.create(spec).run
            if (
                len(run.plan.partitions) == 1
                and (spec.snapshot, spec.verify) == ("shared", "none")
                and not spec.gone.found
            ):
                # One reader, and nothing is read twice, so the copy takes its own snapshot.
                penstock.release(run.run_id, target=spec.target, control_schema=spec.control_schema)
        except PenstockError as error:
            raise as_airflow(error) from None
        plan = run.plan
        self.log.info(
            "run %s: %d partitions by %s", run.run_id, len(plan.partitions), plan.strategy
        )
        for reason in (*plan.reasons, *(f"warning: {warning}" for warning in plan.warnings)):
            self._say(f"    {reason}")
        return str(run.run_id)

    def _run_in_use(self, context: Any, target: str) -> str | None:
        """Return the run to continue, because some tasks that work on it were not cleared."""
        earlier = earlier_run_ids(context)
        if not earlier:
            return None
        found = [nearest(self, kind, "downstream_task_ids") for kind in _WORKERS]
        workers = [task.task_id for task in found if task is not None]
        due = Tasks.of(context, workers).are_all_due()
        if due and judge_that_has_passed(self, context) is None:
            return None
        for run_id in earlier:
            try:
                penstock.status(run_id, target=target, control_schema=self.control_schema)
            except UsageError:
                continue
            self.log.warning(
                "run %s goes on, since not all tasks that work on it were cleared with this one. "
                "To copy everything again, clear this task with its downstream tasks",
                run_id,
            )
            return run_id
        return None
