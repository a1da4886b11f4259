"""The assets for tests of a real Dagster: TPC-H's lineitem, copied into a schema per asset."""

import dagster as dg

from dagster_penstock import CopySpec, PenstockResource, penstock_assets, ranges


def lineitem(schema: str, policy: dg.BackfillPolicy | None = None) -> dg.AssetsDefinition:
    @penstock_assets(
        name=schema,
        specs=[
            CopySpec(
                source=dg.EnvVar("PG_SRC"),
                target=dg.EnvVar("PG_DST"),
                table="public.lineitem",
                target_table=f"{schema}.lineitem",
                mode="replace",
                key="l_orderkey",
                degree=2,
                verify="counts",
            )
        ],
        partitions_def=ranges(8),
        backfill_policy=policy,
    )
    def copied(context: dg.AssetExecutionContext, penstock: PenstockResource):  # type: ignore[no-untyped-def]
        yield from penstock.copy(context)

    return copied


@penstock_assets(
    name="mended",
    specs=[
        CopySpec(
            source=dg.EnvVar("PG_SRC"),
            target=dg.EnvVar("PG_DST"),
            table="public.orders_to_mend",
            target_table="mended.orders",
            key="id",
            partitions=4,
            on_error="continue",
            verify="checksums",
        )
    ],
)
def mended(context: dg.AssetExecutionContext, penstock: PenstockResource):  # type: ignore[no-untyped-def]
    yield from penstock.copy(context)


@dg.asset(deps=[dg.AssetKey(["mended", "orders"])])
def after_mended() -> None:
    """An asset downstream of a copy that fails at first."""


defs = dg.Definitions(
    assets=[
        mended,
        after_mended,
        lineitem("backfilled"),
        lineitem("one_by_one", dg.BackfillPolicy.multi_run()),
        lineitem("step_killed"),
        lineitem("worker_killed"),
        lineitem("canceled"),
    ],
    resources={"penstock": PenstockResource()},
)
