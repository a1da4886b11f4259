"""Whether the task that judges a run comes after one that was cleared.

Airflow takes the state of a DAG run from its last tasks. A task that was cleared without them may
fail, but does not fail the DAG run: it must leave what they have judged as it is.
"""

from __future__ import annotations

from typing import Any

from airflow.providers.common.compat.sdk import AirflowFailException

from penstock_airflow.links import nearest
from penstock_airflow.states import Tasks


def judge_that_has_passed(task: Any, context: Any) -> Any:
    """The task that judges the run, if it has passed and does not run again after a task of it."""
    judge = nearest(task, "ReleaseSnapshotOperator", "downstream_task_ids") or nearest(
        task, "VerifyCopyOperator", "downstream_task_ids"
    )
    if judge is None or not Tasks.of(context, [judge.task_id]).have_passed():
        return None
    return judge


def check_followed(task: Any, context: Any) -> None:
    """
    Parameters:
        task: one that was cleared, and would undo or question what was judged.

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
