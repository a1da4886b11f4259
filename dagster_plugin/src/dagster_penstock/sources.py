"""The table that a copy reads, as an upstream asset of the table that it writes."""

from __future__ import annotations

import os
from typing import Any

import dagster as dg

from dagster_penstock.connections import known_place, source_name, source_path
from penstock import CopySpec, UsageError, place_of


def kinds_of(connection: str) -> set[str]:
    """Return the kinds of a connection's system; empty if its environment variable is not set here.

    Only the kinds depend on the environment, never a key.
    """
    name = connection.removeprefix("env:")
    if name != connection and name not in os.environ:
        return set()
    try:
        return {*place_of(connection).kinds}
    except UsageError:
        return set()  # the step will report the mistake


# Marks the assets that are created here.
READ_BY_PENSTOCK = "penstock/source"


def source_asset(spec: CopySpec) -> dg.AssetSpec:
    """Return the asset for a copy's source, which nothing in Dagster materializes."""
    where = known_place(spec.source)
    named = spec.table is not None and not (where and where.located)
    return dg.AssetSpec(
        key=dg.AssetKey(source_path(spec)),
        description=f"{source_name(spec)}, from which Penstock copies.",
        kinds=kinds_of(spec.source),
        metadata={READ_BY_PENSTOCK: True}
        | ({"dagster/table_name": source_name(spec)} if named else {}),
    )


def without_waiting_for(
    source: dg.AssetSpec | None, condition: dg.AutomationCondition[Any] | None
) -> dg.AutomationCondition[Any] | None:
    """Return an automation condition that ignores the copy's source.

    Nothing reports that asset, so `AutomationCondition.eager` and `on_cron` would always treat it
    as missing.
    """
    ignore = getattr(condition, "ignore", None)
    if source is None or ignore is None or READ_BY_PENSTOCK not in source.metadata:
        return condition
    found: dg.AutomationCondition[Any] = ignore(dg.AssetSelection.assets(source.key))
    return found
