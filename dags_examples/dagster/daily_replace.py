"""The orders of each day as a partition, whose rows replace those of the same day in the target.

Materialize one day, or a backfill of years: the days run in parallel in one step, each is committed
and shown separately, and a failed one is retried alone. Materializing a day again leaves the same
rows in the target.

It reads the connections from the environment: PG_SRC and PG_DST, such as
postgresql://user:password@host/database.
"""

import dagster as dg

from dagster_penstock import CopySpec, PenstockResource, penstock_assets


@penstock_assets(
    specs=[
        CopySpec(
            source=dg.EnvVar("PG_SRC"),
            target=dg.EnvVar("PG_DST"),
            table="public.orders",
            target_table="dw.orders",
            mode="replace",
            key="o_orderdate",
        )
    ],
    # The days of TPC-H's orders. Without an end, there is one more partition every day.
    partitions_def=dg.DailyPartitionsDefinition("1992-01-01", end_date="1998-08-03"),
)
def orders(context: dg.AssetExecutionContext, penstock: PenstockResource):
    yield from penstock.copy(context)


defs = dg.Definitions(assets=[orders], resources={"penstock": PenstockResource(degree=4)})
