"""The id of a run in the target: the same for every retry, a new one for every new request."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import dagster as dg

_RESUMED = ("dagster/is_resume_retry", "dagster/is_asset_resume_retry")
_RETRIED = "dagster/retry_number"
_PARENT = "dagster/parent_run_id"


def request_of(context: dg.AssetExecutionContext) -> str:
    """Return the id of the Dagster run that this one continues, or its own id.

    A retry of a run, and a re-execution from failure, continue the first run. A re-execution of all
    steps is a new request.
    """
    *_, first = continued_runs(context)
    # The earlier run may have been deleted.
    return first.tags[_PARENT] if _continues(first) else first.run_id


def reexecuted_by_user(context: dg.AssetExecutionContext) -> bool:
    """Whether a user has re-executed the request from failure, apart from automatic retries.

    The user has seen the error, and may have fixed its cause in the source.
    """
    return any(_continues(run) and _RETRIED not in run.tags for run in continued_runs(context))


def continued_runs(context: dg.AssetExecutionContext) -> Iterator[dg.DagsterRun]:
    """Yield this run, the one it continues, and so on."""
    run: dg.DagsterRun | None = context.run
    while run is not None:
        yield run
        run = context.instance.get_run_by_id(run.tags[_PARENT]) if _continues(run) else None


def _continues(run: dg.DagsterRun) -> bool:
    repeats = _RETRIED in run.tags or any(run.tags.get(tag) == "true" for tag in _RESUMED)
    return repeats and bool(run.tags.get(_PARENT))


def batch_id_of(context: dg.AssetExecutionContext, request: str) -> str:
    """Return the id of a step's batch, which does not depend on the selected assets."""
    # Other ops of the same Dagster run may be running at the same time.
    return f"dagster-{_digest(request, context.assets_def.node_def.name)[:16]}"


def run_id_of(asset: dg.AssetKey, batch_id: str, keys: Iterable[str]) -> str:
    """Return the run id of a table in a batch; see `penstock.spec.batch_spec.run_id_of`.

    Args:
        asset: the key of the table's asset.
        batch_id: the id of the step's batch.
        keys: the partition keys of the Dagster run; empty for a whole table.
    """
    return f"{batch_id}-{_digest(asset.to_user_string(), *keys)[:8]}"


def plan_id_of(series: str) -> str:
    """Return the id of the run whose plan has the bounds of the ranges."""
    return f"ranges-{_digest(series)[:20]}"


def series_of(asset: dg.AssetKey, target_table: str, version: str = "") -> str:
    """Return the name of the series of all copies of an asset into a table.

    Args:
        asset: the key of the asset.
        target_table: the target table.
        version: the version of the stored plan of `ranges`; empty for other partitions.
    """
    name = f"dagster: {asset.to_user_string()} in {target_table}"
    return f"{name}, version {version}" if version else name


def next_id(run_id: str) -> str:
    """Return the id of the run that follows an overtaken one; it is the same for each retry."""
    return f"dagster-{_digest(run_id)[:20]}"


def _digest(*parts: str) -> str:
    return hashlib.sha256(chr(0).join(parts).encode()).hexdigest()
