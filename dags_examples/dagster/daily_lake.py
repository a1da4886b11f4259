"""Each day of the orders as Parquet files in a lake, swapped as one when it is copied again.

The files of a day lie in a folder of their own, `o_orderdate=1995-03-04/`, so that DuckDB, Spark
and the like read the days that they need and no others. The new files of a day come first, then
`_penstock/manifest.json` goes from the old ones to them at once, then the old ones are removed. So
a day is the same however often it is materialized, and whoever is killed meanwhile.

It needs `pip install 'dagster-penstock[parquet]'`.

The bucket's keys come from the environment where the step runs, as the AWS tools look for them:
AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, the machine's own. AWS_ENDPOINT_URL_S3 names
another server than Amazon's. With dagster-aws, a resource may hold them instead:

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
