"""Many tables: a group of mapped tasks for each big one, one task for each small one."""

from datetime import datetime, timedelta

from airflow.sdk import DAG, TaskGroup

from penstock_airflow import CopyTableOperator, copy_tables

BIG = ["lineitem", "orders"]
SMALL = ["customer", "nation", "region", "supplier"]

with DAG(
    "many_tables",
    schedule="@daily",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=30)},
    tags=["penstock"],
):
    copy_tables(
        [{"table": f"public.{name}", "group_id": name} for name in BIG],
        source_conn_id="pg_src",
        target_conn_id="pg_dst",
        mode="truncate",
        degree=2,
    )
    with TaskGroup("small"):
        for name in SMALL:
            CopyTableOperator(
                task_id=name,
                source_conn_id="pg_src",
                target_conn_id="pg_dst",
                table=f"public.{name}",
                mode="truncate",
                degree=1,
            )
