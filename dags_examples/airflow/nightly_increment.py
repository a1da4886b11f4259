"""Every night, what has changed: the target then equals the source as of one moment.

No column says what has changed, and no `where` names the day: the target keeps how far the source
was read. Clear any night, or run it again: it brings what has changed since the latest one.
"""

from datetime import datetime, timedelta

from airflow.sdk import DAG

from penstock_airflow import CopyAllOperator, copy_table

NIGHT = {
    "source_conn_id": "pg_src",
    "target_conn_id": "pg_dst",
    "mode": "upsert",
    "incremental": "xmin",
    "deletes": "hard",
    "max_deletes": "10%,1000",
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
        # Both change in the same moment, or neither.
        atomic="batch",
        **NIGHT,
    )
