"""A step: the selected tables copied one after the other, and what is said of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dagster as dg

from dagster_penstock.copied import Copied
from dagster_penstock.copied_partitions import PartitionedCopy
from dagster_penstock.copied_table import WholeCopy
from dagster_penstock.definition import definition_of
from dagster_penstock.failing import Trouble, failure_of
from dagster_penstock.orphaned import ended_with_parent
from penstock import PenstockError


def copy_assets(
    context: dg.AssetExecutionContext, most: int | None, s3: Any = None
) -> Iterator[Copied]:
    """
    Parameters:
        most: streams at once; None: as each table's own `degree` says.
        s3: see `with_keys`.

    Raises:
        Failure: not everything could be copied. What could is.
    """
    troubles: list[Trouble] = []
    assets_def = context.assets_def
    alone = [
        check.to_user_string()
        for check in context.selected_asset_check_keys
        if check.asset_key not in context.selected_asset_keys
    ]
    if alone:
        raise dg.Failure(
            f"{', '.join(alone)}: expected a run of the asset as well, since both sides are "
            "compared while it is copied; found the check alone",
            allow_retries=False,
        )
    for asset, spec in assets_def.specs_by_key.items():
        if asset not in context.selected_asset_keys:
            continue
        definition = definition_of(spec)
        copy = (
            WholeCopy(context, asset, definition.spec, most, s3)
            if assets_def.partitions_def is None
            else PartitionedCopy(
                context, asset, definition.spec, most, s3, assets_def.partitions_def
            )
        )
        try:
            with ended_with_parent():
                yield from copy.run()
        except PenstockError as error:
            troubles.append(copy.trouble(error))
    if troubles:
        raise failure_of(troubles)
