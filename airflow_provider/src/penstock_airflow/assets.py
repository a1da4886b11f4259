"""The target's table as an asset: one event for each run, with its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.providers.common.compat.sdk import Asset, AssetAlias

from penstock import RunStatus, TableRef, place_of
from penstock_airflow.ends import End


def alias_of(target: End, target_table: str | None) -> AssetAlias:
    """Stands for the table in a DAG: only a task knows its host and database."""
    named = "" if target.located or target_table is None else f"/{target_table}"
    return AssetAlias(f"penstock:{target.name}{named}")


def asset_of(target: str, status: RunStatus) -> Asset:
    """The table that a run writes, `postgres://host:port/database/schema/table`, or the folder,
    `s3://bucket/folder`.

    These are the URIs that Airflow's own lineage knows.

    Parameters:
        target: a URL; the asset shows only its host, port, database and path.
    """
    written = status.run.spec["target_table"]
    table = TableRef.parse(written, "target_table") if written else TableRef("", "")
    return Asset(uri=place_of(target).uri(table))


def emit(
    context: Any, outlet: Any, target: str, status: RunStatus, summary: Mapping[str, Any]
) -> None:
    """Emit an event for the table.

    Parameters:
        outlet: an `Asset`, or an `AssetAlias` to which the table's own asset is added.
        target: a URL; the asset shows only its host, port, database and path.
    """
    extra = {name: summary[name] for name in ("run_id", "rows", "bytes", "partitions", "seconds")}
    events = context["outlet_events"][outlet]
    if isinstance(outlet, AssetAlias):
        events.add(asset_of(target, status), extra=extra)
        return
    events.extra.update(extra)
    key = getattr(context["dag_run"], "partition_key", None)
    if key is not None:
        events.add_partitions(key)
