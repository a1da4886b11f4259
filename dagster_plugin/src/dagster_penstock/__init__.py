"""Penstock in Dagster: one asset partition per range of a table, each retried alone.

import dagster as dg
from dagster_penstock import CopySpec, PenstockResource, penstock_assets

@penstock_assets(
    specs=[
        CopySpec(
            source=dg.EnvVar("PG_SRC"),
            target=dg.EnvVar("PG_DST"),
            table="public.orders",
            target_table="dw.orders",
            mode="replace",
            key="o_orderdate",
        )
    ],
    partitions_def=dg.DailyPartitionsDefinition("1992-01-01"),
)
def orders(context, penstock: PenstockResource):
    yield from penstock.copy(context)
"""

from __future__ import annotations

from importlib.metadata import version

from dagster_shared.libraries import DagsterLibraryRegistry

from dagster_penstock.asset_decorator import penstock_assets, source_assets
from dagster_penstock.components import CopyFileComponent, CopyTablesComponent
from dagster_penstock.metadata_set import PenstockMetadataSet
from dagster_penstock.partitions import Ranges, ranges
from dagster_penstock.resource import PenstockResource
from dagster_penstock.tables_file import specs_of_file
from dagster_penstock.translator import CopiedTable, PenstockTranslator
from penstock import CopySpec

__all__ = [
    "CopiedTable",
    "CopyFileComponent",
    "CopySpec",
    "CopyTablesComponent",
    "PenstockMetadataSet",
    "PenstockResource",
    "PenstockTranslator",
    "Ranges",
    "penstock_assets",
    "ranges",
    "source_assets",
    "specs_of_file",
]

__version__ = version("dagster-penstock")

DagsterLibraryRegistry.register("dagster-penstock", __version__, is_dagster_package=False)
