"""Nights in tasks: how to handle overtaken ones, and the watermark in Airflow's own store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.providers.common.compat.sdk import Asset

import penstock
from penstock import MODES, PenstockError, RunStatus

STATE_KEY = "penstock_watermark"
MOST_NIGHTS = 20
"""Runs that one task may begin, each because another night overtook the one before it."""
STALE = (
    "run {run_id} cannot merge its rows any more: watermark {night.watermark!r} was moved by "
    "{night.overtaken_by.run_id} since the run was planned"
)
STALE_GROUP = (
    f"{STALE}. Clear the group's first task with its downstream tasks: it begins a new run from "
    "there"
)
COVERED = (
    "run {run_id}: covered by run {night.overtaken_by.run_id}, which has read the source as of "
    "{night.overtaken_by.moment}, as late as this one or later. Nothing is left to do"
)


def may_be_overtaken(options: Mapping[str, Any]) -> bool:
    """Whether a run with these options may move a watermark.

    A load of all rows does so if the target has a watermark.
    """
    mode = MODES.get(options.get("mode", "append"))
    return bool(options.get("incremental")) or (mode is not None and mode.starts_empty)


def overtaken(run_id: str, *, target: str, control_schema: str) -> RunStatus | None:
    """Return the status of a run that another night keeps from merging its rows, otherwise None."""
    try:
        status = penstock.status(run_id, target=target, control_schema=control_schema)
    except PenstockError:
        return None  # the failure itself is raised instead
    return status if is_overtaken(status) else None


def is_overtaken(status: RunStatus) -> bool:
    return status.night is not None and status.night.overtaken_by is not None


def covered_by(status: RunStatus) -> str:
    """Return the run that merged the same changes; empty if none did."""
    night = status.night
    return night.overtaken_by.run_id if night and night.overtaken_by and night.covered else ""


def said(text: str, status: RunStatus) -> str:
    """Format `COVERED` or `STALE` for a run that was overtaken."""
    return text.format(run_id=status.run.run_id, night=status.night)


def next_id(run_id: str, number: int) -> str:
    """Return the id of the run that follows a number of overtaken ones, the same for each retry."""
    return run_id if number == 0 else f"{run_id}{chr(ord('a') + number)}"


def mirror(context: Any, outlet: Any, night: Mapping[str, Any] | None, log: Any) -> None:
    """Copy a night's result to Airflow's state store, which exists from 3.3 on.

    It is never read back, because the target holds the truth. The copy does not fail if this does.
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
            log.warning("the state store has no copy of the watermark: %s", error)
