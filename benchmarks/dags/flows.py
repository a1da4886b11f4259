"""The DAGs that `benchmarks/run.py --only airflow` runs."""

from datetime import datetime
from typing import Any

from airflow.sdk import DAG, BaseOperator

from penstock_airflow import CopyTableOperator, copy_table

TABLE: dict[str, Any] = {
    "source_conn_id": "pg_src",
    "target_conn_id": "pg_dst",
    "table": "flows.lineitem",
    "mode": "truncate",
    "partitions": 16,
}


class Nothing(BaseOperator):
    """A mapped task that does nothing, which shows Airflow's own cost."""

    def __init__(self, *, number: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.number = number

    def execute(self, context: Any) -> int:
        return self.number


def dag(name: str) -> DAG:
    return DAG(name, schedule=None, start_date=datetime(2026, 1, 1))


with dag("flow_nothing"):
    Nothing.partial(task_id="nothing", max_active_tis_per_dagrun=2).expand(number=list(range(16)))

with dag("flow_mapped"):
    copy_table(group_id="copy", **TABLE, degree=2)

with dag("flow_packed"):
    copy_table(group_id="copy", **TABLE, degree=2, partitions_per_task=8)

with dag("flow_one_task"):
    CopyTableOperator(task_id="copy", **TABLE, degree=2)
