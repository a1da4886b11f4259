"""A big table without a date, in eight ranges of its key with about the same number of rows.

The bounds come from a plan that is created when the first range is copied, and kept in the target.
So "003" holds the same keys this year and next; keys beyond the ends belong to the first and the
last range. `ranges(8, version="2")` creates a new plan, after which every range must be copied
again.

In the UI: Materialize, all partitions, then Launch backfill. This starts one run, whose step copies
four ranges at once. Or from a shell:

    dg launch -f range_buckets.py --assets dw/lineitem --partition-range 000...007

If some ranges fail, re-executing the run "from failure" copies only those; so does a backfill of
failed and missing partitions.
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
    # For a server that restarts, for instance. Committed ranges stay as they are.
    retry_policy=dg.RetryPolicy(max_retries=2, delay=30),
)
def lineitem(context: dg.AssetExecutionContext, penstock: PenstockResource):
    yield from penstock.copy(context)


defs = dg.Definitions(assets=[lineitem], resources={"penstock": PenstockResource()})
