"""Copies that cannot succeed: each reports the core's error once, and is not retried."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from penstock_testkit import Server
from penstock_testkit.airflow import DagRunResult

from .shop import HEAD, Shop, open_shop

# The class "integrity constraint violation", for which a retry would not help.
CHECK_VIOLATION = "23514"
DAG_TEXT = """
def tell(context):
    first, *details = str(context["exception"]).splitlines()
    print("called back:", first[:17], first.rpartition(" ")[2], len(details) > 0)


ODD = {"target_conn_id": "pg_dst", "table": "public.orders"}

with DAG("refused", schedule=None, start_date=START, default_args={**AT_ONCE, "retries": 3}):
    orders = copy_table(
        group_id="orders", **ORDERS, mode="truncate", partitions=4, on_failure_callback=tell
    )

    @task
    def reports():
        pass

    orders >> reports()

with DAG("levels", schedule=None, start_date=START):
    CopyTableOperator(
        task_id="orders", **ORDERS, mode="truncate", partitions=4, degree=1, on_error="continue"
    )

with DAG("failures", schedule=None, start_date=START, default_args={**AT_ONCE, "retries": 3}):
    copy_table(group_id="no_table", **ENDS, table="public.nowhere")
    copy_table(group_id="no_connection", source_conn_id="pg_none", **ODD)
    copy_table(group_id="other_type", source_conn_id="web", **ODD)
    copy_table(
        group_id="no_interval", **ORDERS, mode="replace",
        where="o_orderdate BETWEEN '{{ data_interval_start }}' AND '{{ data_interval_end }}'",
    )
    copy_table(group_id="token", source_conn_id="pg_token", **ODD)
    CopyTableOperator(task_id="one_task", **ENDS, table="public.nowhere")
    CopyTableOperator(task_id="no_key", **ENDS, table="public.orders", mode="upsert")
"""

WRONG = {
    "mode": ('mode="replicate"', "mode: expected one of append, truncate"),
    "key": ('mode="replace"', 'mode="replace": expected key, the column to delete by; found none'),
    "table_and_query": (
        'query="SELECT 1 AS n"',
        "table, query: found both; pass either",
    ),
    "degree": (
        "degree=0",
        "public.orders, group public_orders: degree: expected the number of mapped tasks",
    ),
    "unknown": ("depth=3", "public.orders, group public_orders: unknown argument 'depth'"),
    "snapshot_holder": (
        'snapshot_holder="nobody"',
        "snapshot_holder: expected one of triggerer, worker; found 'nobody'",
    ),
    "per_task": (
        "partitions_per_task=0",
        "partitions_per_task: expected a whole number, at least 1; found 0",
    ),
}


@pytest.fixture(scope="module")
def shop(
    source_server: Server, target_server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shop]:
    with open_shop((source_server, target_server), tmp_path_factory.mktemp("shop")) as shop:
        shop.fill(["orders"])
        (first,) = shop.source.execute("SELECT min(o_orderkey) FROM orders").fetchone() or ()
        shop.refuse("orders", "o_orderkey", first, times=99, sqlstate=CHECK_VIOLATION)
        yield shop


@pytest.fixture(scope="module")
def file(shop: Shop) -> Path:
    # Airflow reads the whole folder, so one run reports the errors of every file.
    for name, (argument, _) in WRONG.items():
        (shop.dags / f"{name}.py").write_text(f"""{HEAD}
with DAG("{name}", schedule=None, start_date=START):
    copy_table(**ENDS, table="public.orders", {argument})
