"""Groups without a run: an upstream task skipped them, or a user marked the DAG run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock_airflow.runs.task_states import Tasks
from penstock_airflow.sdk import AirflowFailException, AirflowSkipException

# The XCom that branching tasks leave for cleared tasks (Airflow's SkipMixin).
_KEY = "skipmixin_key"
# Trigger rules that skip a task although all tasks before it have succeeded.
_RULES = frozenset({"all_failed", "one_failed", "all_skipped"})


def require_run_id(run_id: Any) -> None:
    """Check that a run id is not empty.

    Args:
        run_id: the output of `PrepareCopyOperator`.

    Raises:
        AirflowFailException: the id is empty.
    """
    if not run_id:
        raise AirflowFailException(
            "run_id: expected the output of PrepareCopyOperator, found none: its task was marked "
            "as a success. Clear it with its downstream tasks"
        )


def raise_missing_run(context: Any, prepare: Any) -> None:
    """End a task of a group whose first task, `prepare`, has created no run.

    Marking a DAG run as failed skips the tasks that have not started, and Airflow treats skipped
    tasks as successful. So the group is skipped only if an upstream task is the reason.

    Args:
        context: the context of the task.
        prepare: the group's first task; None if the DAG has none.

    Raises:
        AirflowSkipException: an upstream task skipped the group.
        AirflowFailException: the run should exist.
    """
    if prepare is None:
        require_run_id(None)
    skipped = _skipped(context, prepare)
    if skipped and _is_skipped_upstream(context, prepare):
        raise AirflowSkipException(f"{prepare.task_id} was skipped by an upstream task")
    cleared = prepare.task_id
    if skipped and prepare.upstream_task_ids:
        cleared += ", and the skipped tasks before it,"
    raise AirflowFailException(
        f"expected a run from {prepare.task_id}, found none, so nothing was copied; clear "
        f"{cleared} with its downstream tasks"
    )


def _is_skipped_upstream(context: Any, task: Any) -> bool:
    """Whether a task is skipped because of its upstream tasks."""
    before = [task.dag.task_dict[task_id] for task_id in sorted(task.upstream_task_ids)]
    if not before:
        return False
    if str(getattr(task.trigger_rule, "value", task.trigger_rule)) in _RULES:
        return True
    choices = context["ti"].xcom_pull(task_ids=[each.task_id for each in before], key=_KEY)
    return any(_excludes(choice, task.task_id) for choice in choices or ()) or any(
        _skipped(context, each) and _has_own_reason(context, each) for each in before
    )


def _has_own_reason(context: Any, task: Any) -> bool:
    """Whether an upstream task is skipped for a reason of its own."""
    return (
        # It has nothing to expand over.
        task.get_closest_mapped_task_group() is not None
        or hasattr(task, "partial_kwargs")
        # It raised the exception itself.
        or Tasks.of(context, [task.task_id]).have_run()
        or _is_skipped_upstream(context, task)
    )


def _skipped(context: Any, task: Any) -> bool:
    return Tasks.of(context, [task.task_id]).are_skipped()


def _excludes(choice: Any, task_id: str) -> bool:
    """Whether a branching task has chosen not to run a task."""
    if not isinstance(choice, Mapping):
        return False
    followed = choice.get("followed")
    return (followed is not None and task_id not in followed) or task_id in choice.get(
        "skipped", ()
    )
