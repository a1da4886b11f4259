"""What a run is called, and whether a task was cleared or only retried."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from penstock import MODES

_NAME_LENGTH = 14
_NOT_FOR_NAMES = re.compile(r"[^A-Za-z0-9_]+")


def clearings(ti: Any) -> int:
    """How many tries a task instance had before somebody cleared it last; 0 where nobody has.

    A retry leaves `max_tries` as it is, clearing raises it: to the tries so far plus `retries`.
    It is how both versions of Airflow count (`clear_task_instances`).
    """
    return max(0, int(ti.max_tries) - int(ti.task.retries or 0))


def run_id_of(context: Any, *, again: bool) -> str:
    """The id of a task's run: the same for every retry.

    Parameters:
        again: a task that was cleared begins a new run.
    """
    ti = context["ti"]
    dag_run = context["dag_run"]
    names = (ti.dag_id, dag_run.run_id, ti.task_id, str(getattr(ti, "map_index", -1)))
    digest = hashlib.sha256("\0".join(names).encode()).hexdigest()[:12]
    group, _, own = ti.task_id.rpartition(".")
    name = _NOT_FOR_NAMES.sub("_", group or own).strip("_") or "run"
    number = clearings(ti) if again else 0
    return f"{name[:_NAME_LENGTH]}-{digest}" + (f"-{number}" if number else "")


def begins_again(recopy: bool | None, mode: str) -> bool:
    """Whether what is committed is copied again when its task is cleared: by default where nothing
    would be there twice."""
    if recopy is not None:
        return recopy
    known = MODES.get(mode)
    return known is not None and not known.only_adds


def recopies_partition(recopy: bool | None, mode: str) -> bool:
    """Whether one partition is: by default where its rows are replaced in the copy itself."""
    return MODES[mode].reloads_partitions if recopy is None else recopy
