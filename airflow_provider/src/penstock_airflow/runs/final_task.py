"""The final task of a copy, which decides whether the DAG run succeeds.

Airflow takes the state of a DAG run from its last tasks. If a task is cleared without them, its
failure does not fail the DAG run, so it must not change the rows that they have checked.
"""

from __future__ import annotations

from typing import Any

from penstock_airflow.runs.nearest_task import nearest
from penstock_airflow.runs.task_states import Tasks
from penstock_airflow.sdk import AirflowFailException


def passed_final_task(task: Any, context: Any) -> Any:
    """Return the final task after a task, if it has succeeded and will not run again."""
    final = nearest(task, "ReleaseSnapshotOperator", "downstream_task_ids") or nearest(
        task, "VerifyCopyOperator", "downstream_task_ids"
    )
    if final is None or not Tasks.of(context, [final.task_id]).have_passed():
        return None
    return final


def check_final_task_cleared(task: Any, context: Any) -> None:
    """Check that the final task was cleared as well.

    Args:
        task: a cleared task that would change or delete checked rows.
        context: the context of that task.

    Raises:
        AirflowFailException: the final task was not cleared with it.
    """
    final = passed_final_task(task, context)
    if final is not None:
        raise AirflowFailException(
            f"{final.task_id} has already succeeded and will not run again after this task, so the "
            "DAG run would succeed even if this task failed. Nothing was copied. Clear this task "
            "with its downstream tasks"
        )
