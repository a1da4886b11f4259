"""A PostgreSQL table copied to ClickHouse, recreated every night.

The rows go into a table beside the old one, ordered by the source's primary key; all partitions
read one snapshot of the source. `verify` compares checksums of both sides, then renames the new
table into the old one's place. If anything fails before that, the old table stays.

It needs `pip install './core[clickhouse]'`. The connection `clickhouse` has the type
`clickhouse`, and its Port is that of HTTP.
"""

from datetime import datetime, timedelta

from airflow.sdk import DAG

from penstock_airflow import copy_table

with DAG(
    "orders_to_clickhouse",
    schedule="@daily",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    tags=["penstock"],
):
    copy_table(
        group_id="orders",
        source_conn_id="pg_src",
        table="public.orders",
        target_conn_id="clickhouse",
        target_table="shop.orders",
        mode="recreate",
        verify="checksums",
        partitions="256MB",
        degree=4,
        retries=3,
        retry_delay=timedelta(seconds=30),
    )
