"""Functions that create tasks for a copy: a task group of connected operators, or a task."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, get_args

from penstock import MODES, STRATEGIES, Entry, UsageError
from penstock_airflow.arguments import option_types as option
from penstock_airflow.arguments.batch import endpoints_of_file, tables_of_file
from penstock_airflow.arguments.default_args import apply_default_args
from penstock_airflow.arguments.endpoint import TARGET_ARGUMENTS, Endpoint, endpoint_arguments
from penstock_airflow.arguments.mistakes import check_arguments, parameters_of
from penstock_airflow.arguments.options import non_default_options, options_of, table_in_errors
from penstock_airflow.lineage.assets import alias_of
from penstock_airflow.operators.approval import Approvable, approval_mistakes, approvals_of
from penstock_airflow.operators.base import AWAIT_SNAPSHOT
from penstock_airflow.operators.copy_partition import CopyPartitionOperator
from penstock_airflow.operators.copy_table import CopyTableOperator
from penstock_airflow.operators.copy_worker import CopyWorkerOperator
from penstock_airflow.operators.plan import PlanCopyOperator, worker_mistakes
from penstock_airflow.operators.prepare import PrepareCopyOperator
from penstock_airflow.operators.snapshot import HoldSnapshotOperator, ReleaseSnapshotOperator
from penstock_airflow.operators.verify import VerifyCopyOperator
from penstock_airflow.sdk import BaseOperator, TaskGroup

DEGREE = 4
# Arguments for the mapped tasks alone, because the other tasks are short.
_COPY_ARGUMENTS = ("execution_timeout", "pool", "pool_slots")
Holder = Literal["triggerer", "worker"]
_HOLDERS = get_args(Holder)
_DEFAULT_POOL = "default_pool"


@apply_default_args
def copy_table(  # noqa: D417 - an entry for all options
    *,
    group_id: str | None = None,
    partitions_per_task: int = 1,
    workers: int | None = None,
    recopy: bool | None = None,
    approve: Approvable | Sequence[Approvable] = (),
    response_timeout: timedelta | None = None,
    snapshot_holder: Holder = "triggerer",
    deferrable: bool = True,
    await_snapshot: float = AWAIT_SNAPSHOT,
    outlet: Any = None,
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
    snapshot: option.Snapshot | None = None,
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
    degree: int | str = DEGREE,
    max_rate: int | option.Text | None = None,
    max_lag: float | option.Text | None = None,
    attempts: int | option.Text | None = None,
    on_error: option.OnError | option.Returned = "stop",
    stall_timeout: float | option.Text = 600.0,
    grace: float | option.Text = 10.0,
    stale_after: float | option.Text = 86400.0,
    verify: option.Verify | option.Returned = "none",
    control_schema: str = "penstock",
    show_values: option.ShowValues | option.Returned | None = None,
    # end of options
    **kwargs: Any,
) -> TaskGroup:
    """Create a task group that copies one table.

    Its tasks are `prepare`, `plan`, `copy` with a mapped task per partition, `verify`, and
    `release`, a teardown that fails unless every partition is committed. With `workers`, `copy` has
    that many mapped tasks, which take the partitions one after the other.

    With `snapshot="shared"`, another task, `snapshot`, holds a snapshot of the source until no task
    needs it. That is the default, except in mode `replace` with `where`, because a past range of
    dates does not change while it is copied.

    If the arguments ask for a single partition (`strategy="whole"` or `partitions=1`), the group
    has one task, `copy`, a `CopyTableOperator`.

    Args:
        source_conn_id, target_conn_id: Airflow connections to databases.
        source, target: URLs without secrets, such as `s3://bucket/day={{ ds }}/`, or paths that are
            the same on every worker, instead of connections.
        source_aws_conn_id, target_aws_conn_id: for `s3://` URLs, Airflow connections of type `aws`
            with the keys; by default the machine that runs a task finds its own.
        group_id: the group's id; by default the name of the target's table.
        degree: how many mapped tasks of this group run at once in one DAG run; with `workers`, the
            concurrent streams of each of them.
        partitions_per_task: partitions that one mapped task copies, one after the other.
        workers: how many mapped tasks share the partitions, on any machines: each takes one that no
            other is copying, until none is left, and the last one ends the run. None to deal the
            partitions out beforehand.
        recopy: whether clearing a task copies again what it has committed. By default a single
            partition is copied again in modes replace and upsert, and a whole run in every mode but
            append.
        approve: `drift` and `deletes`, or one of them: what a person is asked to approve, before
            columns of the target are changed that `on_drift` does not permit, or more rows are
            deleted than `deletes` permits. By default the run fails then.
        response_timeout: how long to wait for the answer; None for ever.
        snapshot_holder: `triggerer`, or `worker`, which occupies a worker slot for the whole copy.
        deferrable: False is the same as `snapshot_holder="worker"`. The copies themselves move
            rows, so they cannot be deferred.
        await_snapshot: seconds that a copy waits for the snapshot's holder.
        outlet: the `Asset` that gets an event for each run; by default the table's `AssetAlias`.
        attempts: attempts per partition within one try of a task. By default 1 in mapped tasks,
            which Airflow retries, and 5 if one task copies the table.
        snapshot: by default `none` in mode `replace` with `where`, otherwise `shared`.
        table, target_table, mode, strategy, key, where ...: the options of a copy, as in
            `penstock.CopySpec`.
        kwargs: arguments of every operator, such as `retries`, `retry_delay` and `queue`. `pool`,
            `pool_slots` and `execution_timeout` apply to the mapped tasks alone.

    Raises:
        UsageError: an argument is wrong, or conflicts with another.
    """
    options, endpoints = options_of(locals()), endpoint_arguments(locals())
    if group_id is None:
        group_id = _default_id(options)
    with table_in_errors(options, group_id):
        check_arguments(
            kwargs,
            known=parameters_of(copy_table, BaseOperator),
            # Of a group, `degree` means something else.
            options=non_default_options({**options, "degree": None}),
            endpoints=endpoints,
            others=[
                *_wrong_settings(snapshot_holder, degree),
                *approval_mistakes(approve),
                *_wrong_workers(workers, partitions_per_task, approve, options),
            ],
        )
    if snapshot is None:
        options["snapshot"] = _default_snapshot(options)
    if _is_single_partition(options):
        with table_in_errors(options, group_id), TaskGroup(group_id=group_id) as group:
            _single_task(
                "copy",
                **endpoints,
                recopy=recopy,
                approve=approve,
                response_timeout=response_timeout,
                outlet=outlet,
                **options,
                **kwargs,
            )
        return group
    with table_in_errors(options, group_id), TaskGroup(group_id=group_id) as group:
        _mapped_tasks(
            endpoints,
            options,
            kwargs,
            partitions_per_task=partitions_per_task,
            workers=workers,
            recopy=recopy,
            approval={"approve": approve, "response_timeout": response_timeout},
            deferrable=deferrable and snapshot_holder == "triggerer",
            await_snapshot=await_snapshot,
            outlet=outlet,
        )
    return group


def _wrong_settings(snapshot_holder: Any, degree: Any) -> Iterator[str]:
    """Yield what is wrong with settings that only a group has."""
    if snapshot_holder not in _HOLDERS:
        yield f"snapshot_holder: expected one of {', '.join(_HOLDERS)}; found {snapshot_holder!r}"
    if not isinstance(degree, int) or degree < 1:
        yield (
            "degree: expected the number of mapped tasks that run at once, at least 1; found "
            f"{degree!r}"
        )


def _wrong_workers(
    workers: Any, partitions_per_task: Any, approve: Any, options: Mapping[str, Any]
) -> Iterator[str]:
    """Yield why mapped tasks cannot share the partitions of a group."""
    if workers is None:
        return
    yield from worker_mistakes(workers, partitions_per_task)
    if _is_single_partition(options):
        cause = (
            "partitions=1"
            if options.get("partitions") == 1
            else f'strategy="{options["strategy"]}"'
        )
        yield f"workers: expected several partitions to share, found one ({cause}); remove workers"
    if isinstance(approve, Iterable) and "deletes" in approvals_of(approve):
        yield (
            "workers, approve: a worker ends the run, and cannot wait for a person's approval of "
            'deletes; remove workers, or "deletes" from approve'
        )


def _mapped_tasks(
    endpoints: Mapping[str, Any],
    options: Mapping[str, Any],
    kwargs: dict[str, Any],
    *,
    partitions_per_task: int,
    workers: int | None,
    recopy: bool | None,
    approval: Mapping[str, Any],
    deferrable: bool,
    await_snapshot: float,
    outlet: Any,
) -> None:
    """Create the tasks of a group whose partitions mapped tasks copy.

    Args:
        endpoints: the result of `endpoint_arguments`.
        options: options of the copy.
        kwargs: arguments of every operator.
        deferrable: whether the triggerer holds the snapshot.
        partitions_per_task: as in `copy_table`.
        workers: as in `copy_table`.
        recopy: as in `copy_table`.
        approval: `approve` and `response_timeout`.
        await_snapshot: as in `copy_table`.
        outlet: as in `copy_table`.
    """
    target_arguments = {name: endpoints[name] for name in TARGET_ARGUMENTS}
    copy_arguments = {name: kwargs.pop(name) for name in _COPY_ARGUMENTS if name in kwargs}
    schema = options["control_schema"]
    on_snapshot_lost = options["on_snapshot_lost"]
    if outlet is None:
        outlet = _outlet(endpoints, options)
    streams = options["degree"]
    if workers is not None:
        # Enough partitions for all of them.
        options = {**options, "degree": workers * streams}
    prepare = PrepareCopyOperator(
        task_id="prepare", **endpoints, recopy=recopy, **approval, **options, **kwargs
    )
    run_id = prepare.output
    plan = PlanCopyOperator(
        task_id="plan",
        **target_arguments,
        run_id=run_id,
        partitions_per_task=partitions_per_task,
        workers=workers,
        control_schema=schema,
        **kwargs,
    )
    arguments = {
        "task_id": "copy",
        **endpoints,
        "control_schema": schema,
        "await_snapshot": await_snapshot,
        "on_snapshot_lost": on_snapshot_lost,
        **kwargs,
        **copy_arguments,
    }
    if workers is None:
        mapped = CopyPartitionOperator.partial(
            max_active_tis_per_dagrun=streams,
            recopy=recopy,
            # Set it here, because `degree` in the DAG's default_args is meant for the group.
            degree=1,
            attempts=options["attempts"] or 1,
            **arguments,
        )
    else:
        mapped = CopyWorkerOperator.partial(
            max_active_tis_per_dagrun=workers,
            degree=streams,
            attempts=options["attempts"] or 5,
            **arguments,
        )
    copy = mapped.expand(partition=plan.output)
    verify = VerifyCopyOperator(
        task_id="verify",
        **endpoints,
        run_id=run_id,
        copied=copy.output,
        degree=streams,
        control_schema=schema,
        await_snapshot=await_snapshot,
        on_snapshot_lost=on_snapshot_lost,
        outlet=outlet,
        **approval,
        **kwargs,
    )
    copy >> verify
    if options["snapshot"] == "shared":
        HoldSnapshotOperator(
            task_id="snapshot",
            **endpoints,
            run_id=run_id,
            control_schema=schema,
            deferrable=deferrable,
            on_snapshot_lost=on_snapshot_lost,
            # Not the pool of the DAG's tasks, which copies may fill that wait for this task.
            pool=_DEFAULT_POOL,
            **kwargs,
        )
    release = ReleaseSnapshotOperator(
        task_id="release",
        **target_arguments,
        run_id=run_id,
        control_schema=schema,
        **kwargs,
    ).as_teardown()
    [copy, verify] >> release


def _default_snapshot(options: Mapping[str, Any]) -> str:
    mode = MODES.get(str(options.get("mode")))
    by_partition = mode is not None and mode.entry is Entry.REPLACE
    return "none" if by_partition and options.get("where") else "shared"


@apply_default_args
def copy_tables(  # noqa: D417 - an entry for all options
    tables: Iterable[str | Mapping[str, Any]] = (),
    *,
    file: str | os.PathLike[str] | None = None,
    mapped: bool = False,
    partitions_per_task: int = 1,
    workers: int | None = None,
    recopy: bool | None = None,
    approve: Approvable | Sequence[Approvable] = (),
    response_timeout: timedelta | None = None,
    snapshot_holder: Holder = "triggerer",
    deferrable: bool = True,
    await_snapshot: float = AWAIT_SNAPSHOT,
    outlet: Any = None,
    # options without table, target_table, query, schema_only: scripts/option_arguments.py
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
    snapshot: option.Snapshot | None = None,
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
    degree: int | str = DEGREE,
    max_rate: int | option.Text | None = None,
    max_lag: float | option.Text | None = None,
    attempts: int | option.Text | None = None,
    on_error: option.OnError | option.Returned = "stop",
    stall_timeout: float | option.Text = 600.0,
    grace: float | option.Text = 10.0,
    stale_after: float | option.Text = 86400.0,
    verify: option.Verify | option.Returned = "none",
    control_schema: str = "penstock",
    show_values: option.ShowValues | option.Returned | None = None,
    # end of options
    **kwargs: Any,
) -> list[TaskGroup | CopyTableOperator]:
    """Create one task for each table, or a group of mapped tasks for each big one.

    A single task (`CopyTableOperator`) also partitions its table, and copies up to `degree`
    partitions at once. A group shows each partition in the grid, and retries it alone.

    Args:
        tables: the name of each table, or its arguments for `copy_table` as a mapping, in which
            `group_id` is also the id of a single task.
        file: the path of a file of many tables, `penstock.toml`, instead of `tables`; each table
            that a section names gets a task. Its source and target apply unless the call names
            others; options of the call override its options for all tables.
        mapped: whether tables get a group (`copy_table`); a table's own `mapped` overrides it.
        degree: for a group as in `copy_table`; for a single task, its concurrent streams.
        partitions_per_task, recopy, approve, response_timeout: as in `copy_table`, for all tables;
            a table's own override them.
        snapshot_holder, deferrable, await_snapshot, outlet: likewise.
        workers: as in `copy_table`, for all groups; a table's own overrides it.
        source_conn_id, source, source_aws_conn_id, target_conn_id, target, target_aws_conn_id: as
            in `copy_table`, for all tables; a table's own override them.
        mode, strategy, key, where ...: the options of a copy, as in `penstock.CopySpec`, for all
            tables; a table's own override them.
        kwargs: arguments of every operator, for all tables.

    Raises:
        UsageError: an argument is wrong, or conflicts with another.
    """
    options, endpoints = options_of(locals()), endpoint_arguments(locals())
    if file is not None:
        if tables:
            raise UsageError("tables, file: found both; pass either tables or file")
        endpoints = endpoints_of_file(os.fspath(file), endpoints)
        options_of_file = {
            name: value for name, value in non_default_options(options).items() if name != "degree"
        }
        tables = tables_of_file(os.fspath(file), endpoints, options_of_file)
    common = {
        **options,
        **endpoints,
        **kwargs,
        "recopy": recopy,
        "approve": approve,
        "response_timeout": response_timeout,
        "outlet": outlet,
    }
    group_arguments = {
        "partitions_per_task": partitions_per_task,
        "workers": workers,
        "snapshot_holder": snapshot_holder,
        "deferrable": deferrable,
        "await_snapshot": await_snapshot,
    }
    check_arguments(
        kwargs, known=parameters_of(copy_tables, BaseOperator), options=non_default_options(options)
    )
    tasks: list[TaskGroup | CopyTableOperator] = []
    all_tables = list(_table_arguments(tables))
    if workers is not None and not any(table.get("mapped", mapped) for table in all_tables):
        raise UsageError("workers: expected mapped=True, of all tables or of one; found none")
    for table in all_tables:
        arguments = {"mapped": mapped, **group_arguments, **common, **table}
        is_group = arguments.pop("mapped")
        alone = "workers: expected mapped=True beside it, since one task copies the table"
        with table_in_errors(table):
            check_arguments(
                table,
                known=parameters_of(copy_table, BaseOperator) | {"mapped"},
                others=[alone] if table.get("workers") is not None and not is_group else (),
            )
        if is_group:
            tasks.append(copy_table(**arguments))
            continue
        name = arguments.pop("group_id", None) or _default_id(arguments)
        for unused in group_arguments:
            arguments.pop(unused)
        tasks.append(_single_task(name, **arguments))
    return tasks


def _table_arguments(tables: Iterable[str | Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
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


def _single_task(task_id: str, *, outlet: Any = None, **arguments: Any) -> CopyTableOperator:
    """Create the single task of a table.

    Args:
        task_id: the id of the task.
        outlet: as in `copy_table`.
        arguments: further arguments of the operator.
    """
    if outlet is None:
        outlet = _outlet(arguments, arguments)
    return CopyTableOperator(task_id=task_id, outlet=outlet, **arguments)


def _outlet(endpoints: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """Return an alias of the target's table."""
    target = Endpoint("target", *(endpoints.get(name) for name in TARGET_ARGUMENTS))
    return alias_of(target, options.get("target_table") or options.get("table"))


def _default_id(options: Mapping[str, Any]) -> str:
    table = options.get("target_table") or options.get("table") or "copy"
    return str(table).replace(".", "_").replace('"', "")


def _is_single_partition(options: Mapping[str, Any]) -> bool:
    """Whether the options ask for exactly one partition."""
    strategy = STRATEGIES.get(str(options.get("strategy")))
    return (strategy is not None and strategy.leaves_whole) or options.get("partitions") == 1
