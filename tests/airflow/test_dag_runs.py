"""DAG runs by `dag.test()` in both Airflows, on which other tests of this folder rely."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock_testkit.airflow import DagRunner, DagTestError

if TYPE_CHECKING:
    from tests.airflow.conftest import DagFile

MAPPED = """
import os
import subprocess
from datetime import timedelta

from airflow.providers.common.compat.sdk import DAG, Asset, BaseHook, BaseOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent


class Told(BaseTrigger):
    def __init__(self, word):
        super().__init__()
        self.word = word

    def serialize(self):
        return (f"{__name__}.Told", {"word": self.word})

    async def run(self):
        yield TriggerEvent({"word": self.word, "in_triggerer": self.trigger_id is not None})


class Plan(BaseOperator):
    template_fields = ("day",)

    def __init__(self, *, day, **kwargs):
        super().__init__(**kwargs)
        self.day = day

    def execute(self, context):
        return [{"id": f"p{number}"} for number in range(context["dag_run"].conf["parts"])]


class Child(BaseOperator):
    template_fields = ("part",)

    def __init__(self, *, part, **kwargs):
        super().__init__(**kwargs)
        self.part = part

    def execute(self, context):
        said = subprocess.run(["echo", self.part["id"]], capture_output=True, text=True, check=True)
        print("the child said", said.stdout)
        if self.part["id"] == "p1" and context["ti"].try_number == 1:
            raise RuntimeError("p1 fails once")
        return said.stdout.strip()


class Wait(BaseOperator):
    def execute(self, context):
        self.defer(trigger=Told("now"), method_name="told")

    def told(self, context, event=None):
        return {**event, "host": BaseHook.get_connection("pg_src").host, "mood": os.environ["MOOD"]}


with DAG("mapped", schedule=None) as dag:
    plan = Plan(task_id="plan", day="{{ ds }}")
    children = Child.partial(
        task_id="child",
        retries=1,
        retry_delay=timedelta(0),
        map_index_template="{{ task.part['id'] }}",
    ).expand(part=plan.output)
    wait = Wait(task_id="wait", trigger_rule="none_failed", outlets=[Asset("postgres://h:1/d/s/t")])
    children >> wait
"""


def test_a_result_has_the_outcome_of_every_task(
    any_dag_runner: DagRunner, dag_file: DagFile
) -> None:
    run = any_dag_runner.run(
        dag_file(MAPPED),
        "mapped",
        run_conf={"parts": 3},
        logical_date=datetime(2026, 3, 4, tzinfo=UTC),
        connections={"pg_src": "postgres://somebody@somewhere/db"},
        env={"MOOD": "calm"},
    ).succeeded()
    assert set(run.states) == {"plan", "child[0]", "child[1]", "child[2]", "wait"}
    assert run.task("plan").rendered_fields == {"day": "2026-03-04"}
    children = run.mapped("child")
    assert [child.value for child in children] == ["p0", "p1", "p2"]
    assert [child.rendered_map_index for child in children] == ["p0", "p1", "p2"]
    assert [child.try_number for child in children] == [1, 2, 1]
    assert ["p1 fails once" in child.log for child in children] == [False, True, False]
    assert all(f"the child said p{index}" in child.log for index, child in enumerate(children))
    resumed = {"word": "now", "in_triggerer": False, "host": "somewhere", "mood": "calm"}
    assert run.task("wait").value == resumed
    assert [(event.uri, event.task_id) for event in run.asset_events] == [
        ("postgres://h:1/d/s/t", "wait")
    ]


def test_an_empty_mapped_task_is_skipped(any_dag_runner: DagRunner, dag_file: DagFile) -> None:
    run = any_dag_runner.run(
        dag_file(MAPPED),
        "mapped",
        run_conf={"parts": 0},
        connections={"pg_src": "postgres://somebody@somewhere/db"},
        env={"MOOD": "calm"},
    ).succeeded()
    assert run.states == {"plan": "success", "child": "skipped", "wait": "success"}


def test_a_failed_run_is_reported(any_dag_runner: DagRunner, dag_file: DagFile) -> None:
    run = any_dag_runner.run(dag_file(MAPPED), "mapped", run_conf={"parts": 1})
    assert run.state == "failed"
    assert run.states == {"plan": "success", "child[0]": "success", "wait": "failed"}
    with pytest.raises(AssertionError, match="pg_src"):
        run.succeeded()


def test_an_unreadable_file_is_an_error(any_dag_runner: DagRunner, dag_file: DagFile) -> None:
    with pytest.raises(DagTestError, match=r"found no DAG 'other', found \['mapped'\]"):
        any_dag_runner.run(dag_file(MAPPED), "other")
    with pytest.raises(DagTestError, match="ValueError: no such mode"):
        any_dag_runner.run(dag_file("raise ValueError('no such mode')"), "any")


def test_an_endless_run_is_stopped(dag_runner: DagRunner, dag_file: DagFile) -> None:
    with pytest.raises(DagTestError, match=r"not done after 0\.5 s"):
        dag_runner.run(dag_file("import time; time.sleep(600)"), "any", timeout=0.5)


def test_runners_share_nothing(dag_file: DagFile, tmp_path: Path) -> None:
    first, second = (DagRunner(tmp_path / name) for name in ("one", "two"))
    assert first.database != second.database
    assert first.version == second.version
    assert first.version.startswith("3.")
