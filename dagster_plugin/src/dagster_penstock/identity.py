"""What a copy is called in the target: the same for every retry, another for a new request."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import dagster as dg

_RESUMED = ("dagster/is_resume_retry", "dagster/is_asset_resume_retry")
_RETRIED = "dagster/retry_number"
_PARENT = "dagster/parent_run_id"


def request_of(context: dg.AssetExecutionContext) -> str:
    """The id of the Dagster run that this one repeats, or its own.

    A retry of a run, and a re-execution from failure, go on with what the first one has begun. To
    execute all of a run again is a new request.
    """
    run = context.run
    while _goes_on(run) and (parent_id := run.tags.get(_PARENT)):
        parent = context.instance.get_run_by_id(parent_id)
        if parent is None:  # somebody has deleted it
            return parent_id
        run = parent
    return run.run_id


def _goes_on(run: dg.DagsterRun) -> bool:
    return _RETRIED in run.tags or any(run.tags.get(tag) == "true" for tag in _RESUMED)


def run_id_of(asset: dg.AssetKey, request: str, keys: Iterable[str]) -> str:
    return _name("dagster", asset.to_user_string(), request, *keys)


def plan_id_of(series: str) -> str:
    """The run whose plan the bounds of ranges are taken from."""
    return _name("ranges", series)


def series_of(asset: dg.AssetKey, target_table: str, version: str = "") -> str:
    """All copies of an asset into a table."""
    name = f"dagster: {asset.to_user_string()} in {target_table}"
    return f"{name}, version {version}" if version else name


def _name(prefix: str, *parts: str) -> str:
    return f"{prefix}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:20]}"
