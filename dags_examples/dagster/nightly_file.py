"""The tables of a file, penstock.toml, as one asset each, all copied as of one moment.

The file does not mention Dagster: `penstock copy-all` copies the same tables. Loading it needs no
connection to a database.
"""

from pathlib import Path

import dagster as dg

from dagster_penstock import PenstockResource, penstock_assets, specs_of_file


@penstock_assets(
    specs=specs_of_file(Path(__file__).with_name("penstock.toml")),
    retry_policy=dg.RetryPolicy(max_retries=3, delay=30),
)
def shop(context: dg.AssetExecutionContext, penstock: PenstockResource):
    yield from penstock.copy(context)


nightly = dg.ScheduleDefinition(
    name="nightly", target=dg.AssetSelection.assets(shop), cron_schedule="0 2 * * *"
)

defs = dg.Definitions(
    assets=[shop], schedules=[nightly], resources={"penstock": PenstockResource()}
)
