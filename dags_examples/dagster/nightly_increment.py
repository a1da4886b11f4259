"""A copy of each night's changes, after which the target equals the source as of one moment.

No column marks changes, and no partition names the day: the target stores how far the source has
been read. Each materialization copies the changes since the latest one, and shows how many rows
that were. A night that is not done by four is reported by Dagster's freshness policy.
"""

from datetime import timedelta

import dagster as dg

from dagster_penstock import (
    CopiedTable,
    CopySpec,
    PenstockResource,
    PenstockTranslator,
    penstock_assets,
)

BY_FOUR = dg.FreshnessPolicy.cron(deadline_cron="0 4 * * *", lower_bound_delta=timedelta(hours=2))


class Nightly(PenstockTranslator):
    def get_asset_spec(self, table: CopiedTable) -> dg.AssetSpec:
        return super().get_asset_spec(table).replace_attributes(freshness_policy=BY_FOUR)


@penstock_assets(
    specs=[
        CopySpec(
            source=dg.EnvVar("PG_SRC"),
            target=dg.EnvVar("PG_DST"),
            table=f"public.{name}",
            target_table=f"dw.{name}",
            mode="upsert",
            incremental="xmin",
            deletes="hard,10%,1000",
        )
        for name in ("orders", "lineitem")
    ],
    translator=Nightly(),
    retry_policy=dg.RetryPolicy(max_retries=3, delay=30),
)
def increment(context: dg.AssetExecutionContext, penstock: PenstockResource):
    yield from penstock.copy(context)


nightly = dg.ScheduleDefinition(
    name="nightly", target=dg.AssetSelection.assets(increment), cron_schedule="0 2 * * *"
)

defs = dg.Definitions(
    assets=[increment], schedules=[nightly], resources={"penstock": PenstockResource()}
)
