"""A row is corrected in the source, and only the task that failed on it is cleared."""

from __future__ import annotations

from penstock_testkit.airflow import AirflowStack, Run

from ..concurrent_cases import concurrent_test
from .lines import PATIENCE, Lines, ask, digest, execute

# In the middle of the table, so in a partition that is not the last.
ORDER = 40000
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
    "truncate": dict(mode="truncate", verify="checksums", **BY_KEY),
    # Updated, the row goes to the blocks of another partition.
    "blocks": dict(mode="append", strategy="ctid"),
    "workers": dict(mode="truncate", verify="checksums", workers=2, degree=1, **BY_KEY),
    "workers_blocks": dict(mode="append", strategy="ctid", workers=2, degree=1),
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


def prepare(stack: AirflowStack) -> None:
    """Add the DAGs of these cases to a new stack."""
    stack.add_dag(DAGS, "lines_mended_truncate")
    for name in ("blocks", "workers", "workers_blocks", "whole"):
        stack.unpause(f"lines_mended_{name}")


def check_each_row_once(lines: Lines, run: Run) -> None:
    run.succeeded(timeout=4 * PATIENCE)
    assert run.task("afterwards").state == "success"
    assert digest(lines.target) == digest(lines.source) != lines.content
    lines.check_no_backend()


def mended(lines: Lines, variant: str) -> tuple[Run, int]:
    """Fail on a row, correct it, clear the failed task, and return its index."""
    execute(lines.target, REFUSE)
    run = lines.run(f"mended_{variant}")
    assert run.wait(timeout=4 * PATIENCE) == "failed"
    assert "no such row, please" in "".join(
        run.log(task.task_id, task.map_index)
        for task in run.mapped("lines.copy")
        if task.state == "failed"
    )
    (failed,) = [task for task in run.mapped("lines.copy") if task.state == "failed"]
    execute(lines.source, MEND)
    run.clear(("lines.copy", failed.map_index), downstream=True)
    run.wait_for("lines.copy", failed.map_index, try_number=failed.try_number + 1)
    check_each_row_once(lines, run)
    assert {task.state for task in run.tasks()} == {"success"}
    return run, failed.map_index


@concurrent_test
def test_clearing_the_failed_task_completes_the_run(lines: Lines) -> None:
    run, failed = mended(lines, "truncate")
    name = run.xcom("lines.plan")[failed]["partitions"][0]
    assert f"{name}: read as of" in run.log("lines.copy", failed)
    assert "read later" in run.log("lines.verify")


@concurrent_test
def test_clearing_the_failed_task_starts_over_if_the_row_has_moved(lines: Lines) -> None:
    run, failed = mended(lines, "blocks")
    assert "started over" in run.log("lines.copy", failed)


def mended_by_workers(lines: Lines, variant: str) -> str:
    """Fail on a row, correct it, clear the failed workers, and return their logs."""
    execute(lines.target, REFUSE)
    run = lines.run(f"mended_{variant}")
    assert run.wait(timeout=4 * PATIENCE) == "failed"
    workers = run.mapped("lines.copy")
    # Each has tried it: the row might have been refused for a reason of one machine's.
    assert {task.state for task in workers} == {"failed"}
    execute(lines.source, MEND)
    run.clear("lines.copy", only_failed=True, downstream=True)
    for task in workers:
        run.wait_for("lines.copy", task.map_index, try_number=task.try_number + 1)
    check_each_row_once(lines, run)
    assert {task.state for task in run.tasks()} == {"success"}
    return "".join(run.log("lines.copy", task.map_index) for task in workers)


@concurrent_test
def test_clearing_failed_workers_completes_the_run(lines: Lines) -> None:
    assert "read as of" in mended_by_workers(lines, "workers")


@concurrent_test
def test_clearing_failed_workers_starts_over_if_the_row_has_moved(lines: Lines) -> None:
    assert "started over" in mended_by_workers(lines, "workers_blocks")


@concurrent_test
def test_clearing_a_copy_in_one_task_completes_the_run(lines: Lines) -> None:
    execute(lines.target, REFUSE)
    run = lines.run("mended_whole")
    assert run.wait(timeout=4 * PATIENCE) == "failed"
    assert ask(lines.target, "SELECT count(*) > 0 FROM public.lineitem")
    execute(lines.source, MEND)
    run.clear("lines", downstream=True)
    run.wait_for("lines", try_number=2)
    check_each_row_once(lines, run)
