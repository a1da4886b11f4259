"""A big table, copied by eight workers on as many machines as the executor has.

The plan has 200 partitions, and Airflow eight tasks: each takes a partition that
no other is copying, and then the next, so a fast machine copies more than a slow one. If a machine
is lost, the others copy what it was copying. The last worker builds the indexes, and renames the
new table into the old one's place.
"""

from datetime import datetime, timedelta

from airflow.sdk import DAG

from penstock_airflow import copy_table

with DAG(
    "many_machines",
    schedule="@weekly",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    tags=["penstock"],
):
    copy_table(
        group_id="lineitem",
        source_conn_id="pg_src",
        target_conn_id="pg_dst",
        table="public.lineitem",
        mode="swap",
        indexes="defer",
        partitions=200,
        workers=8,
        degree=2,
        retries=2,
        retry_delay=timedelta(seconds=30),
    )
