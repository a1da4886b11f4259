"""A sensor that copies a day once the source has all of it.

Each source has its own way to say that a day is complete. Here, a day is complete when there are
orders of a later day; a row in a table of loaded batches would do as well. The sensor checks once a
minute, and its cursor is the last day that it has requested.
"""

import dagster as dg
import psycopg

from dagster_penstock import CopySpec, PenstockResource, penstock_assets

NEW_DAYS = """
SELECT DISTINCT o_orderdate::text FROM public.orders
WHERE o_orderdate > %s AND o_orderdate < (SELECT max(o_orderdate) FROM public.orders)
ORDER BY 1 LIMIT 10"""


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
    partitions_def=dg.DailyPartitionsDefinition("1992-01-01"),
)
def orders(context: dg.AssetExecutionContext, penstock: PenstockResource):
    yield from penstock.copy(context)


@dg.sensor(target=[orders], minimum_interval_seconds=60)
def days_of_the_source(context: dg.SensorEvaluationContext):
    with psycopg.connect(dg.EnvVar("PG_SRC").get_value()) as source:
        days = [day for (day,) in source.execute(NEW_DAYS, [context.cursor or "-infinity"])]
    if not days:
        return dg.SkipReason("the source has no further day that is complete")
    return dg.SensorResult(
        # The run key: each day is requested once, whatever happens to the cursor.
        run_requests=[dg.RunRequest(run_key=day, partition_key=day) for day in days],
        cursor=days[-1],
    )


defs = dg.Definitions(
    assets=[orders],
    sensors=[days_of_the_source],
    resources={"penstock": PenstockResource()},
)
