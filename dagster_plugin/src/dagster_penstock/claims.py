"""Who continues a copy that has stopped: a Dagster run, its step retries and its run retries.

Until they have ended, no other run may empty or replace the table that they are loading.
"""

from __future__ import annotations

import dagster as dg

from penstock import watch_claims

_PREFIX = "Dagster run "
_WILL_RETRY = "dagster/will_retry"
_ROOT = "dagster/root_run_id"


def claim_of(context: dg.AssetExecutionContext, request: str) -> str:
    """Return who continues the copies of a step.

    Args:
        context: the context of the step.
        request: the id of the Dagster run that retries continue.
    """
    instance = context.instance
    watch_claims(_PREFIX, lambda claim: is_over(instance, claim))
    return f"{_PREFIX}{request}"


def is_over(instance: dg.DagsterInstance, claim: str) -> bool:
    """Whether the Dagster run of a claim and its retries have ended.

    Args:
        instance: the instance that has the run.
        claim: the claim.
    """
    request = claim.removeprefix(_PREFIX)
    first = instance.get_run_by_id(request)
    retries = instance.get_runs(dg.RunsFilter(tags={_ROOT: request}))
    runs = [*retries, *([first] if first is not None else [])]
    if not runs or not all(run.is_finished for run in runs):
        return False
    # The newest is the first; the daemon starts its retry a little later.
    return runs[0].tags.get(_WILL_RETRY) != "true"
