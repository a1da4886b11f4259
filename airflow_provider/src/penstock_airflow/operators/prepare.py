"""The operator that plans a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import penstock
from penstock import PenstockError, UsageError
from penstock_airflow.arguments import option_types as option
from penstock_airflow.arguments.endpoint import ARGUMENTS, endpoint_arguments
from penstock_airflow.arguments.mistakes import check_arguments, parameters_of
from penstock_airflow.arguments.options import (
    build_spec,
    check_interval,
    check_options,
    non_default_options,
    options_of,
    table_in_errors,
    uses_interval,
)
from penstock_airflow.links.run import ReportLink
from penstock_airflow.operators.approval import Approvable, AskingOperator
from penstock_airflow.operators.base import NEW_RUN, airflow_exception
from penstock_airflow.runs.claims import claim_of
from penstock_airflow.runs.final_task import passed_final_task
from penstock_airflow.runs.nearest_task import COPIES, nearest
from penstock_airflow.runs.run_ids import (
    clearings,
    earlier_run_ids,
    run_id_of,
    starts_new_run,
)
from penstock_airflow.runs.task_states import Tasks

# The operators that work on the prepared run.
_LATER = ("PlanCopyOperator", COPIES, "VerifyCopyOperator")


class PrepareCopyOperator(AskingOperator):
    """Checks source and target, plans, and stores the run in the target.

    It does not touch the target's table: the first partition empties or creates it, as the mode
    requires, once per run. A retry finds the stored run. Cleared with all later tasks, it plans the
    run again if the table has lost the rows that the run had loaded, or its options have changed.

    Returns the run's id.

    Args:
        recopy: whether clearing this task starts a new run. By default it does, except in mode
            append, which would double the rows. It never does unless all later tasks that work on
            the run are cleared with it: the new run would empty the table, and the others would not
            copy their partitions again.
        approve, response_timeout: whether to ask a person, and how long; see `AskingOperator`.
        source_conn_id, source, source_aws_conn_id: where to read: an Airflow connection, or a URL
            without secrets and an `aws` connection with its keys.
        target_conn_id, target, target_aws_conn_id: where to write, likewise.
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
        approve: Approvable | Sequence[Approvable] = (),
        response_timeout: timedelta | None = None,
        # options without schema_only: scripts/option_arguments.py
        source_conn_id: option.Text | None = None,
        source: option.Text | None = None,
        source_aws_conn_id: option.Text | None = None,
        target_conn_id: option.Text | None = None,
        target: option.Text | None = None,
        target_aws_conn_id: option.Text | None = None,
        table: option.Text | None = None,
        query: option.Text | None = None,
        target_table: option.Text | None = None,
        where: option.Text | None = None,
        columns: option.Names | None = None,
        exclude_columns: option.Names | None = None,
        set: option.Names | None = None,
        mask: option.Names | None = None,
        map: option.Map | option.Returned = "name",
        descendants: option.Descendants | option.Returned | None = None,
        snapshot: option.Snapshot | option.Returned = "shared",
        on_snapshot_lost: option.OnSnapshotLost | option.Returned | None = None,
        give_way_after: float | option.Text | None = None,
        strategy: option.Strategy | option.Returned = "auto",
        key: option.Text | None = None,
        partitions: int | option.Text | None = None,
        interval: option.Text | None = None,
        values_query: option.Text | None = None,
        incremental: option.Text | None = None,
        lookback: option.Text | None = None,
        null_cursor: option.NullCursor | option.Returned = "refuse",
        max_ahead: float | option.Text = 86400.0,
        deletes: option.Text = "ignore",
        full_every: float | option.Text | None = None,
        atomic_limit: option.Text | None = None,
        on_target_changed: option.OnTargetChanged | option.Returned = "full",
        watermark: option.Text | None = None,
        create: bool | option.Returned = False,
        data_only: bool | option.Returned = False,
        types: option.ColumnTypes | None = None,
        arrays: option.Arrays | option.Returned = "refuse",
        enums: option.Enums | option.Returned = "check",
        order_by: option.Names | None = None,
        partitioning: bool | option.Returned = False,
        partition_by: option.Names | None = None,
        file_size: int | option.Text | None = None,
        row_group_size: int | option.Text | None = None,
        compression: option.Compression | option.Returned | None = None,
        mode: option.Mode | option.Returned = "append",
        conflict_columns: option.Names | None = None,
        atomic: option.Atomic | option.Returned | None = None,
        indexes: option.Indexes | option.Returned = "keep",
        unlogged: bool | option.Returned = False,
        sequences: option.Sequences | option.Returned = "set",
        on_drift: option.Text = "fail",
        degree: int | option.Text = "auto",
        max_rate: int | option.Text | None = None,
        max_lag: float | option.Text | None = None,
        attempts: int | option.Text = 5,
        on_error: option.OnError | option.Returned = "stop",
        stall_timeout: float | option.Text = 600.0,
        grace: float | option.Text = 10.0,
        stale_after: float | option.Text = 86400.0,
        verify: option.Verify | option.Returned = "none",
        control_schema: str = "penstock",
        show_values: option.ShowValues | option.Returned | None = None,
        # end of options
        **kwargs: Any,
    ) -> None:
        options, endpoints = non_default_options(options_of(locals())), endpoint_arguments(locals())
        with table_in_errors(options):
            check_arguments(
                kwargs, known=parameters_of(type(self)), options=options, endpoints=endpoints
            )
            super().__init__(
                approve=approve,
                response_timeout=response_timeout,
                **endpoints,
                control_schema=control_schema,
                **kwargs,
            )
            check_options(options, self._source, self._target)
        self.options = options
        self._uses_interval = uses_interval(options)
        self.recopy = recopy

    def execute(self, context: Any) -> str:
        """Store the run, and return its id."""
        urls = self._urls()
        again = starts_new_run(self.recopy, self.options.get("mode", "append"))
        try:
            if self._uses_interval:
                check_interval(context)
            run_id = run_id_of(context, again=again)
            run_in_use = self._run_in_use(context, urls["target"])
            if again:
                run_id = run_in_use or run_id
            claim = claim_of(context, [task.task_id for task in self._workers()])
            spec = build_spec(
                urls["source"],
                urls["target"],
                {**self.options, **self.approved_options},
                run_id,
                claim,
            )
            renew = bool(clearings(context["ti"])) and run_in_use is None
            status = penstock.create(spec, renew=renew)
            if status.renewed:
                self._log_warning(f"run {run_id} starts over: {status.renewed}")
            run = status.run
            if (
                len(run.plan.partitions) == 1
                and (spec.snapshot, spec.verify) == ("shared", "none")
                and not spec.deletion.is_enabled
            ):
                # There is one reader, which reads everything once, with a snapshot of its own.
                penstock.release(run.run_id, target=spec.target, control_schema=spec.control_schema)
        except PenstockError as error:
            self._ask_before_failing(error)
            raise airflow_exception(error, again=NEW_RUN.format("this task")) from None
        plan = run.plan
        self.log.info(
            "run %s: %d partitions by %s", run.run_id, len(plan.partitions), plan.strategy
        )
        for reason in plan.reasons:
            self._log_line(f"    {reason}")
        for warning in plan.warnings:
            self._log_warning(f"warning: {warning}")
        if kinds := Counter(item.kind for item in plan.load.not_copied):
            omitted = ", ".join(f"{kind} ({count:,})" for kind, count in kinds.items())
            self._log_line(f"    not copied: {omitted}; the report at the end lists them")
        return str(run.run_id)

    def _workers(self) -> list[Any]:
        """Return the later tasks that work on the run."""
        tasks = [nearest(self, kind, "downstream_task_ids") for kind in _LATER]
        return [task for task in tasks if task is not None]

    def _run_in_use(self, context: Any, target: str) -> str | None:
        """Return the run to continue if some tasks that work on it were not cleared."""
        earlier = earlier_run_ids(context)
        if not earlier:
            return None
        due = Tasks.of(context, [task.task_id for task in self._workers()]).are_all_due()
        if due and passed_final_task(self, context) is None:
            return None
        for run_id in earlier:
            try:
                penstock.status(run_id, target=target, control_schema=self.control_schema)
            except UsageError:
                continue
            self.log.warning(
                "run %s continues, because some tasks that work on it were not cleared. To copy "
                "everything again, clear this task with its downstream tasks",
                run_id,
            )
            return run_id
        return None
