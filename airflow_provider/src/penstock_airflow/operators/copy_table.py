"""The operator that copies a whole table."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from datetime import timedelta
from typing import Any

import penstock
from penstock import CopySpec, Ending, Event, PenstockError, UsageError
from penstock_airflow.arguments import option_types as option
from penstock_airflow.arguments.default_args import with_partial_defaults
from penstock_airflow.arguments.endpoint import ARGUMENTS, endpoint_arguments
from penstock_airflow.arguments.mistakes import check_arguments, parameters_of
from penstock_airflow.arguments.options import (
    build_spec,
    check_interval,
    check_options,
    execution_options,
    non_default_options,
    options_of,
    table_in_errors,
    uses_interval,
)
from penstock_airflow.lineage.assets import emit
from penstock_airflow.lineage.openlineage import CopyFacts, LineageMixin
from penstock_airflow.links.run import ReportLink
from penstock_airflow.operators.approval import Approvable, AskingOperator
from penstock_airflow.operators.base import airflow_exception
from penstock_airflow.runs.claims import claim_of, give_up_quietly, has_tries_left
from penstock_airflow.runs.nights import (
    COVERED,
    MAX_RUNS,
    STALE,
    covered_by,
    may_be_overtaken,
    next_run_id,
    overtaken_message,
    store_watermark,
)
from penstock_airflow.runs.packing import MAX_LABEL
from penstock_airflow.runs.results import summary_of
from penstock_airflow.runs.run_ids import clearings, run_id_of, starts_new_run
from penstock_airflow.sdk import AirflowException, AirflowFailException

LABEL = "{{ task.copied }}"


class CopyTableOperator(LineageMixin, AskingOperator):
    """Copies a table in one task, with several streams: suited to many small tables.

    A retry continues the run: it copies what is not committed. In mode append, so does clearing
    the task, because a new run would append the rows again; it reads the rest as it is now. If the
    table has lost the rows since, or the options have changed, the run starts over.

    Returns the run's rows, bytes, seconds and rates.

    Args:
        recopy: whether clearing this task starts a new run. By default it does, except in mode
            append, which would double the rows.
        approve, response_timeout: whether to ask a person, and how long; see `AskingOperator`.
        outlet: an `Asset` or `AssetAlias` for the target's table; it gets an event.
        source_conn_id, source, source_aws_conn_id: where to read: an Airflow connection, or a URL
            without secrets and an `aws` connection with its keys.
        target_conn_id, target, target_aws_conn_id: where to write, likewise.
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
        approve: Approvable | Sequence[Approvable] = (),
        response_timeout: timedelta | None = None,
        outlet: Any = None,
        # options: scripts/option_arguments.py
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
        schema_only: bool | option.Returned = False,
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
        # A mapped task gets it from `partial`.
        if outlet is not None and outlet not in kwargs.get("outlets", ()):
            kwargs["outlets"] = [*kwargs.get("outlets", ()), outlet]
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
        self.outlet = outlet
        self._run_id: str | None = None

    @classmethod
    def partial(cls, **kwargs: Any) -> Any:
        """Set the operator's arguments, and label mapped tasks in the grid with their tables."""
        options = non_default_options(options_of(kwargs))
        with table_in_errors(options):
            check_arguments(kwargs, known=parameters_of(cls), options=options)
        kwargs.setdefault("map_index_template", LABEL)
        if kwargs.get("outlet") is not None:
            kwargs["outlets"] = [*kwargs.get("outlets", ()), kwargs["outlet"]]
        return super().partial(**with_partial_defaults(kwargs))

    @property
    def copied(self) -> str:
        """The task's table, with its condition if it has one: its label in the grid."""
        table = self.options.get("target_table") or self.options.get("table") or self.task_id
        where = self.options.get("where")
        text = f"{table} where {where}" if where else str(table)
        return text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"

    def _events(
        self, spec: CopySpec, run_id: str, urls: dict[str, Any], *, cleared: bool
    ) -> Generator[Event, None, None]:
        if not cleared:
            yield from penstock.copy(spec)
            return
        # Continue the stored run if there is one and it can go on, otherwise store a new one.
        renewed = penstock.create(spec, renew=True).renewed
        if renewed:
            self._log_warning(f"run {run_id} starts over: {renewed}")
        yield from penstock.resume(
            run_id,
            **urls,
            control_schema=self.control_schema,
            as_of_now=True,
            **execution_options(spec),
        )

    def _copy_facts(self) -> CopyFacts:
        return CopyFacts(self._run_id, options=self.options)

    def execute(self, context: Any) -> dict[str, Any]:
        """Copy the table, and return the run's result."""
        urls = self._urls()
        try:
            return self._execute(context, urls)
        except AirflowException as error:
            if self._run_id and (
                isinstance(error, AirflowFailException) or not has_tries_left(context)
            ):
                give_up_quietly(
                    [self._run_id],
                    target=urls["target"],
                    control_schema=self.control_schema,
                    log=self.log,
                )
            raise

    def _execute(self, context: Any, urls: dict[str, Any]) -> dict[str, Any]:
        again = starts_new_run(self.recopy, self.options.get("mode", "append"))
        first = run_id_of(context, again=again)
        for number in range(MAX_RUNS):
            run_id = self._run_id = next_run_id(first, number)
            try:
                return self._run_once(context, run_id, urls)
            except AirflowException:
                # Resuming an overtaken night would always fail.
                retried = may_be_overtaken(self.options)
                status = self._overtaken_status(run_id, urls["target"]) if retried else None
                if status is None:
                    raise
            if covered_by(status):
                self.log.info("%s", overtaken_message(COVERED, status))
                return summary_of(status)
            self.log.warning("%s; starting a new run from there", overtaken_message(STALE, status))
        raise AirflowException(f"{MAX_RUNS} runs in a row were overtaken by other nights")

    def _approvals(self, run_id: str, target: str) -> dict[str, str]:
        """Return the options that a person has approved, in this try or an earlier one."""
        if not self.approve:
            return {}
        try:
            stored = penstock.status(run_id, target=target, control_schema=self.control_schema)
        except UsageError:
            return self.approved_options  # there is no run yet
        return {"on_drift": stored.run.spec["on_drift"], **self.approved_options}

    def _waiting_run(self) -> str:
        return self._run_id or ""

    def _run_once(self, context: Any, run_id: str, urls: dict[str, Any]) -> dict[str, Any]:
        try:
            if self._uses_interval:
                check_interval(context)
            claim = claim_of(context)
            options = {**self.options, **self._approvals(run_id, urls["target"])}
            spec = build_spec(urls["source"], urls["target"], options, run_id, claim)
        except PenstockError as error:
            raise airflow_exception(error) from None
        # A night always reads the source as it is now.
        is_night = spec.incremental is not None and spec.load_mode.ending is Ending.MERGE
        cleared = bool(clearings(context["ti"])) and not is_night
        finished = self._run_copy(self._events(spec, run_id, urls, cleared=cleared))
        self._log_report(finished, urls["target"])
        status = penstock.status(
            finished.run_id, target=urls["target"], control_schema=self.control_schema
        )
        summary = summary_of(status)
        if self.outlet is not None:
            emit(context, self.outlet, urls["target"], status)
        store_watermark(context, self.outlet, summary["night"], self.log)
        return summary
