"""Who continues a run that has stopped: tasks that Airflow may still run.

Until they have ended for good, no other run may empty or replace the table they load.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from penstock import PenstockError, give_up, watch_claims
from penstock_airflow.runs.task_states import Tasks

_PREFIX = "Airflow's task"
_CLAIM = re.compile(rf"{_PREFIX} (?P<tasks>\S+) of DAG run (?P<run>\S+) of DAG (?P<dag>\S+)")


def claim_of(context: Any, task_ids: Sequence[str] = ()) -> str:
    """Return who continues the run of a task.

    Args:
        context: the context of the task.
        task_ids: the tasks that work on the run; empty for the task itself.
    """
    watch_claims(_PREFIX, is_over)
    ti = context["ti"]
    index = int(getattr(ti, "map_index", -1))
    tasks = ",".join(task_ids) or (f"{ti.task_id}[{index}]" if index >= 0 else ti.task_id)
    return f"{_PREFIX} {tasks} of DAG run {ti.run_id} of DAG {ti.dag_id}"


def is_over(claim: str) -> bool:
    """Whether the tasks of a claim have all ended, so that only clearing would run them again."""
    found = _CLAIM.fullmatch(claim)
    if found is None:
        return False
    task_ids = [re.sub(r"\[\d+\]$", "", task_id) for task_id in found["tasks"].split(",")]
    try:
        return Tasks(found["dag"], found["run"], task_ids).are_finished()
    except Exception:  # Airflow does not answer: the claim counts
        return False


def has_tries_left(context: Any) -> bool:
    """Whether Airflow retries a task that fails now."""
    ti = context["ti"]
    return int(ti.try_number) <= int(ti.max_tries)


def give_up_quietly(run_ids: Sequence[str], *, target: str, control_schema: str, log: Any) -> None:
    """Give up runs that no task will continue, unless the target cannot be reached.

    Others need not wait for them any more. A cleared task continues its run as before.

    Args:
        run_ids: the ids of the runs.
        target: the target's URL.
        control_schema: the schema of the control tables.
        log: the task's logger.
    """
    for run_id in run_ids:
        try:
            give_up(run_id, target=target, control_schema=control_schema)
        except PenstockError as error:
            log.info("run %s is not given up: %s", run_id, error.message)
