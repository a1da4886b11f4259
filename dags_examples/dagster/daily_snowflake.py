"""The orders of each day as a partition, whose rows replace those of the day in Snowflake.

A day's rows go to a stage as Parquet files; one transaction deletes the day's old rows and loads
the files. Days are staged in parallel, and a failed one is retried alone.

It needs `pip install './core[snowflake]'`, and reads the connections from the environment:
PG_SRC, and SNOWFLAKE_URL such as snowflake://user@account/database/schema?warehouse=load, with the
password, token or passphrase in SNOWFLAKE_PASSWORD.
"""

import dagster as dg

from dagster_penstock import CopySpec, PenstockResource, penstock_assets


@penstock_assets(
    specs=[
        CopySpec(
            source=dg.EnvVar("PG_SRC"),
            target=dg.EnvVar("SNOWFLAKE_URL"),
            table="public.orders",
            target_table="shop.orders",
            mode="replace",
            key="o_orderdate",
        )
    ],
    # The days of TPC-H's orders. Without an end, there is one more partition every day.
    partitions_def=dg.DailyPartitionsDefinition("1992-01-01", end_date="1998-08-03"),
)
def orders(context: dg.AssetExecutionContext, penstock: PenstockResource):
    yield from penstock.copy(context)


defs = dg.Definitions(assets=[orders], resources={"penstock": PenstockResource(degree=2)})
