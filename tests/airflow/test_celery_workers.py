"""A run that three Celery workers share, on what could be three machines; one of them is lost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import psutil
import pytest

from penstock_testkit.airflow import AirflowStack, until

from .copy_cases import all_but_one
from .lines import PATIENCE, Lines, Servers, at_gate, check_ended, partition_id, tries

pytestmark = [pytest.mark.airflow_stack, pytest.mark.timeout(600)]
MACHINES = 3
# Seconds after which redis delivers a message again whose task has not ended.
VISIBILITY = 15
DAG = f"""
from datetime import timedelta

from airflow.sdk import DAG

from penstock_airflow import copy_table

with DAG("lines_machines", schedule=None):
    copy_table(
        group_id="lines",
        source_conn_id="{{{{ dag_run.conf['source'] }}}}",
        target_conn_id="{{{{ dag_run.conf['target'] }}}}",
        table="public.lineitem",
        mode="truncate",
        partitions=16,
        workers={MACHINES},
        degree=2,
        retries=2,
        retry_delay=timedelta(seconds=1),
    )
"""
RECEIVED = re.compile(r"Task \S+\[([0-9a-f-]+)\] received")


@pytest.fixture
def lines(lineitem_servers: Servers) -> Iterator[Lines]:
    settings = {
        # One task on each machine at a time.
        "celery.worker_concurrency": 1,
        "celery.worker_prefetch_multiplier": 1,
        "celery_broker_transport_options.visibility_timeout": VISIBILITY,
    }
    with (
        AirflowStack(
            "CeleryExecutor", parallelism=8, celery_workers=MACHINES, settings=settings
        ) as stack,
        closing(Lines(stack, lineitem_servers)) as lines,
    ):
        stack.add_dag(DAG, "lines_machines")
        yield lines


def redelivered(stack: AirflowStack) -> set[str]:
    """Return the tasks of Celery that workers have received more than once."""
    received = Counter(
        name
        for worker in stack.celery_workers
        for name in RECEIVED.findall(stack.components[worker].log.read_text())
    )
    return {name for name, count in received.items() if count > 1}


def test_a_run_outlives_a_lost_worker_and_redelivered_tasks(lines: Lines) -> None:
    stack = lines.airflow
    gate = lines.gate(5)
    run = lines.run("machines")
    gate.reached()
    index, task = at_gate(run, gate)
    all_but_one(lines, run)
    before = lines.records(run)
    homes = {
        copy.map_index: _machine(stack, run.process("lines.copy", copy.map_index))
        for copy in run.mapped("lines.copy")
    }
    assert set(homes.values()) == set(stack.celery_workers)
    lost = stack.components[homes[index]]
    processes = [lost.process, *lost.process.children(recursive=True)]
    assert task in processes
    lost.kill()
    check_ended(processes)
    gate.reached()
    other, _ = at_gate(run, gate)
    assert other != index
    gate.open()
    lines.check_done(run)
    # Airflow finds out by the heartbeats that are missing, and the retry has nothing left to do.
    assert tries(run) == {index: 2}
    assert run.xcom("lines.copy", index)["partitions"] == []
    assert partition_id(5) in run.xcom("lines.copy", other)["partitions"]
    after = lines.records(run)
    assert {name: after[name] for name in before} == before

    until(
        lambda: redelivered(stack) or None,
        2 * PATIENCE,
        lambda: f"nothing is delivered again\n{stack.log_tails(*stack.celery_workers)}",
    )
    lines.check_done(run)
    assert lines.records(run) == after
    assert tries(run) == {index: 2}


def _machine(stack: AirflowStack, task: psutil.Process) -> str:
    """Return the Celery worker in which a task runs."""
    parents = {parent.pid for parent in task.parents()}
    (name,) = (n for n in stack.celery_workers if stack.components[n].process.pid in parents)
    return name
