"""Features that no other test of this folder covers: upsert, attach, queries and checksums."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock_testkit import Server
from penstock_testkit.airflow import DagRunResult

from .shop import Shop, content, open_shop

DAG_TEXT = """
with DAG("modes", schedule=None, start_date=START, default_args={**AT_ONCE, "retries": 1}):
    copy_table(
        group_id="upsert", **ORDERS, target_table="dw.upsert", mode="upsert", partitions=2,
        snapshot="none", outlet=Asset("orders_upsert"),
    )
    copy_table(
        group_id="attach", **ORDERS, target_table="dw.attach", mode="attach", partitions=2,
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
STALE = 50


@pytest.fixture(scope="module")
def shop(
    source_server: Server, target_server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shop]:
    with open_shop((source_server, target_server), tmp_path_factory.mktemp("shop")) as shop:
        shop.fill(["orders"], primary_keys=True)
        shop.target.execute("CREATE SCHEMA dw")
        for table in ("upsert", "query", "checked"):
            create = f"CREATE TABLE dw.{table} (LIKE orders INCLUDING ALL)"
            shop.target.execute(create.encode())
        shop.target.execute(
            "CREATE TABLE dw.attach (LIKE orders INCLUDING ALL) PARTITION BY RANGE (o_orderkey)"
        )
        # Existing rows that differ from the source's.
        columns = "o_orderkey, 0, 'F', 0, current_date, '', '', 0, 'stale'"
        found = shop.source.execute(
            f"SELECT {columns} FROM orders ORDER BY o_orderkey LIMIT {STALE}".encode()
        ).fetchall()
        with shop.target.cursor() as cursor:
            cursor.executemany(b"INSERT INTO dw.upsert VALUES (%s,%s,%s,%s,%s,%s,%s,%s,%s)", found)
        (last,) = shop.source.execute("SELECT max(o_orderkey) FROM orders").fetchone() or ()
        shop.refuse("orders", "o_orderkey", last, times=1)
        yield shop


@pytest.fixture(scope="module")
def run(shop: Shop) -> DagRunResult:
    return shop.run(shop.write(DAG_TEXT), "modes").succeeded()


def test_mapped_tasks_upsert(shop: Shop, run: DagRunResult) -> None:
    assert [copy.state for copy in run.mapped("upsert.copy")] == ["success"] * 2
    shop.assert_same("orders", "dw.upsert")


def test_mapped_tasks_attach(shop: Shop, run: DagRunResult) -> None:
    assert [copy.state for copy in run.mapped("attach.copy")] == ["success"] * 2
    children = shop.target.execute(
        "SELECT count(*) FROM pg_inherits WHERE inhparent = 'dw.attach'::regclass"
    ).fetchall()
    assert children == [(2,)]
    shop.assert_same("orders", "dw.attach")


def test_a_user_defined_outlet_gets_the_event(shop: Shop, run: DagRunResult) -> None:
    events = {event.uri: event for event in run.asset_events}
    assert events["orders_upsert"].extra["rows"] == shop.rows["orders"]
    assert events["orders_upsert"].task_id == "upsert.verify"
    # Three ranges and a partition of NULL keys, since a query's columns may be NULL.
    assert events["finished_orders"].extra["partitions"] == 4


def test_a_query_is_copied(shop: Shop, run: DagRunResult) -> None:
    copied = content(shop.target, "dw.query")
    assert copied[0] > 0
    assert copied == content(shop.source, "orders", "o_orderstatus = 'F'")
    assert "verified by checksums" in run.task("query").log


def test_checksums_are_compared(shop: Shop, run: DagRunResult) -> None:
    assert "verified by checksums" in run.task("checked.verify").log
    shop.assert_same("orders", "dw.checked")


def test_a_retried_single_task_copies_the_remaining_partitions(
    shop: Shop, run: DagRunResult
) -> None:
    task = run.task("in_two_tries")
    assert task.try_number == 2
    assert "3 of them already committed" in task.log
    assert task.value["rows"] == shop.rows["orders"]
    shop.assert_same("orders")
