"""Rows that earlier runs of an asset have appended, and that others have removed since."""

from __future__ import annotations

from collections.abc import Collection

import dagster as dg

import penstock
from penstock import CopySpec


def forget_lost(
    context: dg.AssetExecutionContext, asset: dg.AssetKey, run_ids: Collection[str], spec: CopySpec
) -> Collection[str]:
    """Forget earlier runs whose rows are gone, so that they can be appended again.

    Args:
        context: the context of the step.
        asset: the key of the asset.
        run_ids: the ids of the runs.
        spec: the copy.

    Returns:
        The runs that were forgotten.
    """
    if not run_ids:
        return ()
    lost = penstock.forget_lost(
        sorted(run_ids), target=spec.target, control_schema=spec.control_schema
    )
    if lost:
        context.log.warning(
            f"{asset.to_user_string()}: the rows that {', '.join(lost)} had loaded are no longer "
            "in the table, so they are loaded again"
        )
    return lost