""")
    return shop.write(DAG_TEXT)


@pytest.fixture(scope="module")
def refused(shop: Shop, file: Path) -> DagRunResult:
    return shop.run(file, "refused")


@pytest.fixture(scope="module")
def run(shop: Shop, file: Path) -> DagRunResult:
    shop.connections |= {
        "web": "http://somewhere",
        "pg_token": json.dumps(
            {"conn_type": "postgres", "host": "localhost", "extra": {"iam": True}}
        ),
    }
    return shop.run(file, "failures")


def test_a_failed_partition_is_logged_as_an_error_while_the_others_go_on(
    shop: Shop, file: Path
) -> None:
    log = shop.run(file, "levels").task("orders").log
    lines = log.splitlines()
    (failed,) = [index for index, line in enumerate(lines) if "failed: p0001 (" in line]
    committed = [index for index, line in enumerate(lines) if "committed: p" in line]
    assert "error" in lines[failed].lower().split("failed:")[0]
    assert len(committed) == 3
    assert failed < committed[-1]


def occurrences(run: DagRunResult, task_id: str, message: str) -> int:
    """Return the number of lines in a task's log that contain a text."""
    return sum(message in line for line in run.task(task_id).log.splitlines())


def test_a_permanent_failure_is_not_retried_and_fails_the_run(
    shop: Shop, refused: DagRunResult
) -> None:
    copies = refused.mapped("orders.copy")
    assert [copy.state for copy in copies] == ["failed", "success", "success", "success"]
    assert [copy.try_number for copy in copies] == [1, 1, 1, 1]
    assert refused.task("orders.verify").state == "upstream_failed"
    # Airflow derives the run's state from this task of the group alone.
    assert refused.task("orders.release").state == "failed"
    assert occurrences(refused, "orders.release", "3 of 4 partitions are committed") == 1
    assert refused.task("reports").state == "upstream_failed"
    assert refused.state == "failed"
    shop.assert_no_session()


def test_the_cores_error_is_logged_once(refused: DagRunResult) -> None:
    log = refused.task("orders.copy", 0).log
    (line,) = [line for line in log.splitlines() if "refused by a trigger" in line]
    assert "partition p0001 (o_orderkey < " in line
    assert f"[{CHECK_VIOLATION}] target: " in line


def test_a_failure_callback_gets_one_line_and_then_the_details(
    refused: DagRunResult,
) -> None:
    log = refused.task("orders.copy", 0).log
    (line,) = [line for line in log.splitlines() if "called back: " in line]
    assert "called back: partition p0001 " in line
    assert line.rstrip(' "}').endswith("trigger True"), line


@pytest.mark.parametrize(
    ("task_id", "message"),
    [
        ("no_table.prepare", "source: table public.nowhere does not exist in database"),
        ("one_task", "source: table public.nowhere does not exist in database"),
        ("other_type.prepare", "connection 'web': expected one of the types"),
        ("token.prepare", "connection 'pg_token': expected a password"),
        ("no_key", "expected a primary key or unique index of public.orders"),
        ("no_interval.prepare", "the data interval selects the rows, and is empty"),
    ],
)
def test_an_impossible_copy_is_reported_once(run: DagRunResult, task_id: str, message: str) -> None:
    task = run.task(task_id)
    assert task.state == "failed"
    assert task.try_number == 1
    assert occurrences(run, task_id, message) == 1, task.log


def test_a_missing_connection_is_named(run: DagRunResult) -> None:
    task = run.task("no_connection.prepare")
    assert task.state == "failed"
    message = "source_conn_id: Airflow has no connection 'pg_none'"
    assert occurrences(run, "no_connection.prepare", message) == task.try_number == 1, task.log


def test_no_task_runs_after_a_failed_plan(run: DagRunResult) -> None:
    after = [
        state
        for name, state in run.states.items()
        if name.startswith("no_table.") and name not in ("no_table.prepare", "no_table.release")
    ]
    assert after == ["upstream_failed"] * 4


@pytest.fixture(scope="module")
def import_errors(shop: Shop, run: DagRunResult) -> dict[str, str]:
    """Return Airflow's import errors of DAG files, by file name."""
    with closing(sqlite3.connect(run.database)) as connection:
        found = connection.execute("SELECT filename, stacktrace FROM import_error").fetchall()
    return {Path(name).stem: text for name, text in found}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_an_import_error(import_errors: dict[str, str], name: str) -> None:
    assert WRONG[name][1] in import_errors[name]
