"""A copy that starts when its source is ready, and announces its own end.

`source_is_ready` stands for the job that fills the source. `report` stands for a reader of the
target: its asset event carries the rows, the partitions and the run id.
"""

from datetime import datetime

from airflow.sdk import DAG, Asset, task

from penstock_airflow import copy_table

SOURCE = Asset("orders_in_the_shop")
TARGET = Asset("orders_in_the_warehouse")

with DAG("fill_the_shop", schedule=None, start_date=datetime(2026, 1, 1), tags=["penstock"]):

    @task(outlets=[SOURCE])
    def source_is_ready() -> None:
        """Announce that the source has been filled."""

    source_is_ready()

with DAG("copy_on_asset", schedule=[SOURCE], start_date=datetime(2026, 1, 1), tags=["penstock"]):
    copy_table(
        group_id="orders",
        source_conn_id="pg_src",
        target_conn_id="pg_dst",
        table="public.orders",
        mode="upsert",
        outlet=TARGET,
    )

with DAG("report_on_asset", schedule=[TARGET], start_date=datetime(2026, 1, 1), tags=["penstock"]):

    @task
    def report(triggering_asset_events: dict) -> list[int]:
        return [event.extra["rows"] for event in triggering_asset_events[TARGET]]

    report()
