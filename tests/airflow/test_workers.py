"""Mapped tasks that share the partitions of a run, in both Airflows: one DAG run, many checks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock_testkit import Server
from penstock_testkit.airflow import DagRunResult

from .shop import Shop, content, open_shop

TABLES = ("orders", "customer", "nation", "region", "supplier")
# `dag.test()` runs mapped tasks one after the other: the first one copies everything that can be.
DAG_TEXT = """
with DAG("workers", schedule=None, start_date=START, default_args=AT_ONCE):
    copy_table(
        group_id="shared", **ORDERS, mode="truncate", partitions=6, verify="counts", workers=3,
        degree=2, retries=2,
    )
    copy_table(
        group_id="swapped", **ENDS, table="public.nation", mode="swap", indexes="defer",
        partitions=2, workers=8, degree=1, snapshot="none",
    )
    copy_table(
        group_id="empty", **ENDS, table="public.nothing", target_table="public.emptied",
        mode="truncate", workers=2,
    )
    copy_tables(
        [{"table": "public.customer", "mapped": True, "workers": 2}, "public.region"],
        **ENDS, mode="truncate", max_rate="1GB",
    )

    prepare = PrepareCopyOperator(
        task_id="prepare", **ENDS, table="public.supplier", mode="append", partitions=4
    )
    plan = PlanCopyOperator(
        task_id="plan", target_conn_id="pg_dst", run_id=prepare.output, workers=2
    )
    copy = CopyWorkerOperator.partial(task_id="copy", **ENDS).expand(partition=plan.output)
    verify = VerifyCopyOperator(task_id="verify", **ENDS, run_id=prepare.output, copied=copy.output)
    copy >> verify
"""
FAILING = """
with DAG("failing", schedule=None, start_date=START):
    copy_table(
        group_id="orders", **ORDERS, target_table="public.refusing", mode="append", partitions=4,
        workers=2, degree=1,
    )
"""
CHECK_VIOLATION = "23514"


@pytest.fixture(scope="module", params=["3", "2"], ids=["airflow3", "airflow2"])
def shop(
    request: pytest.FixtureRequest,
    source_server: Server,
    target_server: Server,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Shop]:
    python = request.getfixturevalue("airflow_2") if request.param == "2" else None
    servers, folder = (source_server, target_server), tmp_path_factory.mktemp("shop")
    with open_shop(servers, folder, python=python) as shop:
        shop.fill(TABLES, primary_keys=True)
        shop.source.execute("CREATE TABLE nothing (n int)")
        shop.target.execute("""
            CREATE TABLE emptied AS SELECT 1 AS n;
            CREATE TABLE refusing (LIKE orders)
        """)
        yield shop


@pytest.fixture(scope="module")
def run(shop: Shop) -> DagRunResult:
    return shop.run(shop.write(DAG_TEXT), "workers").succeeded()


@pytest.mark.parametrize("table", TABLES)
def test_every_row_is_copied_once(shop: Shop, run: DagRunResult, table: str) -> None:
    assert run.state == "success"
    shop.assert_same(table)


@pytest.mark.parametrize(
    ("task_id", "workers", "partitions"),
    [("shared.copy", 3, 6), ("swapped.copy", 2, 2), ("public_customer.copy", 1, 1), ("copy", 2, 3)],
    ids=["fewer than partitions", "no more than partitions", "of many tables", "by hand"],
)
def test_each_partition_is_copied_by_one_worker(
    run: DagRunResult, task_id: str, workers: int, partitions: int
) -> None:
    copies = run.mapped(task_id)
    assert [copy.map_index for copy in copies] == list(range(workers))
    found = [name for copy in copies for name in copy.value["partitions"]]
    assert sorted(found) == [f"p{number + 1:04}" for number in range(partitions)]


def test_an_empty_source_needs_no_worker(shop: Shop, run: DagRunResult) -> None:
    assert [copy.state for copy in run.mapped("empty.copy")] == ["skipped"]
    assert content(shop.target, "emptied")[0] == 0


def test_the_grid_and_the_logs_say_what_each_worker_has_copied(run: DagRunResult) -> None:
    copies = run.mapped("shared.copy")
    labels = sorted((copy.rendered_map_index or "").partition(": ")[2] for copy in copies)
    assert labels == ["6 partitions, 2.3 MB", "no partitions", "no partitions"]
    for copy in copies:
        assert f"worker {copy.map_index}: " in (copy.rendered_map_index or "")
        assert (copy.rendered_map_index or "?") in copy.log


def test_a_worker_ends_the_run_and_verify_reports_it(shop: Shop, run: DagRunResult) -> None:
    logs = [copy.log for copy in run.mapped("shared.copy")]
    assert sum("verified by counts" in log for log in logs) == 1
    verify = run.task("shared.verify")
    assert (verify.value["status"], verify.value["rows"]) == ("done", shop.rows["orders"])
    assert "was done before" in verify.log
    assert "6 of 6 committed" in verify.log


def test_a_failed_row_fails_the_workers_and_nothing_else_is_lost(
    shop: Shop, run: DagRunResult
) -> None:
    (first,) = shop.source.execute("SELECT min(o_orderkey) FROM orders").fetchone() or ()
    shop.refuse("refusing", "o_orderkey", first, times=99, sqlstate=CHECK_VIOLATION)
    failed = shop.run(shop.write(FAILING), "failing")
    assert failed.state == "failed"
    copies = failed.mapped("orders.copy")
    assert [copy.state for copy in copies] == ["failed", "failed"]
    labels = sorted((copy.rendered_map_index or "").partition(": ")[2] for copy in copies)
    assert labels[1] == "no partitions"
    assert labels[0].startswith("3 partitions, ")
    assert all("refused by a trigger" in copy.log for copy in copies)
    release = failed.task("orders.release").log
    assert "3 of 4 partitions are committed. Clear the failed copies" in release
