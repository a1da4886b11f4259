"""Search for the nearest task of a kind in a DAG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

COPIES = ("CopyPartitionOperator", "CopyWorkerOperator")
"""The kinds of mapped tasks that copy a table."""


def nearest(operator: Any, kinds: str | Sequence[str], direction: str) -> Any:
    """Return the nearest task of a kind, because a DAG may copy one table after the other.

    Args:
        operator: the task where the search starts.
        kinds: the name of the class of the wanted task, or of a base class; or several of them.
        direction: `upstream_task_ids` or `downstream_task_ids`.
    """
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    tasks = operator.dag.task_dict
    visited: set[str] = set()
    task_ids: list[str] = sorted(getattr(operator, direction))
    while task_ids:
        for task_id in task_ids:
            if any(is_kind(tasks[task_id], kind) for kind in kinds):
                return tasks[task_id]
        visited.update(task_ids)
        task_ids = sorted(
            {i for task_id in task_ids for i in getattr(tasks[task_id], direction)} - visited
        )
    return None


def holder_of(operator: Any) -> Any:
    """Return the task that holds the snapshot with which a copy reads; None without one."""
    prepare = nearest(operator, "PrepareCopyOperator", "upstream_task_ids")
    return prepare and nearest(prepare, "HoldSnapshotOperator", "downstream_task_ids")


def is_kind(task: Any, kind: str) -> bool:
    """Whether a task's class, or one of its base classes, has a name."""
    # A serialized task has only the name of its own class.
    operator_class = getattr(task, "operator_class", type(task))
    return kind in (
        task.task_type,
        *(each.__name__ for each in getattr(operator_class, "__mro__", ())),
    )
