"""A copy of each night's changes, after which the target equals the source as of one moment.

No column marks changes, and no `where` names the day: the target stores how far the source has been
read. Clear any night, or run it again: it copies the changes since the latest night.
"""

from datetime import datetime, timedelta

from airflow.sdk import DAG

from penstock_airflow import CopyAllOperator, copy_table

NIGHT = {
    "source_conn_id": "pg_src",
    "target_conn_id": "pg_dst",
    "mode": "upsert",
    "incremental": "xmin",
    "deletes": "hard,10%,1000",
    "full_every": "30d",
}

with DAG(
    "nightly_increment",
    schedule="@daily",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(seconds=30)},
    tags=["penstock"],
):
    copy_table(group_id="lineitem", table="public.lineitem", degree=4, **NIGHT)
    CopyAllOperator(
        task_id="others",
        tables=["public.customer", "public.orders"],
        # Both change in the same moment, or neither does.
        atomic="batch",
        **NIGHT,
    )
