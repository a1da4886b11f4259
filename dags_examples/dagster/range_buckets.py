"""A big table without a date: eight ranges of its key, about equally many rows each.

The bounds come from a plan that is made when the first range is copied, and kept in the target. So
"003" is the same keys this year and next; keys beyond the ends belong to the first range and to the
last one. `ranges(8, version="2")` makes a new plan, after which every range has to be copied again.

In the UI: Materialize, all partitions, then Launch backfill. It is one run, whose step copies four
ranges at once. Or from a shell:

    dagster asset materialize -f range_buckets.py --select dw/lineitem --partition-range 000...007

If some ranges fail, re-executing the run "from failure" copies those and no other; so does a
backfill of failed and missing partitions.
"""

import dagster as dg

from dagster_penstock import CopySpec, PenstockResource, penstock_assets, ranges


@penstock_assets(
    specs=[
        CopySpec(
            source=dg.EnvVar("PG_SRC"),
            target=dg.EnvVar("PG_DST"),
            table="public.lineitem",
            target_table="dw.lineitem",
            mode="replace",
            key="l_orderkey",
            degree=4,
        )
    ],
    partitions_def=ranges(8),
    # A server that restarts, say. What is committed by then is left alone.
    retry_policy=dg.RetryPolicy(max_retries=2, delay=30),
)
def lineitem(context: dg.AssetExecutionContext, penstock: PenstockResource):
    yield from penstock.copy(context)


defs = dg.Definitions(assets=[lineitem], resources={"penstock": PenstockResource()})
