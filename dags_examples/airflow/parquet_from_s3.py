"""Parquet files on S3 into a table: partitions are parts of a large file, or several small ones.

The plan needs only the files' footers. Mapped tasks read their own row groups, on any worker.
`verify` counts both sides, and the files must still be those of the plan: one that was added or
rewritten meanwhile fails the run, instead of being copied in part.

It needs `pip install 'airflow-provider-penstock[parquet]'`, and the table `public.orders`, which
mode `recreate` would make.

The connection `lake` is of type `aws`: login and password are the keys, and its extras say the
region, or another server than Amazon's: {"endpoint_url": "https://minio.example.org"}. Without
`source_aws_conn_id`, keys are found where a task runs: in its environment, or from its machine.
"""

from datetime import datetime, timedelta

from airflow.sdk import DAG

from penstock_airflow import copy_table

with DAG(
    "parquet_from_s3",
    schedule="@daily",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    tags=["penstock"],
):
    copy_table(
        group_id="orders",
        # Templates are rendered: "s3://lake/orders/day={{ ds }}/" is a folder for each day.
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
