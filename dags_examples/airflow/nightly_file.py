"""The tables of a file, penstock.toml, every night: each in its own way, all as of one moment.

The file has no word of Airflow: `penstock copy-all` copies the same tables. It is read without a
connection to a database, and each table has an asset with an event for each night.
"""

from datetime import datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG

from penstock_airflow import CopyAllOperator

with DAG(
    "nightly_file",
    schedule="@daily",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(seconds=30)},
    tags=["penstock"],
):
    CopyAllOperator(
        task_id="shop",
        file=Path(__file__).with_name("penstock.toml"),
        # Instead of the file's own, which are environment variables.
        source_conn_id="pg_src",
        target_conn_id="pg_dst",
    )
