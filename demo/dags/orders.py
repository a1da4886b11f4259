"""The DAG that `make demo` runs in Airflow."""

from datetime import datetime, timedelta

from airflow.sdk import DAG

from penstock_airflow import copy_table

with DAG("demo_orders", schedule=None, start_date=datetime(2026, 1, 1)):
    copy_table(
        group_id="orders",
        source_conn_id="pg_src",
        target_conn_id="pg_dst",
        table="public.orders",
        mode="truncate",
        strategy="range",
        key="o_orderkey",
        partitions=6,
        verify="counts",
        retries=2,
        retry_delay=timedelta(seconds=1),
    )
