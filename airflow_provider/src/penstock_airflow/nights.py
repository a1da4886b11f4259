"""Nights in tasks: what becomes of one that was overtaken; the watermark in Airflow's own store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.providers.common.compat.sdk import Asset

import penstock
from penstock import MODES, PenstockError, RunStatus

STATE_KEY = "penstock_watermark"
MOST_NIGHTS = 20
"""Runs that one task begins, each since the one before it was overtaken."""
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
    """Whether a run with these options may have a watermark to move: a load of all rows has, where
    there is one."""
    mode = MODES.get(options.get("mode", "append"))
    return bool(options.get("incremental")) or (mode is not None and mode.starts_empty)


def overtaken(run_id: str, *, target: str, control_schema: str) -> RunStatus | None:
    """How a run stands, if another night keeps its own from merging its rows."""
    try:
        status = penstock.status(run_id, target=target, control_schema=control_schema)
    except PenstockError:
        return None  # what has failed is raised instead
    return status if is_overtaken(status) else None


def is_overtaken(status: RunStatus) -> bool:
    return status.night is not None and status.night.overtaken_by is not None


def covered_by(status: RunStatus) -> str:
    """The run that has brought what this one would have; empty if none has."""
    night = status.night
    return night.overtaken_by.run_id if night and night.overtaken_by and night.covered else ""


def said(text: str, status: RunStatus) -> str:
    """`COVERED` or `STALE`, of a run that was overtaken."""
    return text.format(run_id=status.run.run_id, night=status.night)


def next_id(run_id: str, number: int) -> str:
    """The id of the run to start after a number of overtaken ones; each retry finds the same."""
    return run_id if number == 0 else f"{run_id}{chr(ord('a') + number)}"


def mirror(context: Any, outlet: Any, night: Mapping[str, Any] | None, log: Any) -> None:
    """Copy what a night has left to Airflow's state store, which Airflow has from 3.3 on. It is
    never read back: the truth is in the target. That it fails is no failure of the copy."""
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
