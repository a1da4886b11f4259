"""A job whose steps run in processes of their own: three workers share the days of a table."""

# No future annotations: Dagster inspects the annotations of a step's context.
from collections.abc import Iterator
from typing import Any

import dagster as dg

from dagster_penstock import CopySpec, PenstockResource, penstock_assets


@penstock_assets(
    specs=[
        CopySpec(
            source=dg.EnvVar("PG_SRC"),
            target=dg.EnvVar("PG_DST"),
            table="public.t",
            target_table="dw.t",
            mode="replace",
            key="day",
            degree=1,
            verify="checksums",
        )
    ],
    partitions_def=dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-01-11"),
    name="copy",
    workers=3,
)
def copy(context: dg.AssetExecutionContext, penstock: PenstockResource) -> Iterator[Any]:
    yield from penstock.copy(context)


# By default as many steps run at once as there are CPUs.
EXECUTOR = dg.multiprocess_executor.configured({"max_concurrent": 3})


def job() -> dg.JobDefinition:
    """Return the job, in which every step is a process."""
    definitions = dg.Definitions(
        assets=[copy],
        resources={"penstock": PenstockResource()},
        jobs=[dg.define_asset_job("load", executor_def=EXECUTOR)],
    )
    return definitions.resolve_job_def("load")
