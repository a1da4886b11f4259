"""The operator that copies many tables at once."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import penstock
from penstock import (
    BatchFinished,
    BatchSpec,
    PenstockError,
    RunStatus,
    batch_of_file,
)
from penstock_airflow.arguments import option_types as option
from penstock_airflow.arguments.batch import (
    ON_TABLE_ERROR,
    OnTableError,
    Tables,
    build_batch,
    check_batch,
    endpoints_of_file,
)
from penstock_airflow.arguments.endpoint import ARGUMENTS, endpoint_arguments
from penstock_airflow.arguments.mistakes import check_arguments, parameters_of
from penstock_airflow.arguments.options import (
    check_interval,
    is_dynamic,
    non_default_options,
    options_of,
    tuples_as_lists,
    uses_interval,
)
from penstock_airflow.lineage.assets import alias_of, emit_all
from penstock_airflow.lineage.openlineage import CopyFacts, LineageMixin
from penstock_airflow.links.run import ReportLink
from penstock_airflow.operators.base import PenstockOperator, airflow_exception
from penstock_airflow.runs.claims import claim_of, give_up_quietly, has_tries_left
from penstock_airflow.runs.nights import (
    COVERED,
    MAX_RUNS,
    STALE,
    covered_by,
    is_overtaken,
    may_be_overtaken,
    next_run_id,
    overtaken_message,
    store_watermark,
)
from penstock_airflow.runs.results import batch_summary_of
from penstock_airflow.runs.run_ids import (
    BATCH_NAME_LENGTH,
    clearings,
    run_id_of,
    starts_new_run,
)
from penstock_airflow.sdk import AirflowException, AirflowFailException


class CopyAllOperator(LineageMixin, PenstockOperator):
    """Copies many tables in one task, with one snapshot and one pool of streams.

    A retry continues: it copies what is not committed. If a table is in mode append, so does
    clearing the task, because a new batch would append its rows again; it reads the rest as it is
    now. Tables that have lost their rows since, or whose options have changed, start over.

    Returns the rows, bytes and seconds of the batch and of each table.

    Args:
        tables: patterns such as `public.*`, or mappings of arguments for tables with options of
            their own, such as `{"table": "public.orders", "mode": "upsert"}`. With `file`, patterns
            that select from the tables of the file; by default all of them.
        file: the path of a file of many tables, `penstock.toml`, which is read when the DAG is
            parsed and when the task runs. Its source and target apply unless the call names others;
            other arguments override the file's options for all tables, but not those of its
            sections.
        exclude: patterns of tables to leave out.
        target_schema: the schema of all target tables; by default that of the source table.
        on_table_error: what to do after a table has failed: `continue` with the others, or `stop`.
        recopy: whether clearing this task starts a new batch. By default it does, unless a table
            is in mode append, which would double its rows.
        outlet: an `AssetAlias`, to which each table's own asset is added with an event, or an
            `Asset`, which gets one event for all; by default the alias of the target's connection.
        source_conn_id, source, source_aws_conn_id: where to read: an Airflow connection, or a URL
            without secrets and an `aws` connection with its keys.
        target_conn_id, target, target_aws_conn_id: where to write, likewise.
        mode, strategy, degree ...: options for every table, as in `penstock.CopySpec`.
        kwargs: the arguments of every operator.

    Raises:
        UsageError: wrong options; raised when the DAG is parsed, as far as templates allow.
    """

    template_fields: Sequence[str] = (
        "tables",
        "exclude",
        "target_schema",
        "options",
        *ARGUMENTS,
    )
    operator_extra_links = (ReportLink(),)

    def __init__(
        self,
        *,
        tables: Tables | option.Returned = (),
        file: str | os.PathLike[str] | None = None,
        exclude: Sequence[str] | str = (),
        target_schema: str | None = None,
        on_table_error: OnTableError = ON_TABLE_ERROR,
        recopy: bool | None = None,
        outlet: Any = None,
        # options without table, target_table, query: scripts/option_arguments.py
        source_conn_id: option.Text | None = None,
        source: option.Text | None = None,
        source_aws_conn_id: option.Text | None = None,
        target_conn_id: option.Text | None = None,
        target: option.Text | None = None,
        target_aws_conn_id: option.Text | None = None,
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
        if file is not None:
            endpoints = endpoints_of_file(os.fspath(file), endpoints)
        check_arguments(
            kwargs, known=parameters_of(type(self)), options=options, endpoints=endpoints
        )
        super().__init__(**endpoints, control_schema=control_schema, **kwargs)
        self.file = None if file is None else os.fspath(file)
        self.tables: Any = tables
        self.exclude = exclude
        self.target_schema = target_schema
        self.on_table_error = on_table_error
        self.recopy = recopy
        self.options = options
        check_batch(self._source, self._target, **self._batch_arguments())
        if self.file is not None:
            self.control_schema = self._batch_of_file().control_schema
        self._uses_interval = uses_interval(options)
        self.outlet = alias_of(self._target, target_schema) if outlet is None else outlet
        self.outlets = [*self.outlets, self.outlet]
        self._run_ids: list[str] = []

    def _batch_arguments(self) -> dict[str, Any]:
        return {
            "tables": self.tables,
            "file": self.file,
            "exclude": self.exclude,
            "target_schema": self.target_schema,
            "on_table_error": self.on_table_error,
            "options": self.options,
        }

    def _batch_of_file(self) -> BatchSpec:
        """Return the tables of the file, without resolving its variables."""
        options = {name: value for name, value in self.options.items() if not is_dynamic(value)}
        placeholders = {"source": "env:SOURCE", "target": "env:TARGET"}
        return batch_of_file(str(self.file), {**tuples_as_lists(options), **placeholders}, None)

    def _table_options(self) -> list[Mapping[str, Any]]:
        """Return the options of tables, as far as they are known without the source."""
        if self.file is not None:
            return self._batch_of_file().kinds_of_tables()
        tables = [table for table in self.tables if isinstance(table, Mapping)]
        return [self.options, *({**self.options, **table} for table in tables)]

    def _modes(self) -> set[str]:
        return {str(options.get("mode", "append")) for options in self._table_options()}

    def _copies(self) -> list[CopyFacts]:
        # Only the source knows which tables match.
        return [CopyFacts(run_id) for run_id in self._run_ids]

    def execute(self, context: Any) -> dict[str, Any]:
        """Copy the tables, and return the batch's result."""
        urls = self._urls()
        try:
            return self._execute(context, urls)
        except AirflowException as error:
            if isinstance(error, AirflowFailException) or not has_tries_left(context):
                give_up_quietly(
                    self._failed_run_ids,
                    target=urls["target"],
                    control_schema=self.control_schema,
                    log=self.log,
                )
            raise

    def _execute(self, context: Any, urls: dict[str, Any]) -> dict[str, Any]:
        again = all(starts_new_run(self.recopy, mode) for mode in self._modes())
        first = run_id_of(context, again=again, name_length=BATCH_NAME_LENGTH)
        for number in range(MAX_RUNS):
            try:
                return self._run_once(context, next_run_id(first, number), urls, again=again)
            except AirflowException:
                failed = self._overtaken_tables(urls["target"])
                if not failed:
                    raise
            if len(failed) == len(self._failed_run_ids) and all(map(covered_by, failed)):
                for status in failed:
                    self.log.info("%s", overtaken_message(COVERED, status))
                assert isinstance(self._last_event, BatchFinished)
                return self._conclude(context, self._last_event, urls["target"])
            for status in failed:
                self.log.warning(
                    "%s; starting a new batch from there", overtaken_message(STALE, status)
                )
        raise AirflowException(f"{MAX_RUNS} batches in a row were overtaken by other nights")

    def _overtaken_tables(self, target: str) -> list[RunStatus]:
        """Return the runs that other nights have overtaken.

        Other failed tables are retried with them: if all tables are merged together, these runs may
        be the reason for their failure.
        """
        if not any(map(may_be_overtaken, self._table_options())):
            return []
        statuses = [self._overtaken_status(run_id, target) for run_id in self._failed_run_ids]
        return [status for status in statuses if status is not None]

    @property
    def _failed_run_ids(self) -> list[str]:
        ended = self._last_event
        if not isinstance(ended, BatchFinished):
            return []
        return [table.run_id for table in ended.tables if table.status != "done"]

    def _run_once(
        self, context: Any, run_id: str, urls: dict[str, Any], *, again: bool
    ) -> dict[str, Any]:
        try:
            if self._uses_interval:
                check_interval(context)
            batch = build_batch(**urls, run_id=run_id, **self._batch_arguments())
            batch = replace(batch, defaults={**batch.defaults, "claim": claim_of(context)})
        except PenstockError as error:
            raise airflow_exception(error) from None
        cleared = bool(clearings(context["ti"])) and not again
        if cleared:
            # By clearing the task, the user asks for the rest as it is now.
            batch = replace(batch, defaults={**batch.defaults, "on_snapshot_lost": "accept"})
        finished = self._run_events(penstock.copy_all(batch, renew=cleared), BatchFinished)
        self._log_report(finished, urls["target"])
        return self._conclude(context, finished, urls["target"])

    def _conclude(self, context: Any, finished: BatchFinished, target: str) -> dict[str, Any]:
        self._run_ids = [table.run_id for table in finished.tables]
        copied = penstock.statuses(self._run_ids, target=target, control_schema=self.control_schema)
        summary = batch_summary_of(finished, copied)
        merged = [status for status in copied if not is_overtaken(status)]
        if merged:
            emit_all(context, self.outlet, target, merged, summary)
        nights = {name: table["night"] for name, table in summary["tables"].items()}
        merged_nights = {name: night for name, night in nights.items() if night is not None}
        store_watermark(context, self.outlet, merged_nights or None, self.log)
        return summary
