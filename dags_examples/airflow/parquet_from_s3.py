"""Parquet files on S3 copied into a table; a partition is part of a large file, or several files.

Planning reads only the files' footers. Mapped tasks read their own row groups, on any worker.
`verify` counts the rows on both sides, and checks that the files are still those of the plan: a
file added or rewritten during the copy fails the run, instead of being copied in part.

It needs `pip install ./core './airflow_provider[parquet]'`, and the table `public.orders`, which
mode `recreate` would create.

The connection `lake` has the type `aws`: login and password are the keys, and its extras specify
the region, or a server other than Amazon's: {"endpoint_url": "https://minio.example.org"}. Without
`source_aws_conn_id`, the worker finds the keys in its environment or instance metadata.
"""

from datetime import datetime, timedelta

from airflow.sdk import DAG

from penstock_airflow import copy_table

with DAG(
    "parquet_from_s3",
    schedule="@daily",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    tags=["penstock"],
):
    copy_table(
        group_id="orders",
        # Templates are rendered, so "s3://lake/orders/day={{ ds }}/" is a folder for each day.
        source="s3://lake/orders/*.parquet",
        source_aws_conn_id="lake",
        target_conn_id="pg_dst",
        target_table="public.orders",
        strategy="files",
        mode="truncate",
        verify="counts",
        degree=4,
        retries=3,
        retry_delay=timedelta(seconds=30),
    )
