"""Every night, yesterday's orders replace what the target has of that day.

Each window of an hour, or whatever `interval` says, is a mapped task of its own: it deletes the rows
of its window in the target and loads them again, in one transaction. Run again, for one window or for
the whole day, the target is the same.
"""

from datetime import datetime, timedelta

from airflow.sdk import DAG

from penstock_airflow import copy_table

with DAG(
    "nightly_replace_by_date",
    schedule="@daily",
    start_date=datetime(1995, 1, 1),
    catchup=False,
    tags=["penstock"],
):
    copy_table(
        group_id="orders",
        source_conn_id="pg_src",
        target_conn_id="pg_dst",
        table="public.orders",
        mode="replace",
        strategy="range",
        key="o_orderdate",
        where=(
            "o_orderdate >= '{{ data_interval_start | ds }}' "
            "AND o_orderdate < '{{ data_interval_end | ds }}'"
        ),
        degree=4,
        retries=3,
        retry_delay=timedelta(seconds=30),
    )
