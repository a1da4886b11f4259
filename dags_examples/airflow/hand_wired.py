"""The operators, wired by hand: the copies of each partition have a pool of their own.

This is what `copy_table` does. Wired by hand, a task of yours can come between: here one that looks
at the plan, and ends the DAG's run where it is larger than it should be.
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

    # One snapshot for all of them, held beside them for as long as one of them needs it.
    HoldSnapshotOperator(task_id="snapshot", **ENDS, run_id=prepare.output)
    release = ReleaseSnapshotOperator(
        task_id="release", target_conn_id="pg_dst", run_id=prepare.output
    ).as_teardown()

    copy >> verify >> release
    copy >> release
