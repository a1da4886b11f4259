"""The task that copies many tables at once."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException

import penstock
from penstock import (
    BatchFinished,
    BatchSpec,
    PenstockError,
    RunStatus,
    as_arguments,
    batch_of_file,
    report_text,
)
from penstock_airflow.arguments import option_types as kinds
from penstock_airflow.arguments.batch import (
    ON_TABLE_ERROR,
    OnTableError,
    Tables,
    check_batch,
    ends_of_file,
    make_batch,
)
from penstock_airflow.arguments.endpoint import ARGUMENTS, ends_of
from penstock_airflow.arguments.options import (
    asked_for,
    asks_for_interval,
    check_interval,
    is_open,
    lists_as_lists,
    options_of,
)
from penstock_airflow.lineage.assets import alias_of, emit_all
from penstock_airflow.lineage.openlineage import CopyFacts, LineageMixin
from penstock_airflow.links.run import ReportLink
from penstock_airflow.operators.base import PenstockOperator, as_airflow
from penstock_airflow.runs.nights import (
    COVERED,
    MOST_NIGHTS,
    STALE,
    covered_by,
    is_overtaken,
    may_be_overtaken,
    mirror,
    next_id,
    said,
)
from penstock_airflow.runs.results import batch_summary_of
from penstock_airflow.runs.run_ids import (
    NAME_LENGTH_OF_BATCH,
    begins_again,
    clearings,
    run_id_of,
)


class CopyAllOperator(LineageMixin, PenstockOperator):
    """Copies many tables in one task, with one snapshot and one pool of streams.

    A retry continues: it copies what is not committed. So does clearing the task if a table is in
    mode append, whose rows a new batch would append again; the rest is then read as it is now.

    Returns the rows, bytes and seconds of the batch and of each table.

    Parameters:
        tables: patterns such as `public.*`, or mappings of arguments for tables with options of
            their own, such as `{"table": "public.orders", "mode": "upsert"}`. With `file`, patterns
            that select among the tables of the file; by default all.
        file: the path of a file of many tables, `penstock.toml`, which is read when the DAG is
            parsed and when the task runs. Its source and target apply unless the call names others;
            other arguments override the file's options for all tables, but not those of its
            sections.
        exclude: patterns of tables to leave out.
        target_schema: the schema of all target tables; by default that of the source table.
        on_table_error: what to do after a table has failed: `continue` with the others, or `stop`.
        recopy: whether clearing this task begins a new batch; by default it does, unless a table is
            in mode append, which would double its rows.
        outlet: an `AssetAlias`, to which each table's own asset is added with an event, or an
            `Asset`, which gets one event for all; by default the alias of the target's connection.
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
        tables: Tables | kinds.Returned = (),
        file: str | os.PathLike[str] | None = None,
        exclude: Sequence[str] | str = (),
        target_schema: str | None = None,
        on_table_error: OnTableError = ON_TABLE_ERROR,
        recopy: bool | None = None,
        outlet: Any = None,
        # ends and options but table, target_table, query: scripts/option_arguments.py
        source_conn_id: kinds.Text | None = None,
        source: kinds.Text | None = None,
        source_aws_conn_id: kinds.Text | None = None,
        target_conn_id: kinds.Text | None = None,
        target: kinds.Text | None = None,
        target_aws_conn_id: kinds.Text | None = None,
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
        if file is not None:
            ends = ends_of_file(os.fspath(file), ends)
        super().__init__(**ends, control_schema=control_schema, **kwargs)
        self.file = None if file is None else os.fspath(file)
        self.tables: Any = tables
        self.exclude = exclude
        self.target_schema = target_schema
        self.on_table_error = on_table_error
        self.recopy = recopy
        self.options = options
        check_batch(self._source, self._target, **self._asked())
        if self.file is not None:
            self.control_schema = self._in_file().control_schema
        self._of_interval = asks_for_interval(options)
        self.outlet = alias_of(self._target, target_schema) if outlet is None else outlet
        self.outlets = [*self.outlets, self.outlet]
        self._run_ids: list[str] = []

    def _asked(self) -> dict[str, Any]:
        return {
            "tables": self.tables,
            "file": self.file,
            "exclude": self.exclude,
            "target_schema": self.target_schema,
            "on_table_error": self.on_table_error,
            "options": self.options,
        }

    def _in_file(self) -> BatchSpec:
        """Return the tables of the file, without resolving its variables."""
        options = {name: value for name, value in self.options.items() if not is_open(value)}
        ends = {"source": "env:SOURCE", "target": "env:TARGET"}
        return batch_of_file(str(self.file), {**lists_as_lists(options), **ends}, None)

    def _options_of_tables(self) -> list[Mapping[str, Any]]:
        """Return the options of tables, as far as they are known without asking the source."""
        if self.file is not None:
            return self._in_file().kinds_of_tables()
        named = [table for table in self.tables if isinstance(table, Mapping)]
        return [self.options, *({**self.options, **own} for own in named)]

    def _modes(self) -> set[str]:
        return {str(options.get("mode", "append")) for options in self._options_of_tables()}

    def _copies(self) -> list[CopyFacts]:
        # Only the source can say which tables there are.
        return [CopyFacts(run_id) for run_id in self._run_ids]

    def execute(self, context: Any) -> dict[str, Any]:
        ends = self._ends()
        again = all(begins_again(self.recopy, mode) for mode in self._modes())
        first = run_id_of(context, again=again, name_length=NAME_LENGTH_OF_BATCH)
        for number in range(MOST_NIGHTS):
            try:
                return self._copied(context, next_id(first, number), ends, again=again)
            except AirflowException:
                failed = self._overtaken_tables(ends["target"])
                if not failed:
                    raise
            if len(failed) == len(self._failed) and all(map(covered_by, failed)):
                for status in failed:
                    self.log.info("%s", said(COVERED, status))
                assert isinstance(self._ended, BatchFinished)
                return self._concluded(context, self._ended, ends["target"])
            for status in failed:
                self.log.warning("%s; a new batch begins from there", said(STALE, status))
        raise AirflowException(f"{MOST_NIGHTS} nights in a row were overtaken")

    def _overtaken_tables(self, target: str) -> list[RunStatus]:
        """Return the runs that other nights have overtaken.

        Other failed tables are retried with them: if all tables are merged together, they may have
        failed because of these runs.
        """
        if not any(map(may_be_overtaken, self._options_of_tables())):
            return []
        found = [self._overtaken(run_id, target) for run_id in self._failed]
        return [status for status in found if status is not None]

    @property
    def _failed(self) -> list[str]:
        ended = self._ended
        if not isinstance(ended, BatchFinished):
            return []
        return [table.run_id for table in ended.tables if table.status != "done"]

    def _copied(
        self, context: Any, run_id: str, ends: dict[str, Any], *, again: bool
    ) -> dict[str, Any]:
        try:
            if self._of_interval:
                check_interval(context)
            batch = make_batch(**ends, run_id=run_id, **self._asked())
        except PenstockError as error:
            raise as_airflow(error) from None
        if clearings(context["ti"]) and not again:
            # The user has asked to copy the rest as it is now.
            batch = replace(batch, defaults={**batch.defaults, "on_snapshot_lost": "accept"})
        finished = self._last(penstock.copy_all(batch), BatchFinished)
        self.log.info(
            "the batch's report\n%s", as_arguments(report_text(finished, "clear this task"))
        )
        self._say_where_time_went(finished.run_id, ends["target"])
        return self._concluded(context, finished, ends["target"])

    def _concluded(self, context: Any, finished: BatchFinished, target: str) -> dict[str, Any]:
        self._run_ids = [table.run_id for table in finished.tables]
        copied = penstock.statuses(self._run_ids, target=target, control_schema=self.control_schema)
        summary = batch_summary_of(finished, copied)
        brought = [status for status in copied if not is_overtaken(status)]
        if brought:
            emit_all(context, self.outlet, target, brought, summary)
        nights = {name: table["night"] for name, table in summary["tables"].items()}
        known = {name: night for name, night in nights.items() if night is not None}
        mirror(context, self.outlet, known or None, self.log)
        return summary
