"""All tables of a schema in one task: one snapshot, one pool of streams, an event per table."""

from datetime import datetime, timedelta

from airflow.sdk import DAG

from penstock_airflow import CopyAllOperator

with DAG(
    "whole_schema",
    schedule="@daily",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    default_args={
        "source_conn_id": "pg_src",
        "target_conn_id": "pg_dst",
        "mode": "truncate",
        "retries": 2,
        "retry_delay": timedelta(seconds=30),
    },
    tags=["penstock"],
):
    CopyAllOperator(
        task_id="shop",
        # Patterns, and tables with options of their own.
        tables=[
            "public.*",
            {"table": "public.orders", "mode": "upsert", "conflict_columns": ["o_orderkey"]},
        ],
        exclude=["tmp_*"],
        degree=4,
    )
