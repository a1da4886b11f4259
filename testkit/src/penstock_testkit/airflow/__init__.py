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
from penstock_testkit.airflow.migrated import locked

__all__ = [
    "AssetEvent",
    "DagRunResult",
    "DagRunner",
    "DagTestError",
    "TaskRun",
    "locked",
]
