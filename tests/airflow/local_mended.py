"""A row is put right in the source, and the task that failed over it cleared: nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from penstock_testkit.airflow import AirflowStack, Run

from .lines import PATIENCE, Lines, Servers, ask, digest, execute

pytestmark = pytest.mark.airflow_stack

# In the middle of the table, and so of a partition that is not the last one.
ORDER = 75008
REFUSE = f"""
    CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN RAISE EXCEPTION ''no such row, please''; END';
    CREATE TRIGGER refuse AFTER INSERT ON public.lineitem FOR EACH ROW
        WHEN (NEW.l_orderkey = {ORDER} AND NEW.l_comment <> 'mended')
        EXECUTE FUNCTION public.refuse()
"""
MEND = f"UPDATE public.lineitem SET l_comment = 'mended' WHERE l_orderkey = {ORDER}"
DAGS = """
from datetime import timedelta

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from penstock_airflow import CopyTableOperator, copy_table

ENDS = dict(
    source_conn_id="{{ dag_run.conf['source'] }}", target_conn_id="{{ dag_run.conf['target'] }}"
)
BY_KEY = dict(strategy="range", key="l_orderkey")
VARIANTS = {
    "append": dict(mode="append", verify="counts", **BY_KEY),
    "truncate": dict(mode="truncate", verify="checksums", **BY_KEY),
    # Updated, the row goes to the blocks of another partition.
    "blocks": dict(mode="append", strategy="ctid"),
}
for name, arguments in VARIANTS.items():
    with DAG(f"lines_mended_{name}", schedule=None):
        copied = copy_table(
            group_id="lines", table="public.lineitem", partitions=4, retries=1,
            retry_delay=timedelta(seconds=1), **ENDS, **arguments,
        )
        copied >> EmptyOperator(task_id="afterwards")
with DAG("lines_mended_whole", schedule=None):
    CopyTableOperator(
        task_id="lines", table="public.lineitem", partitions=4, mode="append", **BY_KEY, **ENDS
    ) >> EmptyOperator(task_id="afterwards")
"""


@pytest.fixture(scope="module")
def mended_stack(local_stack: AirflowStack) -> AirflowStack:
    local_stack.add_dag(DAGS, "lines_mended_append")
    for name in ("truncate", "blocks", "whole"):
        local_stack.unpause(f"lines_mended_{name}")
    return local_stack


@pytest.fixture
def refusing(mended_stack: AirflowStack, lineitem_servers: Servers) -> Iterator[Lines]:
    with closing(Lines(mended_stack, lineitem_servers)) as made:
        execute(made.target, REFUSE)
        yield made


def is_there_once(lines: Lines, run: Run) -> None:
    run.succeeded(timeout=4 * PATIENCE)
    assert run.task("afterwards").state == "success"
    assert digest(lines.target) == digest(lines.source) != lines.content
    lines.check_no_backend()


@pytest.mark.parametrize("variant", ["append", "truncate", "blocks"])
def test_clearing_the_failed_task_ends_the_run_well(refusing: Lines, variant: str) -> None:
    run = refusing.run(f"mended_{variant}")
    assert run.wait(timeout=4 * PATIENCE) == "failed"
    assert "no such row, please" in "".join(
        run.log(task.task_id, task.map_index)
        for task in run.mapped("lines.copy")
        if task.state == "failed"
    )
    (failed,) = [task for task in run.mapped("lines.copy") if task.state == "failed"]
    execute(refusing.source, MEND)
    run.clear(("lines.copy", failed.map_index), downstream=True)
    run.wait_for("lines.copy", failed.map_index, try_number=failed.try_number + 1)
    is_there_once(refusing, run)
    assert {task.state for task in run.tasks()} == {"success"}
    log = run.log("lines.copy", failed.map_index)
    if variant == "blocks":
        assert "started over" in log
    else:
        name = run.xcom("lines.plan")[failed.map_index]["partitions"][0]
        assert f"{name}: read as of" in log
        assert "read later" in run.log("lines.verify")


def test_of_a_copy_in_one_task_too(refusing: Lines) -> None:
    run = refusing.run("mended_whole")
    assert run.wait(timeout=4 * PATIENCE) == "failed"
    assert ask(refusing.target, "SELECT count(*) > 0 FROM public.lineitem")
    execute(refusing.source, MEND)
    run.clear("lines", downstream=True)
    run.wait_for("lines", try_number=2)
    is_there_once(refusing, run)
