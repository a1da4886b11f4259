"""Airflow for tests: one DAG run in a process of its own, or a real scheduler with all its parts.

Nothing here imports airflow: it runs in processes of its own, whichever version that is.
"""

from penstock_testkit.airflow.dag_runs import (
    AssetEvent,
    DagRunner,
    DagRunResult,
    DagTestError,
    TaskRun,
)
from penstock_testkit.airflow.rest import Rest, RestError, Run, TaskInstance
from penstock_testkit.airflow.stack import AirflowStack, Executor
from penstock_testkit.component import Component
from penstock_testkit.waiting import until

__all__ = [
    "AirflowStack",
    "AssetEvent",
    "Component",
    "DagRunResult",
    "DagRunner",
    "DagTestError",
    "Executor",
    "Rest",
    "RestError",
    "Run",
    "TaskInstance",
    "TaskRun",
    "until",
]
