"""Outcomes of copies whose tasks are marked and cleared, cell by cell of `clearing.ROWS`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest

import penstock
from penstock_testkit.airflow import AirflowStack, Run, until

from ..concurrent_cases import ConcurrentCases, concurrent_test
from . import clearing as c
from .lines import PATIENCE, Gate, Lines, ask, connect, digest, execute
from .local_nights import NIGHT_KEY

# `all` tests every cell; a regular expression, the cells whose names match it.
SELECTION = os.environ.get("PENSTOCK_AIRFLOW_MATRIX", "")
PARTITIONS = 4
DEGREE = 2
# Seconds for all tasks of a DAG run, some of which run twice, while other cases run.
LONG = 10 * PATIENCE
# Partitions held in mid-copy; those before them are committed.
HELD = (2, 3)
DAGS = f"""
import time
from datetime import timedelta

from airflow.sdk import DAG, BaseOperator, TaskGroup

from penstock_airflow import (
    CopyPartitionOperator, CopyTableOperator, HoldSnapshotOperator, PlanCopyOperator,
    PrepareCopyOperator, ReleaseSnapshotOperator, VerifyCopyOperator, copy_table,
)

ENDS = dict(
    source_conn_id="{{{{ dag_run.conf['source'] }}}}",
    target_conn_id="{{{{ dag_run.conf['target'] }}}}",
)
TARGET = dict(target_conn_id=ENDS["target_conn_id"])
# A variable stands for a change of this file.
OF_VARIABLE = "{{{{ var.value.get(dag_run.conf['source'], '{PARTITIONS}') }}}}"
WHAT = dict(table="public.lineitem", partitions=OF_VARIABLE)
RETRIES = dict(retries=2, retry_delay=timedelta(seconds=1))
GROUP = dict(group_id="lines", degree={DEGREE}, await_snapshot=20, **ENDS, **WHAT, **RETRIES)

# Ends only once it is cleared.
class Wait(BaseOperator):
    def execute(self, context):
        while context["ti"].try_number == 1:
            time.sleep(1)


class Pass(BaseOperator):
    def execute(self, context):
        pass


with DAG("clearing_group", schedule=None):
    copy_table(mode="truncate", **GROUP)
with DAG("clearing_append", schedule=None):
    copy_table(mode="append", **GROUP)
with DAG("clearing_unshared", schedule=None):
    copy_table(
        mode="replace", strategy="range", key="l_orderkey", where="l_orderkey > 0", **GROUP
    )
with DAG("clearing_one_task", schedule=None):
    CopyTableOperator(
        task_id="lines", mode="truncate", degree={DEGREE}, **ENDS, **WHAT, **RETRIES
    )
with DAG("clearing_one_append", schedule=None):
    CopyTableOperator(
        task_id="lines", mode="append", degree={DEGREE}, **ENDS, **WHAT, **RETRIES
    )
NIGHT = dict(mode="upsert", incremental="xmin", deletes="hard")
with DAG("clearing_night_group", schedule=None):
    copy_table(**NIGHT, **GROUP)
with DAG("clearing_night_workers", schedule=None):
    copy_table(workers={DEGREE}, **NIGHT, **{{**GROUP, "degree": 1}})
with DAG("clearing_night_one_task", schedule=None):
    CopyTableOperator(task_id="lines", degree={DEGREE}, **NIGHT, **ENDS, **WHAT, **RETRIES)
# A pool that counts deferred tasks, too.
with DAG("clearing_one_slot", schedule=None, default_args=dict(pool="one_slot")):
    copy_table(mode="truncate", **GROUP)
with DAG("clearing_celery", schedule=None):
    copy_table(mode="truncate", executor="CeleryExecutor", **GROUP)
with DAG("clearing_worker", schedule=None):
    copy_table(mode="truncate", snapshot_holder="worker", **GROUP)
with DAG("clearing_workers", schedule=None):
    copy_table(mode="truncate", workers={DEGREE}, **{{**GROUP, "degree": 1}})
with DAG("clearing_recopy", schedule=None):
    copy_table(mode="truncate", recopy=True, **GROUP)
