"""The assets that `benchmarks/run.py --only dagster` materializes."""

from collections.abc import Iterator

import dagster as dg

from dagster_penstock import CopySpec, PenstockResource, penstock_assets, ranges

PARTITIONS = ranges(16)
ONE_RUN = dg.BackfillPolicy.single_run()


@penstock_assets(
    specs=[
        CopySpec(
            source=dg.EnvVar("PG_SRC"),
            target=dg.EnvVar("PG_DST"),
            table="assets.lineitem",
            mode="replace",
            key="l_orderkey",
            degree=2,
        )
    ],
    partitions_def=PARTITIONS,
)
def lineitem(context: dg.AssetExecutionContext, penstock: PenstockResource) -> Iterator[object]:
    yield from penstock.copy(context)


@dg.multi_asset(
    specs=[dg.AssetSpec("nothing", partitions_def=PARTITIONS, skippable=True)],
    partitions_def=PARTITIONS,
    backfill_policy=ONE_RUN,
)
def nothing(context: dg.AssetExecutionContext) -> Iterator[dg.AssetMaterialization]:
    """Do nothing, which shows Dagster's own cost."""
    for key in context.partition_keys:
        yield dg.AssetMaterialization("nothing", partition=key)


defs = dg.Definitions(assets=[lineitem, nothing], resources={"penstock": PenstockResource()})
