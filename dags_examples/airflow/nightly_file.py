"""The tables of a file, penstock.toml, copied every night, each with its own options.

All tables are read as of one moment. The file does not mention Airflow: `penstock copy-all` copies
the same tables. Parsing the DAG needs no connection to a database, and each table has an asset with
an event for each night.
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
        # These replace the file's own connections, which are environment variables.
        source_conn_id="pg_src",
        target_conn_id="pg_dst",
    )
