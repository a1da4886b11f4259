"""Many tables: one task for each, and a group of mapped tasks for each big one."""

from datetime import datetime, timedelta

from airflow.sdk import DAG

from penstock_airflow import copy_tables

BIG = ["lineitem", "orders"]
SMALL = ["customer", "nation", "region", "supplier"]

with DAG(
    "many_tables",
    schedule="@daily",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(seconds=30)},
    tags=["penstock"],
):
    copy_tables(
        [
            *({"table": f"public.{name}", "group_id": name, "mapped": True} for name in BIG),
            *({"table": f"public.{name}", "group_id": name} for name in SMALL),
        ],
        source_conn_id="pg_src",
        target_conn_id="pg_dst",
        mode="truncate",
        degree=2,
    )
