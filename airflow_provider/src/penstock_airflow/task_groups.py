"""Task groups that connect the operators."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, get_args

from airflow.providers.common.compat.sdk import TaskGroup

from penstock import MODES, STRATEGIES, UsageError
from penstock_airflow.arguments import option_types as kinds
from penstock_airflow.arguments.batch import ends_of_file, tables_of_file
from penstock_airflow.arguments.default_args import takes_default_args
from penstock_airflow.arguments.endpoint import TARGET_ARGUMENTS, End, ends_of
from penstock_airflow.arguments.options import asked_for, naming_table, options_of
from penstock_airflow.lineage.assets import alias_of
from penstock_airflow.operators.base import AWAIT_SNAPSHOT
from penstock_airflow.operators.copy_partition import CopyPartitionOperator
from penstock_airflow.operators.copy_table import CopyTableOperator
from penstock_airflow.operators.plan import PlanCopyOperator
from penstock_airflow.operators.prepare import PrepareCopyOperator
from penstock_airflow.operators.snapshot import HoldSnapshotOperator, ReleaseSnapshotOperator
from penstock_airflow.operators.verify import VerifyCopyOperator

DEGREE = 4
# Arguments for the mapped tasks alone, since the other tasks are short.
_OF_COPIES = ("execution_timeout", "pool", "pool_slots")
Holder = Literal["triggerer", "worker"]
_HOLDERS = get_args(Holder)
_DEFAULT_POOL = "default_pool"


@takes_default_args
def copy_table(
    *,
    group_id: str | None = None,
    partitions_per_task: int = 1,
    recopy: bool | None = None,
    snapshot_holder: Holder = "triggerer",
    deferrable: bool = True,
    await_snapshot: float = AWAIT_SNAPSHOT,
    outlet: Any = None,
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
    degree: int | str = DEGREE,
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
    snapshot: kinds.Snapshot | None = None,
    on_snapshot_lost: kinds.OnSnapshotLost | kinds.Text | None = None,
    accept_moving_rows: bool | kinds.Returned = False,
    attempts: int | kinds.Text | None = None,
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
    **of_tasks: Any,
) -> TaskGroup:
    """Create a task group that copies one table.

    Its tasks are prepare, plan, one mapped task per partition, verify, and a teardown that fails
    unless every partition is committed.

    With `snapshot="shared"`, another task keeps a snapshot of the source open until no task needs
    it. That is the default, except in mode `replace` with `where`, because a closed range of dates
    does not change while it is copied.

    If the arguments ask for a single partition (`strategy="whole"`, `partitions=1`), one task,
    `copy`, a `CopyTableOperator`, copies the table.

    Parameters:
        source_conn_id, target_conn_id: Airflow connections to databases.
        source, target: URLs without secrets, such as `s3://bucket/day={{ ds }}/`, or paths that are
            the same on every worker, instead of connections.
        source_aws_conn_id, target_aws_conn_id: for `s3://` URLs, Airflow connections of type `aws`
            with the keys; by default the machine that runs a task finds them.
        group_id: the group's id; by default the name of the target's table.
        degree: how many mapped tasks of this group run at once in one DAG run.
        partitions_per_task: partitions that one mapped task copies, one after the other.
        recopy: whether clearing a task copies again what it has committed. By default a single
            partition is copied again in modes replace and upsert, a whole run in all but append.
        snapshot_holder: `triggerer`, or `worker`, which occupies a worker slot for the whole copy.
        deferrable: False is the same as `snapshot_holder="worker"`. The copies themselves move
            rows, so they cannot be deferred.
        await_snapshot: seconds that a copy waits for the snapshot's holder.
        outlet: the `Asset` that gets an event for each run; by default an alias of the table.
        attempts: attempts per partition within one try of a task. By default 1 in mapped tasks,
            which Airflow retries, and 5 if one task copies the table.
        snapshot: by default `none` in mode `replace` with `where`, otherwise `shared`.
        table, target_table, mode, strategy, key, where ...: the options of a copy, as in
            `penstock.CopySpec`.
        of_tasks: arguments of every operator: `retries`, `retry_delay`, `queue` ... (`pool`,
            `pool_slots` and `execution_timeout` apply to the mapped tasks).

    Raises:
        UsageError: an argument is wrong, or conflicts with another.
    """
    options, ends = options_of(locals()), ends_of(locals())
    with naming_table(options):
        if snapshot_holder not in _HOLDERS:
            raise UsageError(
                f"snapshot_holder: expected one of {', '.join(_HOLDERS)}; found {snapshot_holder!r}"
            )
        if not isinstance(degree, int) or degree < 1:
            raise UsageError(
                "degree: expected the number of mapped tasks that run at once, at least 1; found "
                f"{degree!r}"
            )
    if snapshot is None:
        options["snapshot"] = _default_snapshot(options)
    if group_id is None:
        group_id = _name_of(options)
    if _is_whole(options):
        with naming_table(options), TaskGroup(group_id=group_id) as group:
            _one_task("copy", **ends, recopy=recopy, outlet=outlet, **options, **of_tasks)
        return group
    with naming_table(options), TaskGroup(group_id=group_id) as group:
        _mapped_tasks(
            ends,
            options,
            of_tasks,
            partitions_per_task=partitions_per_task,
            recopy=recopy,
            deferrable=deferrable and snapshot_holder == "triggerer",
            await_snapshot=await_snapshot,
            outlet=outlet,
        )
    return group


def _mapped_tasks(
    ends: Mapping[str, Any],
    options: Mapping[str, Any],
    of_tasks: dict[str, Any],
    *,
    partitions_per_task: int,
    recopy: bool | None,
    deferrable: bool,
    await_snapshot: float,
    outlet: Any,
) -> None:
    """Create the tasks of a group whose partitions mapped tasks copy.

    Parameters:
        ends: connections, as `End` takes them.
        options: options of the copy.
        of_tasks: arguments of operators.
        deferrable: whether the triggerer holds the snapshot.
    """
    of_target = {name: ends[name] for name in TARGET_ARGUMENTS}
    of_copies = {name: of_tasks.pop(name) for name in _OF_COPIES if name in of_tasks}
    schema = options["control_schema"]
    lost = options["on_snapshot_lost"]
    if outlet is None:
        outlet = _outlet(ends, options)
    prepare = PrepareCopyOperator(task_id="prepare", **ends, recopy=recopy, **options, **of_tasks)
    run_id = prepare.output
    plan = PlanCopyOperator(
        task_id="plan",
        **of_target,
        run_id=run_id,
        partitions_per_task=partitions_per_task,
        control_schema=schema,
        **of_tasks,
    )
    copy = CopyPartitionOperator.partial(
        task_id="copy",
        max_active_tis_per_dagrun=options["degree"],
        **ends,
        control_schema=schema,
        recopy=recopy,
        # Set `degree` here: the one in the DAG's default_args is meant for the group.
        degree=1,
        attempts=options["attempts"] or 1,
        await_snapshot=await_snapshot,
        on_snapshot_lost=lost,
        **of_tasks,
        **of_copies,
    ).expand(partition=plan.output)
    verify = VerifyCopyOperator(
        task_id="verify",
        **ends,
        run_id=run_id,
        copied=copy.output,
        degree=options["degree"],
        control_schema=schema,
        await_snapshot=await_snapshot,
        on_snapshot_lost=lost,
        outlet=outlet,
        **of_tasks,
    )
    copy >> verify
    if options["snapshot"] == "shared":
        HoldSnapshotOperator(
            task_id="snapshot",
            **ends,
            run_id=run_id,
            control_schema=schema,
            deferrable=deferrable,
            on_snapshot_lost=lost,
            # Not the pool of the DAG's tasks: copies that fill it wait for this task.
            pool=_DEFAULT_POOL,
            **of_tasks,
        )
    release = ReleaseSnapshotOperator(
        task_id="release",
        **of_target,
        run_id=run_id,
        control_schema=schema,
        **of_tasks,
    ).as_teardown()
    [copy, verify] >> release


def _default_snapshot(options: Mapping[str, Any]) -> str:
    mode = MODES.get(str(options.get("mode")))
    by_partition = mode is not None and mode.deletes_by_partition
    return "none" if by_partition and options.get("where") else "shared"


@takes_default_args
def copy_tables(
    tables: Iterable[str | Mapping[str, Any]] = (),
    *,
    file: str | os.PathLike[str] | None = None,
    mapped: bool = False,
    partitions_per_task: int = 1,
    recopy: bool | None = None,
    snapshot_holder: Holder = "triggerer",
    deferrable: bool = True,
    await_snapshot: float = AWAIT_SNAPSHOT,
    outlet: Any = None,
    # ends and options but table, target_table, query, schema_only: scripts/option_arguments.py
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
    degree: int | str = DEGREE,
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
    snapshot: kinds.Snapshot | None = None,
    on_snapshot_lost: kinds.OnSnapshotLost | kinds.Text | None = None,
    accept_moving_rows: bool | kinds.Returned = False,
    attempts: int | kinds.Text | None = None,
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
    **of_tasks: Any,
) -> list[TaskGroup | CopyTableOperator]:
    """Create one task for each table, or a group of mapped tasks for each big one.

    A single task (`CopyTableOperator`) also cuts its table into partitions, and copies up to
    `degree` of them at once. A group shows each partition in the grid, and retries it alone.

    Parameters:
        tables: the name of each table, or its arguments for `copy_table`; `group_id` is the id of a
            single task.
        file: the path of a file of many tables, `penstock.toml`, instead of `tables`; each table
            that a section names gets a task. Its source and target apply unless the call names
            others; options of the call override its options for all tables.
        mapped: whether tables get a group (`copy_table`); a table's own `mapped` overrides it.
        degree: for a group as in `copy_table`; for a single task, its concurrent streams.
        others: arguments of `copy_table` for all tables; a table's own override them.

    Raises:
        UsageError: an argument is wrong, or conflicts with another.
    """
    options, ends = options_of(locals()), ends_of(locals())
    if file is not None:
        if tables:
            raise UsageError("tables, file: expected one of them, found both")
        ends = ends_of_file(os.fspath(file), ends)
        asked = {name: value for name, value in asked_for(options).items() if name != "degree"}
        tables = tables_of_file(os.fspath(file), ends, asked)
    common = {**options, **ends, **of_tasks, "recopy": recopy, "outlet": outlet}
    of_groups = {
        "partitions_per_task": partitions_per_task,
        "snapshot_holder": snapshot_holder,
        "deferrable": deferrable,
        "await_snapshot": await_snapshot,
    }
    tasks: list[TaskGroup | CopyTableOperator] = []
    for table in _each(tables):
        arguments = {"mapped": mapped, **of_groups, **common, **table}
        if arguments.pop("mapped"):
            tasks.append(copy_table(**arguments))
            continue
        name = arguments.pop("group_id", None) or _name_of(arguments)
        for unused in of_groups:
            arguments.pop(unused)
        tasks.append(_one_task(name, **arguments))
    return tasks


def _each(tables: Iterable[str | Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Return the arguments of each table.

    Raises:
        UsageError: an entry is neither the name nor the arguments of a table.
    """
    if isinstance(tables, str | Mapping):
        raise UsageError(f"tables: expected a list of tables, found {tables!r}")
    for table in tables:
        if isinstance(table, str):
            yield {"table": table}
        elif isinstance(table, Mapping):
            yield table
        else:
            raise UsageError(
                "tables: expected the name of a table, or its arguments as a mapping; found "
                f"{table!r}"
            )


def _one_task(task_id: str, *, outlet: Any = None, **arguments: Any) -> CopyTableOperator:
    """Create the single task of a table.

    Parameters:
        outlet: as in `copy_table`.
    """
    if outlet is None:
        outlet = _outlet(arguments, arguments)
    return CopyTableOperator(task_id=task_id, outlet=outlet, **arguments)


def _outlet(ends: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """Return an alias of the target's table."""
    end = End("target", *(ends.get(name) for name in TARGET_ARGUMENTS))
    return alias_of(end, options.get("target_table") or options.get("table"))


def _name_of(options: Mapping[str, Any]) -> str:
    named = options.get("target_table") or options.get("table") or "copy"
    return str(named).replace(".", "_").replace('"', "")


def _is_whole(options: Mapping[str, Any]) -> bool:
    """Whether there is exactly one partition, whatever the table holds."""
    strategy = STRATEGIES.get(str(options.get("strategy")))
    return (strategy is not None and strategy.leaves_whole) or options.get("partitions") == 1
