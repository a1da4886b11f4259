"""A table that is copied and compared with its source before downstream assets read it.

`verify="checksums"` gives the copied asset a check: both servers compute checksums of all values,
as of the moment that was copied. `blocking=True` makes it a gate: if a value differs, the run stops
there, and `revenue` keeps its rows.
"""

import dagster as dg
import psycopg

from dagster_penstock import CopySpec, PenstockResource, penstock_assets


@penstock_assets(
    specs=[
        CopySpec(
            source=dg.EnvVar("PG_SRC"),
            target=dg.EnvVar("PG_DST"),
            table="public.orders",
            target_table="dw.orders",
            mode="truncate",
            verify="checksums",
        )
    ],
    blocking=True,
)
def orders(context: dg.AssetExecutionContext, penstock: PenstockResource):
    yield from penstock.copy(context)


@dg.asset(key=["dw", "revenue"], deps=[dg.AssetKey(["dw", "orders"])])
def revenue() -> dg.MaterializeResult:
    """The revenue of each day."""
    with psycopg.connect(dg.EnvVar("PG_DST").get_value()) as target:
        target.execute("DROP TABLE IF EXISTS dw.revenue")
        cursor = target.execute(
            "CREATE TABLE dw.revenue AS"
            " SELECT o_orderdate AS day, sum(o_totalprice) AS revenue FROM dw.orders GROUP BY 1"
        )
        return dg.MaterializeResult(metadata={"dagster/row_count": cursor.rowcount})


defs = dg.Definitions(assets=[orders, revenue], resources={"penstock": PenstockResource()})
