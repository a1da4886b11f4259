"""The orders of each day as Parquet files in a lake; copying a day again swaps all its files.

Each day has a folder of its own, `o_orderdate=1995-03-04/`, so that DuckDB, Spark and the like read
only the days that they need. A copy writes a day's new files, then switches
`_penstock/manifest.json` to them in one step, then removes the old ones. So a day is the same
however often it is materialized, even if a copy is killed.

It needs `pip install ./core './dagster_plugin[parquet]'`.

The step finds the bucket's keys as the AWS tools do: in AWS_ACCESS_KEY_ID and
AWS_SECRET_ACCESS_KEY, in a profile, or in the instance metadata. AWS_ENDPOINT_URL_S3 names a server
other than Amazon's. With dagster-aws, a resource may hold the keys instead:

    def orders(context, penstock: PenstockResource, s3: S3Resource):
        yield from penstock.copy(context, s3=s3)
"""

import dagster as dg

from dagster_penstock import CopySpec, PenstockResource, penstock_assets


@penstock_assets(
    specs=[
        CopySpec(
            source=dg.EnvVar("PG_SRC"),
            table="public.orders",
            target="s3://lake/orders/",
            mode="replace",
            key="o_orderdate",
            partition_by=("o_orderdate",),
        )
    ],
    partitions_def=dg.DailyPartitionsDefinition("1992-01-01", end_date="1998-08-03"),
)
def orders(context: dg.AssetExecutionContext, penstock: PenstockResource):
    yield from penstock.copy(context)


defs = dg.Definitions(assets=[orders], resources={"penstock": PenstockResource(degree=4)})
