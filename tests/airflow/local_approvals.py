"""Runs that ask a person, on a real Airflow: approved, rejected, and overtaken by other changes."""

from __future__ import annotations

import time
from typing import Any

from penstock import runs
from penstock.backends.api.execution.control import GIVEN_UP
from penstock_testkit.airflow import AirflowStack, Run

from ..concurrent_cases import concurrent_test
from .lines import PATIENCE, Lines, ask, execute

DAGS = """
from datetime import timedelta

from airflow.sdk import DAG

from penstock_airflow import CopyTableOperator, copy_table

ASKING = dict(
    source_conn_id="{{ dag_run.conf['source'] }}", target_conn_id="{{ dag_run.conf['target'] }}",
    table="public.items", mode="upsert", incremental="xmin", deletes="hard,1%",
    retries=2, retry_delay=timedelta(seconds=1), approve=["drift", "deletes"],
)
with DAG("lines_ask_group", schedule=None):
    copy_table(group_id="lines", partitions=2, **ASKING)
with DAG("lines_ask_one", schedule=None):
    CopyTableOperator(task_id="lines", **ASKING)
with DAG("lines_ask_briefly", schedule=None):
    CopyTableOperator(task_id="lines", response_timeout=timedelta(seconds=1), **ASKING)
"""
VARIANTS = ("ask_group", "ask_one", "ask_briefly")
ITEMS = (
    "CREATE TABLE public.items (id int PRIMARY KEY, word text)",
    "INSERT INTO public.items SELECT i, 'w' || i FROM generate_series(1, 200) AS i",
)
COLUMNS = """
    SELECT string_agg(attname || ' ' || atttypid::regtype, ', ' ORDER BY attname)
    FROM pg_attribute WHERE attrelid = 'public.items'::regclass AND attnum > 0
"""
ROWS = "SELECT count(*) || ' ' || coalesce(sum(hashtext(items::text)), 0) FROM public.items"
NEW_COLUMN = "ALTER TABLE public.items ADD note text DEFAULT 'none'"
FEWER_ROWS = "DELETE FROM public.items WHERE id <= 90"
# Below Airflow 3.3 it is `deferred`.
NO_PERSON_IS_FASTER = 4.0
PARKED = ["awaiting_input", "deferred"]


def prepare(stack: AirflowStack) -> None:
    """Add the DAGs of these cases to a new stack."""
    stack.add_dag(DAGS, f"lines_{VARIANTS[0]}")
    for name in VARIANTS[1:]:
        stack.unpause(f"lines_{name}")


def begin(lines: Lines, variant: str, *changes: str) -> Run:
    """Load the table, change the source, and begin the run that will ask."""
    execute(lines.source, *ITEMS)
    execute(lines.target, ITEMS[0])
    lines.run(variant).succeeded(timeout=4 * PATIENCE)
    execute(lines.source, *changes)
    return lines.run(variant)


def question(run: Run, task_id: str, try_number: int = 1) -> dict[str, Any]:
    """Wait until a task asks, and return the question."""
    run.wait_for(task_id, states=PARKED, try_number=try_number, timeout=4 * PATIENCE)
    found: dict[str, Any] = run.rest.get(f"{run.path}/taskInstances/{task_id}/-1/hitlDetails")
    assert found["response_received"] is False
    return found


def answer(run: Run, task_id: str, option: str) -> None:
    # If a task goes on within a second, Airflow 3.3 may mistake it for a killed one, and retry it.
    time.sleep(NO_PERSON_IS_FASTER)
    path = f"{run.path}/taskInstances/{task_id}/-1/hitlDetails"
    run.rest.call("PATCH", path, {"chosen_options": [option], "params_input": {}})


def state_of_target(lines: Lines) -> tuple[str, str]:
    return ask(lines.target, COLUMNS), ask(lines.target, ROWS)


def check_same(lines: Lines, run: Run) -> None:
    run.succeeded(timeout=4 * PATIENCE)
    assert ask(lines.target, COLUMNS) == ask(lines.source, COLUMNS)
    assert ask(lines.target, ROWS) == ask(lines.source, ROWS)
    lines.check_no_backend()


@concurrent_test
def test_drift_of_a_group_is_approved(lines: Lines) -> None:
    run = begin(lines, "ask_group", NEW_COLUMN)
    before = state_of_target(lines)
    found = question(run, "lines.prepare")
    assert 'ALTER TABLE "public"."items" ADD COLUMN IF NOT EXISTS "note" text' in found["body"]
    assert state_of_target(lines) == before
    # No process waits.
    lines.check_no_backend()
    answer(run, "lines.prepare", "Approve")
    check_same(lines, run)
    assert run.task("lines.prepare").try_number == 1


@concurrent_test
def test_drift_of_a_group_is_rejected(lines: Lines) -> None:
    run = begin(lines, "ask_group", NEW_COLUMN)
    before = state_of_target(lines)
    question(run, "lines.prepare")
    answer(run, "lines.prepare", "Reject")
    assert run.wait(timeout=4 * PATIENCE) == "failed"
    prepare = run.task("lines.prepare")
    assert (prepare.state, prepare.try_number) == ("failed", 1)
    assert "rejected by" in run.log("lines.prepare")
    assert state_of_target(lines) == before


