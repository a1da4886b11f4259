"""A full refresh in one step: readers see the old table or the new one, never half of each.

The rows go into a new table beside the old one, in partitions that all read one snapshot of the
source. `verify` compares both sides while the snapshot is still held, builds the indexes, and
renames the new table into the old one's place. If anything fails before that, the old table stays.
"""

from datetime import datetime, timedelta

from airflow.sdk import DAG

from penstock_airflow import copy_table

with DAG(
    "full_refresh_with_swap",
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
        verify="counts",
        partitions="64MB",
        partitions_per_task=4,
        degree=4,
        retries=2,
        retry_delay=timedelta(seconds=30),
    )
