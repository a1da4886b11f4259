"""The run id of a task, and whether the task was cleared or only retried."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from penstock import MODES

_NAME_LENGTH = 14
NAME_LENGTH_OF_BATCH = 10
"""Shorter than for a run, because the run id of each table is longer than its batch's."""
_NOT_FOR_NAMES = re.compile(r"[^A-Za-z0-9_]+")


def clearings(ti: Any) -> int:
    """Return how many tries a task instance had before it was last cleared; 0 if never cleared.

    A retry leaves `max_tries` unchanged; clearing raises it to the tries so far plus `retries`.
    Both versions of Airflow count like this (`clear_task_instances`).
    """
    return max(0, int(ti.max_tries) - int(ti.task.retries or 0))


def run_id_of(context: Any, *, again: bool, name_length: int = _NAME_LENGTH) -> str:
    """Return the run id of a task, which is the same for every retry.

    Parameters:
        again: whether clearing the task begins a new run.
        name_length: how many characters of the task's name the id begins with.
    """
    return _run_id(context, clearings(context["ti"]) if again else 0, name_length)


def earlier_run_ids(context: Any) -> list[str]:
    """Return the run ids that a task may have had before it was last cleared, the last first."""
    return [_run_id(context, number) for number in reversed(range(clearings(context["ti"])))]


def _run_id(context: Any, number: int, name_length: int = _NAME_LENGTH) -> str:
    ti = context["ti"]
    dag_run = context["dag_run"]
    names = (ti.dag_id, dag_run.run_id, ti.task_id, str(getattr(ti, "map_index", -1)))
    digest = hashlib.sha256("\0".join(names).encode()).hexdigest()[:12]
    group, _, own = ti.task_id.rpartition(".")
    name = _NOT_FOR_NAMES.sub("_", group or own).strip("_") or "run"
    return f"{name[:name_length]}-{digest}" + (f"-{number}" if number else "")


def begins_again(recopy: bool | None, mode: str) -> bool:
    """Whether clearing a task copies committed rows again: by default unless that doubles them."""
    if recopy is not None:
        return recopy
    known = MODES.get(mode)
    return known is not None and not known.only_adds


def recopies_partition(recopy: bool | None, mode: str) -> bool:
    """Whether clearing copies a partition again: by default if that replaces its rows."""
    return MODES[mode].reloads_partitions if recopy is None else recopy
