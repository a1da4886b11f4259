"""The target's table as an asset, with one event per run that carries its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock import RunStatus, TableRef, place_of
from penstock_airflow.arguments.endpoint import Endpoint
from penstock_airflow.runs.results import summary_of
from penstock_airflow.sdk import Asset, AssetAlias

# Fields of a run's summary.
_EVENT_FIELDS = (
    "run_id",
    "rows",
    "inserted",
    "updated",
    "bytes",
    "partitions",
    "seconds",
    "read_at",
)
# Additional fields for a night.
_NIGHT_FIELDS = ("watermark", "epoch", "moment", "since", "full", "unproven", "deleted")
_BATCH_FIELDS = ("run_id", "rows", "bytes", "seconds", "tables")


def alias_of(target: Endpoint, target_table: str | None) -> AssetAlias:
    """Return the alias of a table in a DAG, because only a task knows its host and database."""
    table = "" if target.located or target_table is None else f"/{target_table}"
    return AssetAlias(f"penstock:{target.name}{table}")


def uri_of(target: str, status: RunStatus) -> str:
    """Return the URI of the table or folder that a run writes.

    It is `scheme://host:port/database/schema/table`, or `s3://bucket/folder`.

    Args:
        target: the target's URL; the URI shows only its host, port, database and path.
        status: the status of the run.
    """
    name = status.run.spec["target_table"]
    table = TableRef.parse(name, "target_table") if name else TableRef("", "")
    return place_of(target).uri(table)


def emit(context: Any, outlet: Any, target: str, status: RunStatus) -> None:
    """Emit an event for the table that a run writes.

    Args:
        context: the context of the task.
        outlet: an `Asset`, or an `AssetAlias` to which the table's own asset is added.
        target: the target's URL; the asset shows only its host, port, database and path.
        status: the status of the run.
    """
    summary, uri = summary_of(status), uri_of(target, status)
    extra = {name: summary[name] for name in _EVENT_FIELDS} | {"uri": uri}
    if night := summary["night"]:
        # Flat, because Airflow 2.11 accepts only flat values for an alias.
        extra |= {name: night[name] for name in _NIGHT_FIELDS}
    if isinstance(outlet, AssetAlias):
        # The URI has the form that Airflow's own lineage uses.
        context["outlet_events"][outlet].add(Asset(uri=uri), extra=extra)
        return
    _emit_once(context, outlet, extra)


def emit_all(
    context: Any,
    outlet: Any,
    target: str,
    statuses: list[RunStatus],
    summary: Mapping[str, Any],
) -> None:
    """Emit an event for each table of a batch, or a single one if the outlet is an `Asset`.

    Args:
        context: the context of the task.
        outlet: as for `emit`.
        target: as for `emit`.
        statuses: the statuses of the tables' runs.
        summary: the result of the batch.
    """
    if not isinstance(outlet, AssetAlias):
        _emit_once(context, outlet, {name: summary[name] for name in _BATCH_FIELDS})
        return
    for status in statuses:
        emit(context, outlet, target, status)


def _emit_once(context: Any, outlet: Any, extra: Mapping[str, Any]) -> None:
    events = context["outlet_events"][outlet]
    events.extra.update(extra)
    key = getattr(context["dag_run"], "partition_key", None)
    if key is not None:
        events.add_partitions(key)
