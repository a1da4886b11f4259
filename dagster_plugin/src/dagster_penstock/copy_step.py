"""A step that copies the selected tables and reports each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dagster as dg

from dagster_penstock.copies.batch import copy_tables
from dagster_penstock.copies.partitioned_copy import PartitionedCopy
from dagster_penstock.copies.table_copy import Copied, Copy
from dagster_penstock.copies.whole_copy import WholeCopy
from dagster_penstock.definition import definitions_of
from dagster_penstock.parent_watch import interrupt_with_parent
from dagster_penstock.step_failure import failure_of


def copy_assets(
    context: dg.AssetExecutionContext, most: int | None, s3: Any = None
) -> Iterator[Copied]:
    """Copy the selected assets of a step.

    Parameters:
        most: the maximum number of concurrent streams; None for each table's own `degree`.
        s3: see `with_keys`.

    Raises:
        Failure: some of it could not be copied; the rest is copied.
    """
    assets_def = context.assets_def
    alone = [
        check.to_user_string()
        for check in context.selected_asset_check_keys
        if check.asset_key not in context.selected_asset_keys
    ]
    if alone:
        raise dg.Failure(
            f"{', '.join(alone)}: the check runs as part of the copy, while both sides can be "
            "compared: select the asset as well",
            allow_retries=False,
        )
    copies: list[Copy] = [
        WholeCopy(context, asset, definition.spec, most, s3)
        if assets_def.partitions_def is None
        else PartitionedCopy(context, asset, definition.spec, most, s3, assets_def.partitions_def)
        for asset, definition in definitions_of(assets_def).items()
        if asset in context.selected_asset_keys
    ]
    with interrupt_with_parent():
        troubles = yield from copy_tables(context, copies)
    if troubles:
        raise failure_of(troubles)
