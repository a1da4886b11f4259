"""Airflow for tests: one DAG run in its own process, or a real scheduler with all components.

Nothing here imports Airflow, which runs in its own processes, in any supported version.
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
