"""The nearest task of a kind, before or after a task of the same DAG."""

from __future__ import annotations

from typing import Any


def nearest(operator: Any, kind: str, towards: str) -> Any:
    """Return the nearest task of a kind, because a DAG may copy one table after the other.

    Parameters:
        kind: the name of the task's class, or of a base class.
        towards: the attribute with the ids of the next tasks.
    """
    tasks = operator.dag.task_dict
    seen: set[str] = set()
    found: list[str] = sorted(getattr(operator, towards))
    while found:
        for task_id in found:
            if is_kind(tasks[task_id], kind):
                return tasks[task_id]
        seen.update(found)
        found = sorted({i for task_id in found for i in getattr(tasks[task_id], towards)} - seen)
    return None


def is_kind(task: Any, kind: str) -> bool:
    # A serialized task has only the name of its own class.
    operator_class = getattr(task, "operator_class", type(task))
    return kind in (
        task.task_type,
        *(each.__name__ for each in getattr(operator_class, "__mro__", ())),
    )
