"""A real Airflow with CeleryExecutor: what the tests of the operators build on."""

from __future__ import annotations

import psutil
import pytest

from penstock_testkit.airflow import AirflowStack

from . import stack_cases as cases

pytestmark = pytest.mark.airflow_stack


@pytest.fixture(scope="module")
def stack(celery_stack: AirflowStack) -> AirflowStack:
    cases.prepare(celery_stack)
    return celery_stack


def test_tasks_run_in_both_workers(stack: AirflowStack) -> None:
    run, gate = cases.begin(stack, "children")
    tasks = [run.process("child", index) for index in range(3)]
    workers = {
        name
        for name in ("worker-1", "worker-2")
        for task in tasks
        if stack.components[name].process in task.parents()
    }
    gate.touch()
    run.succeeded()
    assert workers == {"worker-1", "worker-2"}


def test_a_killed_task_is_retried_alone(stack: AirflowStack) -> None:
    cases.killed_task_is_retried_alone(stack)


def test_a_marked_task_is_told(stack: AirflowStack) -> None:
    cases.marked_task_is_told(stack)


def test_a_cleared_index_runs_again_alone(stack: AirflowStack) -> None:
    cases.cleared_index_runs_again_alone(stack)


def test_a_deferred_task_goes_on_after_its_triggerer_was_killed(stack: AirflowStack) -> None:
    cases.deferred_task_goes_on_after_its_triggerer_was_killed(stack)


def test_a_task_is_retried_after_its_worker_was_killed(stack: AirflowStack) -> None:
    run, gate = cases.begin(stack, "children")
    parents = run.process("child", 0).parents()
    lost = next(part for part in stack.components.values() if part.process in parents)
    lost.kill()
    assert not psutil.pid_exists(run.task("child", 0).pid or 0)
    lost.start()
    run.wait_for("child", 0, ["running"], try_number=2, timeout=180)
    gate.touch()
    run.succeeded()
