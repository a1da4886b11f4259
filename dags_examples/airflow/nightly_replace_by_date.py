"""A nightly copy of yesterday's orders, which replace those of the same day in the target.

Each range of the key is a mapped task of its own: it deletes the target's rows of that day and
range and loads them again, in one transaction. Running one range or the whole day again leaves the
same target.
"""

from datetime import datetime, timedelta

from airflow.sdk import DAG, CronDataIntervalTimetable

from penstock_airflow import copy_table

with DAG(
    "nightly_replace_by_date",
    # In Airflow 3, "@daily" alone has no data interval.
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
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
        key="o_orderkey",
        partitions=6,
        where=(
            "o_orderdate >= '{{ data_interval_start | ds }}' "
            "AND o_orderdate < '{{ data_interval_end | ds }}'"
        ),
        degree=4,
        retries=3,
        retry_delay=timedelta(seconds=30),
    )
