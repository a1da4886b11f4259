"""Every mode and kind of source once, in groups of mapped tasks and in single tasks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock_testkit import Server
from penstock_testkit.airflow import DagRunResult

from .shop import Shop, content, open_shop

DAG_TEXT = """
CUT = {"partitions": 2, "snapshot": "none"}

with DAG("modes", schedule=None, start_date=START, default_args={**AT_ONCE, "retries": 1}):
    for mode in ("append", "truncate", "replace", "upsert", "recreate", "swap"):
        copy_table(
            group_id=mode, **ORDERS, target_table=f"dw.{mode}", mode=mode, **CUT,
            outlet=Asset("orders_" + mode),
        )
    CopyTableOperator(
        task_id="query", **ENDS, query="SELECT * FROM orders WHERE o_orderstatus = 'F'",
        target_table="dw.query", strategy="ntile", key="o_orderkey", partitions=3,
        verify="checksums", outlet=Asset("finished_orders"),
    )
    copy_table(
        group_id="checked", **ORDERS, target_table="dw.checked", mode="truncate", partitions=2,
        verify="checksums",
    )
    CopyTableOperator(
        task_id="in_two_tries", **ORDERS, target_table="public.orders", partitions=4, degree=1,
        attempts=1, snapshot="none",
    )
"""
STALE = {
    "append": 0,
    "truncate": 50,
    "replace": 50,
    "upsert": 50,
    "recreate": 50,
    "swap": 50,
}


@pytest.fixture(scope="module")
def shop(
    source_server: Server, target_server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shop]:
    with open_shop((source_server, target_server), tmp_path_factory.mktemp("shop")) as shop:
        shop.fill(["orders"], primary_keys=True)
        shop.target.execute("CREATE SCHEMA dw")
        for table in (*STALE, "query", "checked"):
            create = f"CREATE TABLE dw.{table} (LIKE orders INCLUDING ALL)"
            shop.target.execute(create.encode())
        # Rows that are there already, and are not what the source has.
        columns = "o_orderkey, 0, 'F', 0, current_date, '', '', 0, 'stale'"
        found = shop.source.execute(
            f"SELECT {columns} FROM orders ORDER BY o_orderkey LIMIT {max(STALE.values())}".encode()
        ).fetchall()
        for table, count in STALE.items():
            with shop.target.cursor() as cursor:
                into = f"INSERT INTO dw.{table} VALUES (%s,%s,%s,%s,%s,%s,%s,%s,%s)"
                cursor.executemany(into.encode(), found[:count])
        (last,) = shop.source.execute("SELECT max(o_orderkey) FROM orders").fetchone() or ()
        shop.refuse("orders", "o_orderkey", last, times=1)
        yield shop


@pytest.fixture(scope="module")
def run(shop: Shop) -> DagRunResult:
    return shop.run(shop.write(DAG_TEXT), "modes").succeeded()


@pytest.mark.parametrize("mode", STALE)
def test_the_target_has_what_the_source_has(shop: Shop, run: DagRunResult, mode: str) -> None:
    assert [copy.state for copy in run.mapped(f"{mode}.copy")] == ["success"] * 2
    shop.assert_same("orders", f"dw.{mode}")


def test_an_outlet_of_ones_own_gets_the_event(shop: Shop, run: DagRunResult) -> None:
    events = {event.uri: event for event in run.asset_events}
    for mode in STALE:
        assert events[f"orders_{mode}"].extra["rows"] == shop.rows["orders"]
        assert events[f"orders_{mode}"].task_id == f"{mode}.verify"
    # Three, and one for a key that is NULL: a query's columns may be.
    assert events["finished_orders"].extra["partitions"] == 4


def test_a_query_is_copied(shop: Shop, run: DagRunResult) -> None:
    copied = content(shop.target, "dw.query")
    assert copied[0] > 0
    assert copied == content(shop.source, "orders", "o_orderstatus = 'F'")
    assert "verified by checksums" in run.task("query").log


def test_checksums_are_compared_at_the_end(shop: Shop, run: DagRunResult) -> None:
    assert "verified by checksums" in run.task("checked.verify").log
    shop.assert_same("orders", "dw.checked")


def test_a_single_task_that_is_retried_goes_on_with_what_is_left(
    shop: Shop, run: DagRunResult
) -> None:
    task = run.task("in_two_tries")
    assert task.try_number == 2
    assert "3 of them already committed" in task.log
    assert task.value["rows"] == shop.rows["orders"]
    shop.assert_same("orders")
