"""Marking and clearing in Airflow 2.11: the calls of its web interface, without a scheduler."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock_testkit import Server
from penstock_testkit.airflow.environment import environment

from .shop import Shop, open_shop

PROGRAM = Path(__file__).with_name("clear_in_airflow_2.py")
DAG_TEXT = """
with DAG("clearing", schedule=None, start_date=START, default_args={"retries": 0}):
    copy_table(
        group_id="lines", **ORDERS, mode="truncate", partitions=3, snapshot="none", recopy=True
    )
"""
AFTER_A_TASK = DAG_TEXT.replace(
    "    copy_table",
    """
    @task
    def first(): ...

    first() >> copy_table""",
)
OF_WORKERS = DAG_TEXT.replace("recopy=True", "workers=2, degree=1")
FAILED = ("begin", "go on")
MARKED = ("begin", "until the plan", "mark the DAG run failed", "go on")


@pytest.fixture
def shop(
    airflow_2: Path, source_server: Server, target_server: Server, tmp_path: Path
) -> Iterator[Shop]:
    with open_shop((source_server, target_server), tmp_path, python=airflow_2) as shop:
        shop.fill(["orders"])
        yield shop


def after(shop: Shop, *steps: str, text: str = DAG_TEXT) -> tuple[str, dict[str, str]]:
    """Return the states of the DAG run and of its tasks after these steps."""
    file = shop.write(text)
    settings = {"database.sql_alchemy_conn": f"sqlite:///{shop.runner.database}"}
    done = subprocess.run(
        [shop.runner.python, "-W", "ignore", PROGRAM, file, "clearing", *steps],
        env=environment(shop.runner.home, file.parent, settings, shop.connections),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"step"')]
    last: dict[str, Any] = json.loads(lines[-1])
    return last["run"], last["tasks"]


def refuse_once(shop: Shop) -> None:
    (first,) = shop.source.execute("SELECT min(o_orderkey) FROM orders").fetchone() or ()
    shop.refuse("orders", "o_orderkey", first, times=1, sqlstate="23514")


def test_a_run_marked_failed_is_red_until_verify_is_cleared(shop: Shop) -> None:
    cleared = (*MARKED, "clear the DAG run, only failed tasks", "go on")
    state, tasks = after(shop, *cleared)
    assert state == "failed", tasks
    assert tasks["lines.verify"] == "skipped"
    assert tasks["lines.release"] == "failed"


def test_clearing_verify_copies_skipped_partitions(shop: Shop) -> None:
    state, tasks = after(shop, *MARKED, "clear verify, downstream", "go on")
    assert state == "success", tasks
    shop.assert_same("orders")


@pytest.mark.parametrize(
    ("step", "ends"),
    [
        ("clear the DAG run, only failed tasks", "success"),
        ("clear the DAG run", "success"),
        # A copy has failed, so `verify` does not run.
        ("clear verify, downstream", "failed"),
        ("mark verify success", "failed"),
    ],
)
def test_the_outcome_of_a_step_after_a_failed_copy(shop: Shop, step: str, ends: str) -> None:
    refuse_once(shop)
    state, tasks = after(shop, *FAILED, step, "go on")
    assert state == ends, tasks
    if ends == "success":
        shop.assert_same("orders")


def test_a_failed_worker_that_is_cleared_makes_the_run_green(shop: Shop) -> None:
    refuse_once(shop)
    state, tasks = after(shop, *FAILED, text=OF_WORKERS)
    assert (state, tasks["lines.copy[0]"], tasks["lines.copy[1]"]) == (
        "failed",
        "failed",
        "success",
    )
    # The other one has copied the row that was refused once.
    shop.assert_same("orders")
    cleared = ("clear the DAG run, only failed tasks", "go on")
    state, tasks = after(shop, *cleared, text=OF_WORKERS)
    assert state == "success", tasks
    shop.assert_same("orders")


def test_workers_cleared_after_the_end_have_nothing_to_do(shop: Shop) -> None:
    state, tasks = after(shop, *FAILED, text=OF_WORKERS)
    assert state == "success", tasks
    refuse_once(shop)
    state, tasks = after(shop, "clear the copies", "go on", text=OF_WORKERS)
    assert (state, tasks["lines.copy[0]"], tasks["lines.copy[1]"]) == ("success",) * 3
    shop.assert_same("orders")


def test_copies_cleared_alone_keep_the_verified_rows(shop: Shop) -> None:
    state, tasks = after(shop, *FAILED)
    assert state == "success", tasks
    refuse_once(shop)
    state, tasks = after(shop, "clear the copies", "go on")
    assert tasks["lines.copy[0]"] == "failed"
    assert state == "success", tasks
    shop.assert_same("orders")


def test_a_group_skipped_by_marking_is_red(shop: Shop) -> None:
    steps = ("begin", "mark the DAG run failed", "go on")
    state, tasks = after(shop, *steps, text=AFTER_A_TASK)
    assert tasks["lines.prepare"] == "skipped"
    assert state == "failed", tasks
