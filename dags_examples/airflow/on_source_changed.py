"""Copies that start when something is new in the source, rather than by the clock.

The triggerer looks every minute, and reads no row. A night starts once PostgreSQL has counted a
write to the table that no night has read; a load starts once a file is new, or was written again.
"""

import os
from datetime import datetime, timedelta

from airflow.sdk import DAG, Asset, AssetWatcher

from penstock_airflow import CopyTableOperator, SourceChangedTrigger, copy_table

# The same files on each worker, and in the triggerer; or s3://bucket/in/, with a connection.
RATES = os.environ.get("RATES", "/srv/in/*.csv")
ORDERS = Asset(
    "orders_changed",
    watchers=[
        AssetWatcher(
            name="orders",
            trigger=SourceChangedTrigger(
                source_conn_id="pg_src", target_conn_id="pg_dst", table="public.orders"
            ),
        )
    ],
)
FILES = Asset(
    "rates_arrived",
    watchers=[AssetWatcher(name="rates", trigger=SourceChangedTrigger(source=RATES))],
)
DEFAULTS = {"retries": 2, "retry_delay": timedelta(seconds=30), "target_conn_id": "pg_dst"}

with DAG(
    "orders_when_changed",
    schedule=[ORDERS],
    start_date=datetime(2026, 1, 1),
    max_active_runs=1,
    default_args=DEFAULTS,
    tags=["penstock"],
):
    copy_table(
        group_id="orders",
        source_conn_id="pg_src",
        table="public.orders",
        mode="upsert",
        incremental="xmin",
        deletes="hard,10%,1000",
        # A person decides, if columns have changed or more rows are gone.
        approve=["drift", "deletes"],
    )

with DAG(
    "rates_when_arrived",
    schedule=[FILES],
    start_date=datetime(2026, 1, 1),
    max_active_runs=1,
    default_args=DEFAULTS,
    tags=["penstock"],
):
    CopyTableOperator(task_id="rates", source=RATES, target_table="public.rates", mode="recreate")
