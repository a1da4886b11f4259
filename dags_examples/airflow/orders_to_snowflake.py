"""A table of PostgreSQL in Snowflake, exchanged every night while people read it.

The partitions, which all read one snapshot of the source, go as Parquet files onto a stage, and
from there into a table beside the old one. `verify` compares the rows' counts, then the two are
exchanged in one step (`SWAP WITH`): the new table has the old one's grants. If anything fails
before that, the old table stays.

It needs `pip install 'penstock[snowflake]'`. The connection `snowflake` is of the type `snowflake`,
with account, database and warehouse in Extra, as Airflow's own hook has them.
"""

from datetime import datetime, timedelta

from airflow.sdk import DAG

from penstock_airflow import copy_table

with DAG(
    "orders_to_snowflake",
    schedule="@daily",
    start_date=datetime(2026, 1, 1),
    catchup=False,
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
        # A partition makes some 40 statements there: few large ones are best.
        bytes_per_partition="1GB",
        degree=4,
        retries=3,
        retry_delay=timedelta(seconds=30),
    )
