"""Buttons in Airflow's UI: from a task of a copy to the run's report, from there to the partitions.

Airflow 3 asks for a link in the task's process when the task has ended, and keeps it as an XCom;
Airflow 2 asks in the web server, which knows only the serialized task. So a link depends on the
DAG's shape alone: no run id, no connection, no group name.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from airflow.providers.common.compat.sdk import BaseOperatorLink, conf
from airflow.providers.common.compat.version_compat import AIRFLOW_V_3_0_PLUS


class ReportLink(BaseOperatorLink):
    """To the log of the `VerifyCopyOperator` that ends the run, which has the run's report."""

    name = "Run report"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        task = nearest(operator, "VerifyCopyOperator", "downstream_task_ids")
        return "" if task is None else task_url(ti_key.dag_id, ti_key.run_id, task.task_id)


class PartitionsLink(BaseOperatorLink):
    """To the list of mapped tasks, each with its partition's name, its tries and its time."""

    name = "Partitions"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        task = nearest(operator, "CopyPartitionOperator", "upstream_task_ids")
        if task is None:
            return ""
        # Every kind of mapped task has it, serialized or not, in both versions.
        mapped = hasattr(task, "partial_kwargs")
        return task_url(ti_key.dag_id, ti_key.run_id, task.task_id, mapped=mapped)


def task_url(dag_id: str, run_id: str, task_id: str, *, mapped: bool = False) -> str:
    """A page of Airflow's UI: a task's log, or the list of its mapped tasks.

    A path if `[api] base_url` is not set: browsers know the host better than Airflow does.
    """
    if AIRFLOW_V_3_0_PLUS:
        base = (conf.get("api", "base_url", fallback=None) or "").rstrip("/")
        dag, run, task = (quote(name, safe="") for name in (dag_id, run_id, task_id))
        return f"{base}/dags/{dag}/runs/{run}/tasks/{task}{'/mapped' if mapped else ''}"
    base = conf.get("webserver", "base_url").rstrip("/")
    tab = "mapped_tasks" if mapped else "logs"
    query = urlencode({"dag_run_id": run_id, "task_id": task_id, "tab": tab}, quote_via=quote)
    return f"{base}/dags/{quote(dag_id, safe='')}/grid?{query}"


def nearest(operator: Any, kind: str, towards: str) -> Any:
    """The nearest task of a kind; a DAG may copy one table after the other.

    Parameters:
        kind: the name of its class, or of a base class.
        towards: the attribute with the ids of the next tasks.
    """
    tasks = operator.dag.task_dict
    seen: set[str] = set()
    found: list[str] = sorted(getattr(operator, towards))
    while found:
        for task_id in found:
            if _is(tasks[task_id], kind):
                return tasks[task_id]
        seen.update(found)
        found = sorted({i for task_id in found for i in getattr(tasks[task_id], towards)} - seen)
    return None


def _is(task: Any, kind: str) -> bool:
    # A serialized task knows only the name of its own class.
    operator_class = getattr(task, "operator_class", type(task))
    return kind in (
        task.task_type,
        *(each.__name__ for each in getattr(operator_class, "__mro__", ())),
    )
