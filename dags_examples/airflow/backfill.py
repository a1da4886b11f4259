"""A table copied month by month, for a backfill over years.

    airflow backfill create --dag-id backfill --from-date 1995-01-01 --to-date 1995-12-31 \\
        --max-active-runs 2

Each month is a run of the DAG. Its rows replace those of the same month in the target, so
backfilling a month again, for instance with `--reprocess-behavior completed`, never doubles rows.
"""

from datetime import datetime, timedelta

from airflow.sdk import DAG, CronDataIntervalTimetable

from penstock_airflow import CopyTableOperator

with DAG(
    "backfill",
    # In Airflow 3, "@monthly" alone has no data interval.
    schedule=CronDataIntervalTimetable("@monthly", timezone="UTC"),
    start_date=datetime(1992, 1, 1),
    catchup=False,
    max_active_runs=2,
    tags=["penstock"],
):
    CopyTableOperator(
        task_id="orders",
        source_conn_id="pg_src",
        target_conn_id="pg_dst",
        table="public.orders",
        mode="replace",
        strategy="time",
        key="o_orderdate",
        interval="1 week",
        where=(
            "o_orderdate >= '{{ data_interval_start | ds }}' "
            "AND o_orderdate < '{{ data_interval_end | ds }}'"
        ),
        snapshot="none",
        degree=2,
        retries=2,
        retry_delay=timedelta(seconds=30),
    )
