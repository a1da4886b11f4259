"""Loads that repeat, on a real Airflow: any night can be cleared, and runs as a new night."""

from __future__ import annotations

from penstock import watermarks
from penstock_testkit.airflow import AirflowStack, Run

from ..concurrent_cases import concurrent_test
from .lines import PATIENCE, Lines, ask, digest, execute

DAGS = """
from datetime import timedelta

from airflow.sdk import DAG, Asset

from penstock_airflow import CopyTableOperator, copy_table

NIGHT = dict(
    source_conn_id="{{ dag_run.conf['source'] }}", target_conn_id="{{ dag_run.conf['target'] }}",
    table="public.lineitem", mode="upsert", incremental="xmin", deletes="hard",
    retries=1, retry_delay=timedelta(seconds=1),
)
with DAG("lines_night_group", schedule=None):
    copy_table(group_id="lines", partitions=2, **NIGHT)
with DAG("lines_night_one", schedule=None):
    CopyTableOperator(task_id="lines", outlet=Asset("lines"), **NIGHT)
"""
NIGHT_KEY = "ALTER TABLE public.lineitem ADD PRIMARY KEY (l_orderkey, l_linenumber)"
NIGHTLY_CHANGES = (
    "UPDATE public.lineitem SET l_tax = l_tax + 0.01 WHERE l_orderkey % 50 = 0",
    "DELETE FROM public.lineitem WHERE l_orderkey IN (SELECT min(l_orderkey) FROM public.lineitem)",
)


def prepare(stack: AirflowStack) -> None:
    """Add the DAGs of these cases to a new stack."""
    stack.add_dag(DAGS, "lines_night_group")
    stack.unpause("lines_night_one")


def check_same_as_source(lines: Lines, run: Run, epoch: int) -> None:
    run.succeeded(timeout=4 * PATIENCE)
    assert digest(lines.target) == digest(lines.source)
    (mark,) = watermarks(target=lines.target)
    assert mark.epoch == epoch
    assert mark.rows == ask(lines.target, "SELECT count(*) FROM public.lineitem")
    lines.check_no_backend()


def clear_the_first_night(lines: Lines, variant: str, last: str) -> Run:
    for url in (lines.source, lines.target):
        execute(url, NIGHT_KEY)
    first = lines.run(variant)
    check_same_as_source(lines, first, 1)
    execute(lines.source, *NIGHTLY_CHANGES)
    check_same_as_source(lines, lines.run(variant), 2)
    execute(lines.source, *NIGHTLY_CHANGES)
    first.clear_run()
    first.wait_for(last, try_number=2)
    check_same_as_source(lines, first, 3)
    night = first.xcom(last)["night"]
    assert night["full"] == ""
    assert 0 < night["read"] < night["rows"]
    assert night["deleted"] > 0
    return first


@concurrent_test
def test_a_night_of_a_group_can_be_cleared(lines: Lines) -> None:
    run = clear_the_first_night(lines, "night_group", "lines.verify")
    # Merged rows are not copied again, and not lost.
    run.clear(("lines.copy", 0), downstream=True)
    run.wait_for("lines.release", try_number=3)
    check_same_as_source(lines, run, 3)


@concurrent_test
def test_a_night_of_one_task_can_be_cleared(lines: Lines) -> None:
    run = clear_the_first_night(lines, "night_one", "lines")
    (task,) = run.rest.get(f"{run.path}/taskInstances/lines/state-store")["task_state_store"]
    assert task["key"] == "penstock_watermark"
    assert run.xcom("lines")["night"] == task["value"]
    assets = run.rest.get("/assets", name_pattern="lines", limit=100)["assets"]
    (asset,) = [each["id"] for each in assets if each["name"] == "lines"]
    (mirrored,) = run.rest.get(f"/assets/{asset}/state-store")["asset_state_store"]
    assert mirrored["value"] == task["value"]