with DAG("clearing_after", schedule=None):
    Wait(task_id="first") >> Pass(task_id="second") >> copy_table(mode="truncate", **GROUP)
with DAG("clearing_wired", schedule=None, default_args=RETRIES), TaskGroup("lines"):
    prepare = PrepareCopyOperator(task_id="prepare", mode="truncate", **ENDS, **WHAT)
    run_id = prepare.output
    plan = PlanCopyOperator(task_id="plan", run_id=run_id, **TARGET)
    copy = CopyPartitionOperator.partial(
        task_id="copy", max_active_tis_per_dagrun={DEGREE}, await_snapshot=20, **ENDS
    ).expand(partition=plan.output)
    verify = VerifyCopyOperator(task_id="verify", run_id=run_id, copied=copy.output, **ENDS)
    HoldSnapshotOperator(task_id="snapshot", run_id=run_id, **ENDS)
    release = ReleaseSnapshotOperator(task_id="release", run_id=run_id, **TARGET).as_teardown()
    copy >> verify >> release
    copy >> release
"""
DAG_IDS = {
    c.GROUP: "group",
    c.APPEND: "append",
    c.UNSHARED: "unshared",
    c.ONE_TASK: "one_task",
    c.ONE_APPEND: "one_append",
    c.WIRED: "wired",
    c.CELERY: "celery",
    c.WORKER: "worker",
    c.RECOPY: "recopy",
    c.WORKERS: "workers",
    c.AFTER: "after",
}
NIGHTS = ("night_group", "night_workers", "night_one_task")
# Permanent, so nothing retries it.
REFUSE = """
    CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN RAISE EXCEPTION ''no such row, please''; END';
    CREATE TRIGGER refuse AFTER INSERT ON public.lineitem FOR EACH ROW
        WHEN (NEW.l_orderkey = 40000) EXECUTE FUNCTION public.refuse()
"""
REFUSE_ALL = """
    CREATE FUNCTION public.refuse_all() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN RAISE EXCEPTION ''no rows, please''; END';
    CREATE TRIGGER refuse_all BEFORE INSERT ON public.lineitem FOR EACH STATEMENT
        EXECUTE FUNCTION public.refuse_all()
"""
WAITING = """
    SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
        AND datname = current_database() AND application_name LIKE 'penstock%%'
