"""Links from a task of a copy to the run's report and to its partitions.

Airflow 3 computes a link in the task's process when the task has ended, and stores it as an XCom;
Airflow 2 computes it in the web server, which has only the serialized task. So a link depends on
the shape of the DAG alone: not on a run id, a connection or a group name.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from penstock_airflow.runs.nearest_task import COPIES, is_kind, nearest
from penstock_airflow.sdk import AIRFLOW_3, BaseOperatorLink, conf

REPORT_PREFIX = "/penstock"
REPORT_KEY = "penstock_report"
"""The key of the XCom that holds the report as a page."""
_FINAL_OPERATORS = ("VerifyCopyOperator", "CopyTableOperator", "CopyAllOperator")


class ReportLink(BaseOperatorLink):
    """A link to the run's report, which the task that ended the run has stored."""

    name = "Run report"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the page of the report; empty if no task of the DAG writes one."""
        if any(is_kind(operator, kind) for kind in _FINAL_OPERATORS):
            return report_url(ti_key.dag_id, ti_key.run_id, ti_key.task_id, ti_key.map_index)
        task = nearest(operator, "VerifyCopyOperator", "downstream_task_ids")
        return "" if task is None else report_url(ti_key.dag_id, ti_key.run_id, task.task_id)


class PartitionsLink(BaseOperatorLink):
    """A link to the list of mapped tasks, with each partition's name, tries and duration."""

    name = "Partitions"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the list of mapped tasks; empty if the DAG has none."""
        task = nearest(operator, COPIES, "upstream_task_ids")
        if task is None:
            return ""
        # Every kind of mapped task has this attribute, serialized or not, in both versions.
        mapped = hasattr(task, "partial_kwargs")
        return task_url(ti_key.dag_id, ti_key.run_id, task.task_id, mapped=mapped)


def report_url(dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> str:
    """Return the page of a run's report; in Airflow 2, the log of the task with the report.

    Args:
        dag_id: the DAG.
        run_id: the id of the DAG run.
        task_id: the task that has stored the report.
        map_index: the index of the mapped task; -1 if it is not mapped.
    """
    if not AIRFLOW_3:
        return task_url(dag_id, run_id, task_id)
    query = {"dag_id": dag_id, "run_id": run_id, "task_id": task_id}
    if map_index >= 0:
        query["map_index"] = str(map_index)
    return f"{_base()}{REPORT_PREFIX}/report?{urlencode(query, quote_via=quote)}"


def _base() -> str:
    """Return the base URL of Airflow 3; empty if it is not configured."""
    return (conf.get("api", "base_url", fallback=None) or "").rstrip("/")


def task_url(dag_id: str, run_id: str, task_id: str, *, mapped: bool = False) -> str:
    """Return a page of Airflow's UI: a task's log, or the list of its mapped tasks.

    The result is a path if `[api] base_url` is not set: a browser knows which host it talks to.

    Args:
        dag_id: the DAG.
        run_id: the id of the DAG run.
        task_id: the task.
        mapped: whether to return the list of mapped tasks.
    """
    if AIRFLOW_3:
        dag, run, task = (quote(name, safe="") for name in (dag_id, run_id, task_id))
        return f"{_base()}/dags/{dag}/runs/{run}/tasks/{task}{'/mapped' if mapped else ''}"
    base = conf.get("webserver", "base_url").rstrip("/")
    tab = "mapped_tasks" if mapped else "logs"
    query = urlencode({"dag_run_id": run_id, "task_id": task_id, "tab": tab}, quote_via=quote)
    return f"{base}/dags/{quote(dag_id, safe='')}/grid?{query}"
