"""Many tables in one task, in both Airflows: one DAG run and many checks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock_testkit import Server
from penstock_testkit.airflow import DagRunResult

from .shop import Shop, open_shop

TABLES = ("orders", "customer", "nation", "region")
DAG_TEXT = """
with DAG("batch", schedule=None, start_date=START, default_args={**ENDS, **AT_ONCE}):
    CopyAllOperator(
        task_id="all",
        tables=["public.*", {"table": "public.merged", "mode": "upsert"}],
        exclude=["left_*"],
        mode="truncate",
        attempts=1,
        retries=1,
    )
with DAG("broken", schedule=None, start_date=START, default_args={**ENDS, **AT_ONCE}):
    CopyAllOperator(
        task_id="all", tables=["public.nation", {"table": "public.left_out"}], mode="truncate",
        retries=3, outlet=Asset("warehouse"),
    )
with DAG("one_asset", schedule=None, start_date=START, default_args={**ENDS, **AT_ONCE}):
    CopyAllOperator(
        task_id="all", tables=["{{ dag_run.conf['tables'] }}"], mode="truncate",
        outlet=Asset("warehouse"),
    )
"""


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
        shop.fill(TABLES)
        shop.both("CREATE TABLE merged (id int PRIMARY KEY, note text)")
        shop.source.execute("CREATE TABLE left_out (id int)")
        shop.target.execute("CREATE TABLE left_out (other int)")
        shop.source.execute("INSERT INTO merged VALUES (1, 'new'), (2, 'changed'), (3, 'same')")
        shop.target.execute("INSERT INTO merged VALUES (2, 'old'), (3, 'same')")
        (last,) = shop.source.execute("SELECT max(o_orderkey) FROM orders").fetchone() or ()
        shop.refuse("orders", "o_orderkey", last, times=1)
        yield shop


@pytest.fixture(scope="module")
def file(shop: Shop) -> Path:
    return shop.write(DAG_TEXT)


@pytest.fixture(scope="module")
def run(shop: Shop, file: Path) -> DagRunResult:
    return shop.run(file, "batch").succeeded()


def test_each_table_is_copied_with_its_own_options(shop: Shop, run: DagRunResult) -> None:
    for table in (*TABLES, "merged"):
        shop.assert_same(table)
    tables = run.task("all").value["tables"]
    assert set(tables) == {f"public.{name}" for name in (*TABLES, "merged")}
    assert {name: tables[f"public.{name}"]["rows"] for name in TABLES} == shop.rows
    merged = tables["public.merged"]
    assert (merged["inserted"], merged["updated"]) == (1, 1)


def test_a_retry_continues_the_batch(shop: Shop, run: DagRunResult) -> None:
    task = run.task("all")
    assert task.try_number == 2
    assert task.value["status"] == "done"
    found = shop.target.execute("SELECT run_id FROM penstock.run").fetchall()
    assert sorted(run_id for (run_id,) in found) == sorted(
        table["run_id"] for table in task.value["tables"].values()
    )
    # Rows committed by the first try were not copied again.
    attempts = "SELECT max(attempt) FROM penstock.commit_record WHERE run_id = %s"
    of_nation = task.value["tables"]["public.nation"]["run_id"]
    assert shop.target.execute(attempts, [of_nation]).fetchone() == (1,)


def test_the_log_shows_progress_and_the_outcome(shop: Shop, run: DagRunResult) -> None:
    log = run.task("all").log
    assert "1 of 5 tables are not done: public.orders" in log
    assert "public.orders, partition p" in log
    assert "committed: public.nation p" in log
    assert "the report, with charts" in log
    assert "the batch's report" not in log
    assert "--" not in "".join(line for line in log.splitlines() if "error" in line.lower())


def test_each_table_is_an_updated_asset(shop: Shop, run: DagRunResult) -> None:
    place = shop.connections["pg_dst"].rpartition("@")[2].partition("?")[0]
    events = {event.uri: event.extra for event in run.asset_events}
    assert set(events) == {f"postgres://{place}/public/{name}" for name in (*TABLES, "merged")}
    for uri, extra in events.items():
        assert extra["uri"] == uri
        assert extra["read_at"]
    # All tables are read at one moment, except for rows that the retry copied.
    moments = {uri.rpartition("/")[2]: extra["read_at"] for uri, extra in events.items()}
    assert moments.pop("orders") > max(moments.values())
    assert len(set(moments.values())) == 1
    merged = events[f"postgres://{place}/public/merged"]
    assert (merged["inserted"], merged["updated"]) == (1, 1)


def test_a_failed_table_is_named_and_the_others_are_copied(
    shop: Shop, run: DagRunResult, file: Path
) -> None:
    shop.target.execute("TRUNCATE nation")
    failed = shop.run(file, "broken")
    task = failed.task("all")
    # A retry would not help.
    assert (task.state, task.try_number) == ("failed", 1)
    assert "1 of 2 tables are not done: public.left_out" in task.log
    assert "public.left_out: " in task.log
    assert failed.asset_events == []
    shop.assert_same("nation")


def test_one_asset_stands_for_all_tables(shop: Shop, run: DagRunResult, file: Path) -> None:
    conf = {"tables": "public.n*"}
    done = shop.run(file, "one_asset", run_conf=conf).succeeded()
    (event,) = done.asset_events
    assert event.uri == "warehouse"
    assert event.extra["rows"] == shop.rows["nation"]
    assert set(event.extra["tables"]) == {"public.nation"}