"""


def prepare(stack: AirflowStack) -> None:
    """Add the DAGs of these cells to a new stack."""
    pool = {"name": "one_slot", "slots": 1, "include_deferred": True}
    stack.rest.call("POST", "/pools", pool)
    stack.add_dag(DAGS, "clearing_group")
    for name in (*DAG_IDS.values(), "one_slot", *NIGHTS):
        stack.unpause(f"clearing_{name}")


@dataclass(frozen=True)
class Clearing:
    """The test of a cell."""

    cell: c.Cell

    def __call__(self, lines: Lines) -> None:
        moment, go_on = MOMENTS[self.cell.moment](lines, self.cell)
        run = moment
        for act in self.cell.acts:
            if act in c.OUTSIDE:
                OUTSIDE[act](lines)
                continue
            ACTS[act](run, self.cell)
            # A running task is asked to end, and must not finish before that.
            if act in c.ENDING:
                run.wait(timeout=LONG)
            go_on()
            state = run.wait(timeout=LONG)
        found = {"success": c.GREEN, "failed": c.RED}[state]
        rows = digest(lines.target)
        whole = rows == lines.content
        lines.check_no_backend()
        tasks = {(t.task_id, t.map_index): t.state for t in run.tasks()}
        expected = c.GREEN if self.cell.ends == c.TAKEN else self.cell.ends
        seen = f"{found}, {rows[0]:,} of {lines.content[0]:,} rows: {tasks}"
        if self.cell.form not in SINGLE and found != expected:
            seen += "\n" + run.log("lines.release")
        assert found == expected, seen
        assert rows[0] == rows[1], seen
        if self.cell.ends == c.GREEN:
            assert whole, seen
            if self.cell.form not in SINGLE:
                status = lines.status(run)
                assert len(status.committed) == len(status.run.plan.partitions), seen
                # A user may skip `verify`, which ends a run.
                if c.MARK_VERIFY_SUCCESS not in self.cell.acts:
                    assert status.run.status == "done", seen


def _trigger(lines: Lines, cell: c.Cell) -> Run:
    return _run(lines, DAG_IDS[cell.form])


def _run(lines: Lines, name: str) -> Run:
    conf = {side: lines.conn_id(side) for side in ("source", "target")}
    return lines.airflow.trigger(f"clearing_{name}", conf=conf)


Moment = tuple[Run, Callable[[], None]]


def _before(lines: Lines, cell: c.Cell) -> Moment:
    run = _trigger(lines, cell)
    run.wait_for("first", states=["running"], timeout=LONG)
    return run, lambda: None


def _planning(lines: Lines, cell: c.Cell) -> Moment:
    locker = connect(lines.source)
    locker.autocommit = False
    locker.execute("LOCK TABLE public.lineitem IN ACCESS EXCLUSIVE MODE")
    lines._stack.callback(locker.close)
    run = _trigger(lines, cell)
    until(
        lambda: True if ask(lines.source, WAITING) else None,
        LONG,
        lambda: f"nobody plans: {run.tasks()}",
    )
    return run, locker.close


def _copying(lines: Lines, cell: c.Cell) -> Moment:
    gates: list[Gate] = [lines.gate(number, of=PARTITIONS) for number in HELD]
    run = _trigger(lines, cell)
    for gate in gates:
        gate.waiting(1, LONG)

    def open_gates() -> None:
        for gate in gates:
            gate.open()

    return run, open_gates


def _failed(lines: Lines, cell: c.Cell) -> Moment:
    execute(lines.target, REFUSE)
    run = _trigger(lines, cell)
    assert run.wait(timeout=LONG) == "failed", run.tasks()
    execute(lines.target, "DROP TRIGGER refuse ON public.lineitem")
    return run, lambda: None


def _done(lines: Lines, cell: c.Cell) -> Moment:
    run = _trigger(lines, cell)
    run.succeeded(timeout=LONG)
    return run, lambda: None


def _night(lines: Lines, cell: c.Cell) -> Moment:
    for url in (lines.source, lines.target):
        execute(url, NIGHT_KEY)
    for _ in range(2):
        run = _run(lines, f"night_{DAG_IDS[cell.form]}")
        run.succeeded(timeout=LONG)
    return run, lambda: None


MOMENTS = {
    c.BEFORE: _before,
    c.PLANNING: _planning,
    c.COPYING: _copying,
    c.FAILED: _failed,
    c.DONE: _done,
    c.NIGHT: _night,
}

SINGLE = (c.ONE_TASK, c.ONE_APPEND)


def _load_otherwise(lines: Lines) -> None:
    spec = penstock.CopySpec(
        source=lines.source,
        target=lines.target,
        table="public.lineitem",
        mode="truncate",
        where="l_orderkey < 1000",
    )
    list(penstock.copy(spec))


def _change_options(lines: Lines) -> None:
    variable = {"key": lines.conn_id("source"), "value": "3"}
    lines.airflow.rest.call("POST", "/variables", variable)


OUTSIDE: dict[str, Callable[[Lines], None]] = {
    c.REFUSE_ROWS: lambda lines: execute(lines.target, REFUSE_ALL),
    c.EMPTY_TABLE: lambda lines: execute(lines.target, "TRUNCATE public.lineitem"),
    c.DELETE_ROWS: lambda lines: execute(
        lines.target, "DELETE FROM public.lineitem WHERE l_orderkey > 9000"
    ),
    c.LOAD_OTHERWISE: _load_otherwise,
    c.CHANGE_OPTIONS: _change_options,
}

Act = Callable[[Run, c.Cell], None]


def _copy(run: Run, cell: c.Cell) -> str | tuple[str, int]:
    """Return the copy in question: the failed one, or one that is copying."""
    if cell.form in SINGLE:
        return "lines"
    copies = run.mapped("lines.copy")
    of_interest = ("failed",) if cell.moment == c.FAILED else ("running", "failed")
    for copy in copies:
        if copy.state in of_interest:
            return "lines.copy", copy.map_index
    return "lines.copy", HELD[0] - 1


def _clear_copy(**how: bool) -> Act:
    return lambda run, cell: run.clear(_copy(run, cell), **how)


def _mark_copy(state: str) -> Act:
    def mark(run: Run, cell: c.Cell) -> None:
        task = _copy(run, cell)
        if isinstance(task, str):
            run.mark(task, state=state)
        else:
            run.mark(*task, state=state)

    return mark


def _clear(task: str, **how: bool) -> Act:
    return lambda run, _: run.clear(f"lines.{task}", **how)


def _mark(task: str, state: str) -> Act:
    return lambda run, _: run.mark(f"lines.{task}", state=state)


ACTS: dict[str, Act] = {
    c.MARK_RUN_FAILED: lambda run, _: run.mark_run("failed"),
    c.MARK_RUN_SUCCESS: lambda run, _: run.mark_run("success"),
    c.CLEAR_RUN: lambda run, _: run.clear_run(),
    c.CLEAR_RUN_FAILED: lambda run, _: run.clear_run(only_failed=True),
    c.MARK_COPY_FAILED: _mark_copy("failed"),
    c.MARK_COPY_SUCCESS: _mark_copy("success"),
    c.MARK_COPIES_SUCCESS: lambda run, _: run.mark("lines.copy", state="success"),
    c.CLEAR_COPY: _clear_copy(),
    c.CLEAR_COPY_DOWN: _clear_copy(downstream=True),
    c.CLEAR_COPY_UP: _clear_copy(upstream=True),
    c.CLEAR_COPY_BOTH: _clear_copy(upstream=True, downstream=True),
    c.CLEAR_COPIES: _clear("copy", downstream=True),
    c.CLEAR_COPIES_FAILED: _clear("copy", only_failed=True, downstream=True),
    c.CLEAR_VERIFY: _clear("verify"),
    c.CLEAR_VERIFY_DOWN: _clear("verify", downstream=True),
    c.CLEAR_VERIFY_UP: _clear("verify", upstream=True),
    c.CLEAR_PLAN_DOWN: _clear("plan", downstream=True),
    c.CLEAR_PREPARE: _clear("prepare"),
    c.CLEAR_PREPARE_DOWN: _clear("prepare", downstream=True),
    c.CLEAR_SNAPSHOT: _clear("snapshot"),
    c.CLEAR_RELEASE: _clear("release"),
    c.MARK_PREPARE_FAILED: _mark("prepare", "failed"),
    c.MARK_PREPARE_SUCCESS: _mark("prepare", "success"),
    c.MARK_PLAN_SUCCESS: _mark("plan", "success"),
    c.MARK_PLAN_FAILED: _mark("plan", "failed"),
    c.MARK_SNAPSHOT_FAILED: _mark("snapshot", "failed"),
    c.MARK_SNAPSHOT_SUCCESS: _mark("snapshot", "success"),
    c.MARK_VERIFY_FAILED: _mark("verify", "failed"),
    c.MARK_VERIFY_SUCCESS: _mark("verify", "success"),
    c.MARK_RELEASE_FAILED: _mark("release", "failed"),
    c.MARK_RELEASE_SUCCESS: _mark("release", "success"),
}


def _is_selected(cell: c.Cell) -> bool:
    if not SELECTION:
        return cell.usual
    return SELECTION == "all" or re.search(SELECTION, cell.name) is not None


@concurrent_test
def test_a_pool_of_one_slot_is_enough(lines: Lines) -> None:
    run = _run(lines, "one_slot")
    run.wait(timeout=LONG)
    lines.check_done(run, partitions=PARTITIONS)


@pytest.mark.parametrize(
    "case", [pytest.param(Clearing(cell), id=cell.name) for cell in c.CELLS if _is_selected(cell)]
)
def test_cell(cases: ConcurrentCases, case: Clearing) -> None:
    cases.outcome(case)