@concurrent_test
def test_other_drift_than_the_approved_one_is_refused(lines: Lines) -> None:
    run = begin(lines, "ask_group", NEW_COLUMN)
    before = state_of_target(lines)
    question(run, "lines.prepare")
    execute(lines.source, "ALTER TABLE public.items ADD other int")
    answer(run, "lines.prepare", "Approve")
    assert run.wait(timeout=4 * PATIENCE) == "failed"
    assert "This is not what was approved" in run.log("lines.prepare")
    assert run.task("lines.prepare").try_number == 1
    assert state_of_target(lines) == before
    # Cleared, Airflow would show the old question.
    run.clear("lines.prepare", downstream=True)
    run.wait_for("lines.prepare", states=["failed"], try_number=2, timeout=4 * PATIENCE)
    assert "An earlier try has asked another question" in run.log("lines.prepare")
    assert state_of_target(lines) == before
    run = lines.run("ask_group")
    assert '"other" integer' in question(run, "lines.prepare")["body"]
    answer(run, "lines.prepare", "Approve")
    check_same(lines, run)


@concurrent_test
def test_a_retry_never_shows_an_old_question(lines: Lines) -> None:
    run = begin(lines, "ask_group", NEW_COLUMN)
    before = state_of_target(lines)
    question(run, "lines.prepare")
    # Going on fails for a while, so that Airflow retries.
    lines.airflow.set_connection(lines.conn_id("source"), "postgres://nobody@127.0.0.1:1/nothing")
    answer(run, "lines.prepare", "Approve")
    run.wait_for("lines.prepare", states=["up_for_retry"], timeout=4 * PATIENCE)
    execute(lines.source, "ALTER TABLE public.items ADD other int")
    lines.airflow.set_connection(lines.conn_id("source"), lines.source)
    assert run.wait(timeout=4 * PATIENCE) == "failed"
    assert "An earlier try has asked another question" in run.log("lines.prepare")
    assert state_of_target(lines) == before


@concurrent_test
def test_deletes_of_a_group_are_approved(lines: Lines) -> None:
    run = begin(lines, "ask_group", FEWER_ROWS)
    before = state_of_target(lines)
    found = question(run, "lines.verify")
    assert found["subject"] == "Delete 90 of 200 rows from the target?"
    assert state_of_target(lines) == before
    # The run goes on with the snapshot in which the rows were counted.
    assert run.task("lines.snapshot").state == "deferred"
    execute(lines.source, "DELETE FROM public.items WHERE id = 91")
    answer(run, "lines.verify", "Approve")
    run.succeeded(timeout=4 * PATIENCE)
    assert run.xcom("lines.verify")["night"]["deleted"] == 90
    assert ask(lines.target, "SELECT count(*) FROM public.items") == 110
    assert run.task("lines.verify").try_number == 1
    lines.check_no_backend()


@concurrent_test
def test_deletes_of_a_group_are_rejected(lines: Lines) -> None:
    run = begin(lines, "ask_group", FEWER_ROWS)
    before = state_of_target(lines)
    question(run, "lines.verify")
    answer(run, "lines.verify", "Reject")
    assert run.wait(timeout=4 * PATIENCE) == "failed"
    assert state_of_target(lines) == before
    lines.check_no_backend()


@concurrent_test
def test_one_task_asks_one_question(lines: Lines) -> None:
    run = begin(lines, "ask_one", NEW_COLUMN, FEWER_ROWS)
    before = state_of_target(lines)
    assert "columns" in question(run, "lines")["subject"]
    answer(run, "lines", "Approve")
    assert run.wait(timeout=4 * PATIENCE) == "failed"
    assert state_of_target(lines) == before
    assert "would lose 90 of 200" in run.log("lines")


@concurrent_test
def test_deletes_of_one_task_are_approved(lines: Lines) -> None:
    run = begin(lines, "ask_one", FEWER_ROWS)
    assert "90 of 200 rows" in question(run, "lines")["subject"]
    answer(run, "lines", "Approve")
    check_same(lines, run)
    assert run.xcom("lines")["night"]["deleted"] == 90


@concurrent_test
def test_other_deletes_than_the_approved_ones_are_refused(lines: Lines) -> None:
    run = begin(lines, "ask_one", FEWER_ROWS)
    before = state_of_target(lines)
    assert "90 of 200 rows" in question(run, "lines")["subject"]
    execute(lines.source, "DELETE FROM public.items WHERE id = 91")
    answer(run, "lines", "Approve")
    assert run.wait(timeout=4 * PATIENCE) == "failed"
    assert state_of_target(lines) == before
    run = lines.run("ask_one")
    assert "91 of 200 rows" in question(run, "lines")["subject"]
    answer(run, "lines", "Reject")
    assert run.wait(timeout=4 * PATIENCE) == "failed"
    assert state_of_target(lines) == before
    # No one waits for these runs any more.
    assert {each.status for each in runs(target=lines.target)} == {"done", GIVEN_UP}


@concurrent_test
def test_without_an_answer_nothing_is_changed(lines: Lines) -> None:
    run = begin(lines, "ask_briefly", NEW_COLUMN)
    before = state_of_target(lines)
    assert run.wait(timeout=4 * PATIENCE) == "failed"
    assert state_of_target(lines) == before
