"""Task groups: the operators, wired."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from airflow.providers.common.compat.sdk import TaskGroup

from penstock import MODES, STRATEGIES, UsageError
from penstock_airflow.assets import alias_of
from penstock_airflow.copy_partition import AWAIT_SNAPSHOT, CopyPartitionOperator
from penstock_airflow.copy_table_operator import CopyTableOperator
from penstock_airflow.ends import End
from penstock_airflow.hold import HoldSnapshotOperator, ReleaseSnapshotOperator
from penstock_airflow.options import split
from penstock_airflow.plan import PlanCopyOperator
from penstock_airflow.prepare import PrepareCopyOperator
from penstock_airflow.verify import VerifyCopyOperator

DEGREE = 4
# Arguments that are meant for the mapped tasks: the others take a moment.
_OF_COPIES = ("execution_timeout", "pool", "pool_slots")
_HOLDERS = ("triggerer", "worker")
# As `End` takes them.
_TARGET = ("target_conn_id", "target", "target_aws_conn_id")


def copy_table(
    *,
    source_conn_id: str | None = None,
    source: str | None = None,
    source_aws_conn_id: str | None = None,
    target_conn_id: str | None = None,
    target: str | None = None,
    target_aws_conn_id: str | None = None,
    group_id: str | None = None,
    degree: int = DEGREE,
    partitions_per_task: int = 1,
    recopy: bool | None = None,
    snapshot_holder: str = "triggerer",
    await_snapshot: float = AWAIT_SNAPSHOT,
    outlet: Any = None,
    **arguments: Any,
) -> TaskGroup:
    """A task group that copies one table: prepare, plan, one mapped task per partition, verify.

    With `snapshot="shared"` two more tasks keep one snapshot of the source open for all of them, as
    long as one needs it. That is the default, but for mode `replace` with a `where`: a closed range
    of dates does not change while it is copied.

    A table that is told to be one partition (`strategy="whole"`, `partitions=1`) is copied by one
    task, `copy`, a `CopyTableOperator`: there is nothing to spread, and nobody to share with.

    Parameters:
        source_conn_id, target_conn_id: Airflow connections to databases.
        source, target: in their place URLs without secrets, such as `s3://bucket/day={{ ds }}/`,
            or paths, which mean the same on every worker.
        source_aws_conn_id, target_aws_conn_id: beside URLs of S3, Airflow connections of type `aws`
            with the keys; by default they are found where a task runs.
        group_id: by default the name of the target's table.
        degree: mapped tasks of this group that run at once, of one DAG run.
        partitions_per_task: partitions that one mapped task copies, one after the other.
        recopy: whether what is committed is copied again when its task is cleared. By default a
            single partition is in modes replace and upsert, and a whole run in all but append.
        snapshot_holder: `triggerer`, or `worker`, which takes a slot of its own for the whole copy.
        await_snapshot: seconds that a copy waits for the snapshot's holder.
        outlet: the `Asset` that gets an event for each run; by default an alias of the table.
        arguments: the options of a copy, as `penstock.CopySpec` has them: `table`, `target_table`,
            `mode`, `strategy`, `key`, `where` ...; and those of every operator: `retries`,
            `retry_delay`, `queue` ... (`pool`, `pool_slots` and `execution_timeout` are for the
            mapped tasks).

    Raises:
        UsageError: arguments that cannot be right.
    """
    options, of_tasks = split(arguments)
    if snapshot_holder not in _HOLDERS:
        raise UsageError(
            f"snapshot_holder: expected one of {', '.join(_HOLDERS)}; found {snapshot_holder!r}"
        )
    if degree < 1:
        raise UsageError(f"degree: expected at least 1 mapped task at once, found {degree!r}")
    options.setdefault("snapshot", _default_snapshot(options))
    options["degree"] = degree  # planning makes some partitions for each stream
    target_table = options.get("target_table") or options.get("table")
    if group_id is None:
        group_id = _name_of(options)
    schema = options.get("control_schema", "penstock")
    of_target = {
        "target_conn_id": target_conn_id,
        "target": target,
        "target_aws_conn_id": target_aws_conn_id,
    }
    ends = {
        "source_conn_id": source_conn_id,
        "source": source,
        "source_aws_conn_id": source_aws_conn_id,
        **of_target,
    }
    if _is_whole(options):
        with TaskGroup(group_id=group_id) as group:
            _one_task("copy", **ends, recopy=recopy, outlet=outlet, **options, **of_tasks)
        return group
    end = End("target", target_conn_id, target, target_aws_conn_id)
    of_copies = {name: of_tasks.pop(name) for name in _OF_COPIES if name in of_tasks}
    lost = options.get("on_snapshot_lost")
    with TaskGroup(group_id=group_id) as group:
        prepare = PrepareCopyOperator(
            task_id="prepare", **ends, recopy=recopy, **options, **of_tasks
        )
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
            max_active_tis_per_dagrun=degree,
            **ends,
            control_schema=schema,
            recopy=recopy,
            attempts=options.get("attempts", 1),
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
            degree=degree,
            control_schema=schema,
            await_snapshot=await_snapshot,
            on_snapshot_lost=lost,
            outlet=outlet if outlet is not None else alias_of(end, target_table),
            **of_tasks,
        )
        copy >> verify
        if options["snapshot"] == "shared":
            HoldSnapshotOperator(
                task_id="snapshot",
                **ends,
                run_id=run_id,
                control_schema=schema,
                deferrable=snapshot_holder == "triggerer",
                on_snapshot_lost=lost,
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
    return group


def _default_snapshot(options: Mapping[str, Any]) -> str:
    mode = MODES.get(str(options.get("mode")))
    by_partition = mode is not None and mode.deletes_by_partition
    return "none" if by_partition and options.get("where") else "shared"


def copy_tables(
    tables: Iterable[Mapping[str, Any]], *, mapped: bool = False, **common: Any
) -> list[TaskGroup | CopyTableOperator]:
    """One task for each table, or one group of mapped tasks for each that is big.

    One task (`CopyTableOperator`) cuts its table into partitions and copies them in up to `degree`
    streams: how many there are is settled when it runs. What a group adds to that is partitions
    that are seen in the grid, and retried, one by one.

    Parameters:
        tables: what `copy_table` takes, for each; `group_id` is then the name of the one task.
        mapped: whether a table has a group (`copy_table`); a table's own entry comes first.
        common: what `copy_table` takes, for all; a table's own arguments come first.
    """
    made: list[TaskGroup | CopyTableOperator] = []
    for table in tables:
        arguments = {"mapped": mapped, **common, **table}
        if arguments.pop("mapped"):
            made.append(copy_table(**arguments))
            continue
        name = arguments.pop("group_id", None) or _name_of(arguments)
        for of_groups in ("partitions_per_task", "snapshot_holder", "await_snapshot"):
            arguments.pop(of_groups, None)
        made.append(_one_task(name, **{"degree": DEGREE, **arguments}))
    return made


def _one_task(task_id: str, *, outlet: Any = None, **arguments: Any) -> CopyTableOperator:
    """
    Parameters:
        outlet: as of `copy_table`.
    """
    end = End("target", *(arguments.get(name) for name in _TARGET))
    if outlet is None:
        outlet = alias_of(end, arguments.get("target_table") or arguments.get("table"))
    return CopyTableOperator(task_id=task_id, outlet=outlet, **arguments)


def _name_of(options: Mapping[str, Any]) -> str:
    named = options.get("target_table") or options.get("table") or "copy"
    return str(named).replace(".", "_").replace('"', "")


def _is_whole(options: Mapping[str, Any]) -> bool:
    """Whether there is one partition, whatever the table holds."""
    strategy = STRATEGIES.get(str(options.get("strategy")))
    return (strategy is not None and strategy.leaves_whole) or options.get("partitions") == 1
