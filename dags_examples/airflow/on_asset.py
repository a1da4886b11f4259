"""A copy that begins when somebody says that the source is ready, and says itself when it is done.

`source_is_ready` stands for whatever fills the source. `report` stands for whatever reads the
target: its asset event carries the rows, the partitions and the id of the run.
"""

from datetime import datetime

from airflow.sdk import DAG, Asset, task

from penstock_airflow import copy_table

SOURCE = Asset("orders_in_the_shop")
TARGET = Asset("orders_in_the_warehouse")

with DAG("fill_the_shop", schedule=None, start_date=datetime(2026, 1, 1), tags=["penstock"]):

    @task(outlets=[SOURCE])
    def source_is_ready() -> None:
        """Something wrote to the source."""

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
