"""A real Airflow with LocalExecutor: what the tests of the operators build on."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime

import psutil
import pytest

from penstock_testkit import ServerError
from penstock_testkit.airflow import AirflowStack, until

from . import stack_cases as cases

pytestmark = pytest.mark.airflow_stack

DAILY = """
from datetime import datetime, timezone

from airflow.sdk import DAG, Asset, BaseHook, BaseOperator


class Day(BaseOperator):
    template_fields = ("day",)

    def __init__(self, *, day, **kwargs):
        super().__init__(**kwargs)
        self.day = day

    def execute(self, context):
        context["outlet_events"][self.outlets[0]].extra = {"day": self.day}
        connection = BaseHook.get_connection("pg_src")
        return [self.day, connection.conn_type, connection.password, connection.extra_dejson]


first, last = (datetime(2026, 1, day, tzinfo=timezone.utc) for day in (1, 4))
with DAG("daily", schedule="@daily", start_date=first, end_date=last, catchup=False):
    Day(task_id="day", day="{{ ds }}", outlets=[Asset("postgres://h:1/d/s/t")])
"""


@pytest.fixture(scope="module")
def stack(local_stack: AirflowStack) -> AirflowStack:
    cases.prepare(local_stack)
    return local_stack


def test_a_killed_task_is_retried_alone(stack: AirflowStack) -> None:
    cases.killed_task_is_retried_alone(stack)


def test_a_marked_task_is_told(stack: AirflowStack) -> None:
    cases.marked_task_is_told(stack)


def test_a_marked_run_ends_its_tasks(stack: AirflowStack) -> None:
    cases.marked_run_ends_its_tasks(stack)


def test_a_cleared_index_runs_again_alone(stack: AirflowStack) -> None:
    cases.cleared_index_runs_again_alone(stack)


def test_a_deferred_task_goes_on_after_its_triggerer_was_killed(stack: AirflowStack) -> None:
    cases.deferred_task_goes_on_after_its_triggerer_was_killed(stack)


def test_a_backfill_runs_every_day_and_again(stack: AirflowStack) -> None:
    stack.set_connection("pg_src", "postgresql://me:first@h/d")
    stack.set_connection("pg_src", "postgresql://me:s%20cret@h/d?sslmode=disable")
    stack.add_dag(DAILY, "daily")
    days = ["2026-01-02", "2026-01-03"]
    runs = stack.backfill("daily", *days)
    for run, day in zip(runs, days, strict=True):
        run.succeeded()
        assert run.xcom("day") == [day, "postgres", "s cret", {"sslmode": "disable"}]
        (event,) = run.asset_events()
        assert (event["uri"], event["extra"]) == ("postgres://h:1/d/s/t", {"day": day})
    again = stack.backfill("daily", *days, reprocess="completed")
    assert [run.run_id for run in again] == [run.run_id for run in runs]
    for run in again:
        run.wait_for("day", states=["success"], try_number=2)
    known = {run.run_id for run in stack.runs("daily")}
    assert known >= {run.run_id for run in runs}


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_scheduler_that_ended_can_be_started_again(stack: AirflowStack, end: str) -> None:
    scheduler = stack.components["scheduler"]
    getattr(scheduler, end)()
    assert not scheduler.running
    run, gate = cases.begin(stack, "children")
    gate.touch()
    scheduler.start()
    run.succeeded()


def test_a_file_that_cannot_be_imported_is_an_error(stack: AirflowStack) -> None:
    with pytest.raises(ServerError, match="ValueError: no such mode"):
        stack.add_dag("# airflow dag\nraise ValueError('no such mode')", "broken")


def test_nothing_outlives_the_process_that_started_it(stack: AirflowStack) -> None:
    program = (
        "import os, signal, sys;"
        "from pathlib import Path;"
        "from penstock_testkit.airflow import Component;"
        "command = ['sh', '-c', 'setsid sleep 600 & exec sleep 601'];"
        "part = Component('part', command, dict(os.environ), Path(sys.argv[1]));"
        "part.start(); print(part.process.pid, flush=True); os.kill(os.getpid(), signal.SIGSTOP)"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", program, stack.home / "part.log"],
        stdout=subprocess.PIPE,
        env=dict(os.environ),
        text=True,
    )
    assert owner.stdout is not None
    part = psutil.Process(int(owner.stdout.readline()))
    keeper = part.parent()
    assert keeper is not None
    family = until(
        lambda: found if len(found := keeper.children(recursive=True)) == 2 else None,
        60,
        lambda: f"expected two processes, found {keeper.children(recursive=True)}",
    )
    owner.kill()
    owner.wait()
    owner.stdout.close()
    for process in family:
        cases.assert_gone(process)


def test_a_run_can_be_for_a_date(stack: AirflowStack) -> None:
    gate = stack.home / "open"
    gate.touch()
    date = datetime(2026, 5, 6, tzinfo=UTC)
    run = stack.trigger("children", conf={"gate": str(gate)}, logical_date=date)
    run.succeeded()
    assert "2026-05-06" in run.rest.get(run.path)["logical_date"]
