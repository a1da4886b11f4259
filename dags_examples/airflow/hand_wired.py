"""Operators connected by hand, with a pool of their own for the copies of partitions.

`copy_table` does the same. By hand, you can add your own tasks in between: here, one that checks
the plan, and fails the DAG run if it is larger than expected.
"""

from datetime import datetime

from airflow.sdk import DAG, task

from penstock_airflow import (
    CopyPartitionOperator,
    HoldSnapshotOperator,
    PlanCopyOperator,
    PrepareCopyOperator,
    ReleaseSnapshotOperator,
    VerifyCopyOperator,
)

ENDS = {"source_conn_id": "pg_src", "target_conn_id": "pg_dst"}

with DAG(
    "hand_wired",
    schedule=None,
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    tags=["penstock"],
):
    prepare = PrepareCopyOperator(
        task_id="prepare",
        **ENDS,
        table="public.orders",
        mode="truncate",
        strategy="hash",
        key="o_orderkey",
        partitions=4,
    )
    plan = PlanCopyOperator(task_id="plan", target_conn_id="pg_dst", run_id=prepare.output)

    @task
    def not_too_many(partitions: list) -> list:
        if len(partitions) > 100:
            raise ValueError(f"expected at most 100 mapped tasks, found {len(partitions)}")
        return partitions

    copy = CopyPartitionOperator.partial(
        task_id="copy", **ENDS, retries=3, max_active_tis_per_dagrun=2, pool="default_pool"
    ).expand(partition=not_too_many(plan.output))
    verify = VerifyCopyOperator(task_id="verify", **ENDS, run_id=prepare.output, copied=copy.output)

    # One snapshot for all copies, held beside them until none of them needs it.
    HoldSnapshotOperator(task_id="snapshot", **ENDS, run_id=prepare.output)
    release = ReleaseSnapshotOperator(
        task_id="release", target_conn_id="pg_dst", run_id=prepare.output
    ).as_teardown()

    copy >> verify >> release
    copy >> release
