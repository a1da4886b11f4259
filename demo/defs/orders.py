"""The asset that `make demo` materializes in Dagster."""

from collections.abc import Iterator

import dagster as dg

from dagster_penstock import CopySpec, PenstockResource, penstock_assets, ranges


@penstock_assets(
    specs=[
        CopySpec(
            source=dg.EnvVar("SOURCE"),
            target=dg.EnvVar("TARGET"),
            table="public.orders",
            target_table="dw.orders",
            mode="replace",
            key="o_orderkey",
        )
    ],
    partitions_def=ranges(8),
)
def orders(
    context: dg.AssetExecutionContext,
    penstock: PenstockResource,
) -> Iterator[object]:
    yield from penstock.copy(context)
