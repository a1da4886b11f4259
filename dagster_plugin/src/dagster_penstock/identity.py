"""What a copy is called in the target: the same for every retry, another for a new request."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import dagster as dg

_RESUMED = ("dagster/is_resume_retry", "dagster/is_asset_resume_retry")
_RETRIED = "dagster/retry_number"
_PARENT = "dagster/parent_run_id"


def request_of(context: dg.AssetExecutionContext) -> str:
    """The id of the Dagster run that this one repeats, or its own.

    A retry of a run, and a re-execution from failure, go on with what the first one has begun. To
    execute all of a run again is a new request.
    """
    *_, first = _repeated(context)
    # Somebody may have deleted the one before it.
    return first.tags[_PARENT] if _goes_on(first) else first.run_id


def asked_for(context: dg.AssetExecutionContext) -> bool:
    """Whether a person has re-executed the request from failure, and not an automatic retry alone.

    Who does that has found out what was wrong, and may have put it right in the source.
    """
    return any(_goes_on(run) and _RETRIED not in run.tags for run in _repeated(context))


def _repeated(context: dg.AssetExecutionContext) -> Iterator[dg.DagsterRun]:
    """This run, the one that it goes on with, and so on."""
    run: dg.DagsterRun | None = context.run
    while run is not None:
        yield run
        run = context.instance.get_run_by_id(run.tags[_PARENT]) if _goes_on(run) else None


def _goes_on(run: dg.DagsterRun) -> bool:
    repeats = _RETRIED in run.tags or any(run.tags.get(tag) == "true" for tag in _RESUMED)
    return repeats and bool(run.tags.get(_PARENT))


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
