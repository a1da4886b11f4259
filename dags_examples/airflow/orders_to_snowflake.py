"""A PostgreSQL table copied to Snowflake, swapped in every night while people read it.

All partitions read one snapshot of the source. They go to a stage as Parquet files, and from there
into a table beside the old one. `verify` compares row counts, then swaps the two tables in one step
(`SWAP WITH`); the new table has the old one's grants. If anything fails before that, the old table
stays.

It needs `pip install './core[snowflake]'`. The connection `snowflake` has the type `snowflake`,
with account, database and warehouse in Extra, as for Airflow's own hook.
"""

from datetime import datetime, timedelta

from airflow.sdk import DAG

from penstock_airflow import copy_table

with DAG(
    "orders_to_snowflake",
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
        target_conn_id="snowflake",
        target_table="shop.orders",
        mode="swap",
        verify="counts",
        # Each partition runs some 40 statements there, so a few large ones are best.
        partitions="1GB",
        degree=4,
        retries=3,
        retry_delay=timedelta(seconds=30),
    )
