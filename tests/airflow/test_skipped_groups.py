"""Groups that an earlier task skips: nothing is copied, and the DAG run succeeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock_testkit.airflow import DagRunner

if TYPE_CHECKING:
    from tests.airflow.conftest import DagFile

# No server is contacted.
DAGS = """
from datetime import datetime

from airflow.exceptions import AirflowSkipException
from airflow.providers.common.compat.sdk import DAG, task

from penstock_airflow import copy_table


@task
def passes(): ...


def group():
    copied = copy_table(
        group_id="lines", source_conn_id="a", target_conn_id="b", table="public.x", partitions=3
    )
    copied >> passes.override(task_id="after")()
    return copied


def dag(name):
    return DAG(name, schedule=None, start_date=datetime(2026, 1, 1))


with dag("branch"):
    @task.branch
    def choice():
        return "other"

    choice() >> [group(), passes.override(task_id="other")()]

with dag("short_circuit"):
    @task.short_circuit(ignore_downstream_trigger_rules=False)
    def enough():
        return False

    enough() >> passes.override(task_id="between")() >> group()

with dag("raised"):
    @task
    def nothing_to_do():
        raise AirflowSkipException("nothing to do")

    nothing_to_do() >> passes.override(task_id="between")() >> group()

with dag("expanded_over_nothing"):
    @task
    def numbers():
        return []

    @task
    def each(number): ...

    each.expand(number=numbers()) >> group()

with dag("nothing_has_failed"):
    passes() >> passes.override(task_id="alarm", trigger_rule="one_failed")() >> group()
"""
NAMES = ("branch", "short_circuit", "raised", "expanded_over_nothing", "nothing_has_failed")


@pytest.mark.parametrize("name", NAMES)
def test_a_skipped_group_copies_nothing(
    any_dag_runner: DagRunner, dag_file: DagFile, name: str
) -> None:
    run = any_dag_runner.run(dag_file(DAGS), name).succeeded()
    of_group = {task: state for task, state in run.states.items() if task.startswith("lines.")}
    assert set(of_group) >= {"lines.prepare", "lines.copy", "lines.verify", "lines.release"}
    assert {*of_group.values(), run.states["after"]} == {"skipped"}
