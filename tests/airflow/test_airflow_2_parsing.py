"""Hand-wired operators as Airflow 2.11 parses them; for Airflow 3, see the unit tests."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from penstock_testkit.airflow.environment import environment

SCRIPT = """
import json
from types import SimpleNamespace

from airflow.providers.common.compat.sdk import DAG
from airflow.serialization.serialized_objects import SerializedDAG
from penstock_airflow import (
    CopyPartitionOperator, PlanCopyOperator, PrepareCopyOperator, VerifyCopyOperator
)

ENDS = {"source_conn_id": "pg_src", "target_conn_id": "pg_dst"}
with DAG("copies", schedule=None) as dag:
    prepare = PrepareCopyOperator(task_id="prepare", table="s.t", **ENDS)
    plan = PlanCopyOperator(task_id="plan", target_conn_id="pg_dst", run_id=prepare.output)
    copy = CopyPartitionOperator.partial(task_id="copy", **ENDS).expand(partition=plan.output)
    VerifyCopyOperator(task_id="verify", run_id=prepare.output, copied=copy.output, **ENDS)
read = SerializedDAG.from_dict(json.loads(json.dumps(SerializedDAG.to_dict(dag))))
def key(task_id):
    return SimpleNamespace(
        dag_id="copies", run_id="manual__1+00:00", task_id=task_id, map_index=3
    )

links = {
    task_id: {
        link.name: link.get_link(task, ti_key=key(task_id)) for link in task.operator_extra_links
    }
    for task_id, task in read.task_dict.items()
}
template = read.get_task("copy").map_index_template
print("\\n" + json.dumps({"template": template, "links": links}))
"""


@pytest.fixture
def parsed(airflow_2: Path, tmp_path: Path) -> dict[str, Any]:
    env = environment(tmp_path / "airflow", tmp_path, {"webserver.base_url": "http://flow/"}, {})
    done = subprocess.run(
        [airflow_2, "-W", "ignore", "-c", SCRIPT],
        cwd=tmp_path,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_mapped_tasks_are_named_and_links_survive_serialization(parsed: dict[str, Any]) -> None:
    assert parsed["template"] == "{{ task.partition['label'] }}"
    grid = "http://flow/dags/copies/grid?dag_run_id=manual__1%2B00%3A00"
    report = {"Run report": f"{grid}&task_id=verify&tab=logs"}
    assert parsed["links"] == {
        "prepare": report,
        "plan": {},
        "copy": report,
        "verify": {**report, "Partitions": f"{grid}&task_id=copy&tab=mapped_tasks"},
    }
