"""The run id of a task, which a retry keeps and clearing may change."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from penstock import MODES

_NAME_LENGTH = 14
BATCH_NAME_LENGTH = 10
"""Shorter than a run's, because a table's run id is longer than the id of its batch."""
_INVALID = re.compile(r"[^A-Za-z0-9_]+")


def clearings(ti: Any) -> int:
    """Return how many tries a task instance had before it was last cleared; 0 if never cleared.

    A retry leaves `max_tries` unchanged; clearing raises it to the tries so far plus `retries`. In
    both versions of Airflow, `clear_task_instances` does this.
    """
    return max(0, int(ti.max_tries) - int(ti.task.retries or 0))


def run_id_of(context: Any, *, again: bool, name_length: int = _NAME_LENGTH) -> str:
    """Return the run id of a task, which is the same for every retry.

    Args:
        context: the context of the task.
        again: whether clearing the task starts a new run.
        name_length: how many characters of the task's name the id begins with.
    """
    return _run_id(context, clearings(context["ti"]) if again else 0, name_length)


def earlier_run_ids(context: Any) -> list[str]:
    """Return the run ids that a task may have had before it was cleared, the most recent first."""
    return [_run_id(context, number) for number in reversed(range(clearings(context["ti"])))]


def _run_id(context: Any, number: int, name_length: int = _NAME_LENGTH) -> str:
    ti = context["ti"]
    dag_run = context["dag_run"]
    names = (ti.dag_id, dag_run.run_id, ti.task_id, str(getattr(ti, "map_index", -1)))
    digest = hashlib.sha256("\0".join(names).encode()).hexdigest()[:12]
    group, _, task_name = ti.task_id.rpartition(".")
    name = _INVALID.sub("_", group or task_name).strip("_") or "run"
    return f"{name[:name_length]}-{digest}" + (f"-{number}" if number else "")


def starts_new_run(recopy: bool | None, mode: str) -> bool:
    """Whether clearing a task starts a new run: by default, unless that would double the rows."""
    if recopy is not None:
        return recopy
    load_mode = MODES.get(mode)
    return load_mode is not None and not load_mode.only_adds


def recopies_partition(recopy: bool | None, mode: str) -> bool:
    """Whether clearing copies a partition again: by default, if that replaces its rows."""
    return MODES[mode].reloads_partitions if recopy is None else recopy
