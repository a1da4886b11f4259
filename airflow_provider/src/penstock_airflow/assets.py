"""The target's table as an asset: one event for each run, with what it came to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from airflow.providers.common.compat.sdk import Asset, AssetAlias

from penstock import RunStatus, TableRef, place_of


def alias_of(target_conn_id: str, target_table: str) -> AssetAlias:
    """Stands for the table in a DAG: its host and database are known in a task only."""
    return AssetAlias(f"penstock:{target_conn_id}/{target_table}")


def asset_of(target: str, status: RunStatus) -> Asset:
    """The table that a run writes: `postgres://host:port/database/schema/table`.

    That is the form of URI that Airflow's own lineage knows.

    Parameters:
        target: a URL; of it only host, port and database are told.
    """
    place = place_of(target)
    table = TableRef.parse(status.run.spec["target_table"], "target_table")
    path = "/".join(quote(part, safe="") for part in (place.database, table.schema, table.name))
    return Asset(uri=f"{place.namespace}/{path}")


def emit(
    context: Any, outlet: Any, target: str, status: RunStatus, ending: Mapping[str, Any]
) -> None:
    """Say what happened to the table.

    Parameters:
        outlet: an `Asset`, or an `AssetAlias` behind which the table's own asset is put.
        target: a URL; of it only host, port and database are told.
    """
    extra = {name: ending[name] for name in ("run_id", "rows", "bytes", "partitions", "seconds")}
    events = context["outlet_events"][outlet]
    if isinstance(outlet, AssetAlias):
        events.add(asset_of(target, status), extra=extra)
        return
    events.extra.update(extra)
    key = getattr(context["dag_run"], "partition_key", None)
    if key is not None:
        events.add_partitions(key)
