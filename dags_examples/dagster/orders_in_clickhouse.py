"""A PostgreSQL table copied to ClickHouse, recreated by each materialization.

The rows go into a table beside the old one, ordered by the source's primary key, which takes the
old one's place when it is complete. `verify="checksums"` gives the asset a check: both servers
compute checksums of all values, as of the moment that was copied.

It needs `pip install './core[clickhouse]'`, and reads the connections from the environment:
PG_SRC, and CLICKHOUSE_URL such as clickhouse://user:password@host:8443/shop.
"""

import dagster as dg

from dagster_penstock import CopySpec, PenstockResource, penstock_assets


@penstock_assets(
    specs=[
        CopySpec(
            source=dg.EnvVar("PG_SRC"),
            target=dg.EnvVar("CLICKHOUSE_URL"),
            table="public.orders",
            target_table="shop.orders",
            mode="recreate",
            verify="checksums",
        )
    ]
)
def orders(context: dg.AssetExecutionContext, penstock: PenstockResource):
    yield from penstock.copy(context)


defs = dg.Definitions(assets=[orders], resources={"penstock": PenstockResource(degree=4)})
