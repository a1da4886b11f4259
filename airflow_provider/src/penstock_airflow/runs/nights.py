"""Nights in tasks: overtaken runs, and a copy of the watermark in Airflow's state store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import penstock
from penstock import MODES, PenstockError, RunStatus
from penstock_airflow.sdk import Asset

STATE_KEY = "penstock_watermark"
MAX_RUNS = 20
"""Maximum number of runs that one task starts, each after another night overtook the last."""
STALE = (
    "run {run_id} can no longer merge its rows: run {night.overtaken_by.run_id} has moved "
    "watermark {night.watermark!r} since it was planned"
)
STALE_GROUP = (
    f"{STALE}. Clear the group's first task with its downstream tasks: it starts a new run from "
    "there"
)
COVERED = (
    "run {run_id}: covered by run {night.overtaken_by.run_id}, which read the source as of "
    "{night.overtaken_by.moment}, no earlier than this run. There is nothing more to do"
)


def may_be_overtaken(options: Mapping[str, Any]) -> bool:
    """Whether a run with these options may move a watermark.

    A load of all rows does so if the target has a watermark.
    """
    mode = MODES.get(options.get("mode", "append"))
    return bool(options.get("incremental")) or (mode is not None and mode.starts_empty)


def overtaken_status(run_id: str, *, target: str, control_schema: str) -> RunStatus | None:
    """Return the status of a run if another night has overtaken it, otherwise None.

    Args:
        run_id: the id of the run.
        target: the target's URL.
        control_schema: the schema of the control tables.
    """
    try:
        status = penstock.status(run_id, target=target, control_schema=control_schema)
    except PenstockError:
        return None  # the caller raises the failure of the run instead
    return status if is_overtaken(status) else None


def is_overtaken(status: RunStatus) -> bool:
    """Whether another night keeps a run from merging its rows."""
    return status.night is not None and status.night.overtaken_by is not None


def covered_by(status: RunStatus) -> str:
    """Return the run that merged the same changes; empty if none did."""
    night = status.night
    return night.overtaken_by.run_id if night and night.overtaken_by and night.covered else ""


def overtaken_message(text: str, status: RunStatus) -> str:
    """Fill in `COVERED`, `STALE` or `STALE_GROUP` for an overtaken run."""
    return text.format(run_id=status.run.run_id, night=status.night)


def next_run_id(run_id: str, number: int) -> str:
    """Return the id of the run after a number of overtaken ones, the same for each retry."""
    return run_id if number == 0 else f"{run_id}{chr(ord('a') + number)}"


def store_watermark(context: Any, outlet: Any, night: Mapping[str, Any] | None, log: Any) -> None:
    """Copy a night's result to Airflow's state store, which exists from 3.3 on.

    It is never read back, because the target holds the truth. A failure here never fails the task.

    Args:
        context: the context of the task.
        outlet: the outlet of the task; an `Asset` has a state store of its own.
        night: the result of a night, or of nights by table; None if there was none.
        log: the task's logger.
    """
    if night is None:
        return
    stores = [context.get("task_state_store")]
    if isinstance(outlet, Asset) and (of_assets := context.get("asset_state_store")) is not None:
        stores.append(of_assets[outlet])
    for store in stores:
        if store is None:
            continue
        try:
            store.set(STATE_KEY, dict(night))
        except Exception as error:
            log.warning("cannot copy the watermark to Airflow's state store: %s", error)
