"""Checks that the task that judges a run comes after a task that was cleared.

Airflow takes the state of a DAG run from its last tasks. If a task was cleared without them, its
failure does not fail the DAG run, so it must not change what they have judged.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException

from penstock_airflow.runs.nearest_task import nearest
from penstock_airflow.runs.task_states import Tasks


def judge_that_has_passed(task: Any, context: Any) -> Any:
    """Return the task that judges the run, if it has passed and will not run after a given task."""
    judge = nearest(task, "ReleaseSnapshotOperator", "downstream_task_ids") or nearest(
        task, "VerifyCopyOperator", "downstream_task_ids"
    )
    if judge is None or not Tasks.of(context, [judge.task_id]).have_passed():
        return None
    return judge


def check_followed(task: Any, context: Any) -> None:
    """Check that the task that judges the run was cleared as well.

    Parameters:
        task: a cleared task that would undo or question the judgement.

    Raises:
        AirflowFailException: the task that judges the run was not cleared with it.
    """
    judge = judge_that_has_passed(task, context)
    if judge is not None:
        raise AirflowFailException(
            f"{judge.task_id} has passed, and does not run again after this task, so the DAG run "
            "would succeed even if this task failed. Nothing was done. Clear this task with its "
            "downstream tasks"
        )
