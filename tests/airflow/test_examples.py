"""Every DAG in dags_examples/airflow, run and compared with its description."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from penstock_testkit import S3Server, Server, connect_clickhouse, connect_snowflake, tpch

from ..conftest import fresh_clickhouse
from .shop import Shop, content, open_shop

EXAMPLES = Path(__file__).resolve().parents[2] / "dags_examples/airflow"
TABLES = ("customer", "lineitem", "nation", "orders", "region", "supplier")


@pytest.fixture(scope="module")
def full_shop(
    source_server: Server, target_server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shop]:
    with open_shop((source_server, target_server), tmp_path_factory.mktemp("shop")) as shop:
        shop.fill(TABLES, primary_keys=True)
        yield shop


@pytest.fixture
def shop(full_shop: Shop) -> Shop:
    """Return a shop whose target has empty tables."""
    full_shop.target.execute(f"TRUNCATE {', '.join(TABLES)}".encode())
    return full_shop


def test_every_example_is_tested() -> None:
    tests = Path(__file__).read_text(encoding="utf-8")
    run = set(re.findall(r'EXAMPLES / "([\w.]+)",\s+"(\w+)"', tests))
    connections = {
        (file.name, dag_id)
        for file in EXAMPLES.glob("*.py")
        for dag_id in re.findall(r'DAG\(\s*"(\w+)"', file.read_text(encoding="utf-8"))
    }
    assert run == connections


def test_nightly_replace_by_date(shop: Shop) -> None:
    day, other = "o_orderdate = '1995-03-04'", "o_orderdate = '1995-03-05'"
    # Another day differs from the source, which would show changes to it. The DAG's own day has
    # outdated rows, and rows that the source has deleted.
    shop.target.execute(
        b"""
        INSERT INTO orders SELECT n, 0, 'F', 0, d, '', '', 0, 'stale'
        FROM generate_series(-3, -1) AS n,
            LATERAL (SELECT date '1995-03-04' + (n + 3) % 2) AS days (d)
    """
    )
    of_other = content(shop.target, "orders", other)
    assert of_other[0] == 1
    for _ in range(2):
        run = shop.run(
            EXAMPLES / "nightly_replace_by_date.py",
            "nightly_replace_by_date",
            logical_date=datetime(1995, 3, 5, tzinfo=UTC),
        ).succeeded()
        assert run.mapped("orders.copy")
        shop.assert_same("orders", where=day)
        assert content(shop.target, "orders", other) == of_other
        assert content(shop.target, "orders", f"NOT ({day} OR {other})")[0] == 0


def test_the_first_example_of_the_page_runs_as_it_stands(shop: Shop) -> None:
    page = (EXAMPLES.parents[1] / "docs/airflow.md").read_text()
    first = page.partition("```python\n")[2].partition("```")[0]
    file = shop.dags / "first_copy.py"
    file.write_text(first)
    run = shop.run(file, "first_copy").succeeded()
    assert len(run.mapped("orders.copy")) == 4
    shop.assert_same("orders")


def test_backfill(shop: Shop) -> None:
    month = "o_orderdate >= '1995-03-01' AND o_orderdate < '1995-04-01'"
    run = shop.run(
        EXAMPLES / "backfill.py", "backfill", logical_date=datetime(1995, 4, 1, tzinfo=UTC)
    ).succeeded()
    assert run.task("orders").value["partitions"] == 5
    shop.assert_same("orders", where=month)
    assert content(shop.target, "orders") == content(shop.target, "orders", month)


@contextmanager
def rows_put_back(shop: Shop, *tables: str) -> Iterator[None]:
    """Put the shop's initial rows back at the end, since other examples need them."""
    for table in tables:
        shop.source.execute(f"CREATE TABLE {table}_before AS TABLE {table}".encode())
    try:
        yield
    finally:
        for table in tables:
            shop.source.execute(f"TRUNCATE {table}".encode())
            shop.source.execute(f"INSERT INTO {table} TABLE {table}_before".encode())
            shop.source.execute(f"DROP TABLE {table}_before".encode())


def test_nightly_increment(shop: Shop) -> None:
    tables = ("customer", "lineitem", "orders")
    shop.run(EXAMPLES / "nightly_increment.py", "nightly_increment").succeeded()
    for table in tables:
        shop.assert_same(table)
    with rows_put_back(shop, "orders", "lineitem"):
        shop.source.execute("UPDATE orders SET o_comment = 'tonight' WHERE o_orderkey % 100 = 0")
        shop.source.execute("DELETE FROM lineitem WHERE l_orderkey % 100 = 1")
        run = shop.run(EXAMPLES / "nightly_increment.py", "nightly_increment").succeeded()
        for table in tables:
            shop.assert_same(table)
    assert run.task("lineitem.verify").value["night"]["deleted"] > 0
    night = run.task("others").value["tables"]["public.orders"]["night"]
    assert 0 < night["updated"] == night["read"] < shop.rows["orders"]
    assert night["since"]


def test_full_refresh_with_swap(shop: Shop) -> None:
    before = shop.target.execute("SELECT 'lineitem'::regclass::oid").fetchone()
    run = shop.run(EXAMPLES / "full_refresh_with_swap.py", "full_refresh_with_swap").succeeded()
    assert "verified by counts" in run.task("lineitem.verify").log
    shop.assert_same("lineitem")
    assert shop.target.execute("SELECT 'lineitem'::regclass::oid").fetchone() != before
    shop.assert_no_session()


def test_many_machines(shop: Shop) -> None:
    run = shop.run(EXAMPLES / "many_machines.py", "many_machines").succeeded()
    copies = run.mapped("lineitem.copy")
    assert len(copies) == 8
    found = [name for copy in copies for name in copy.value["partitions"]]
    assert len(found) == len(set(found)) == run.task("lineitem.verify").value["partitions"] > 100
    shop.assert_same("lineitem")
    shop.assert_no_session()


def test_many_tables(shop: Shop) -> None:
    shop.run(EXAMPLES / "many_tables.py", "many_tables").succeeded()
    for table in TABLES:
        shop.assert_same(table)


def test_whole_schema(shop: Shop) -> None:
    run = shop.run(EXAMPLES / "whole_schema.py", "whole_schema").succeeded()
    for table in TABLES:
        shop.assert_same(table)
    uris = {event.uri.rpartition("/")[2] for event in run.asset_events}
    assert uris == set(TABLES)


def test_nightly_file(shop: Shop) -> None:
    tables = ("customer", "orders", "nation", "region")
    shop.run(EXAMPLES / "nightly_file.py", "nightly_file").succeeded()
    with rows_put_back(shop, "orders"):
        shop.source.execute("UPDATE orders SET o_comment = 'again' WHERE o_orderkey % 100 = 0")
        run = shop.run(EXAMPLES / "nightly_file.py", "nightly_file").succeeded()
        for table in tables:
            shop.assert_same(table)
    found = run.task("shop").value["tables"]
    assert found["public.orders"]["night"]["updated"] > 0
    assert found["public.customer"]["night"]["read"] == 0
    assert found["public.nation"]["rows"] == shop.rows["nation"]
    uris = {event.uri.rpartition("/")[2] for event in run.asset_events}
    assert uris == set(tables)


def test_hand_wired(shop: Shop) -> None:
    run = shop.run(EXAMPLES / "hand_wired.py", "hand_wired").succeeded()
    assert len(run.mapped("copy")) == 4
    shop.assert_same("orders")
    shop.assert_no_session()


def test_on_asset(shop: Shop) -> None:
    filled = shop.run(EXAMPLES / "on_asset.py", "fill_the_shop").succeeded()
    assert [event.uri for event in filled.asset_events] == ["orders_in_the_shop"]
    copied = shop.run(EXAMPLES / "on_asset.py", "copy_on_asset").succeeded()
    (event,) = copied.asset_events
    assert event.uri == "orders_in_the_warehouse"
    assert event.extra["rows"] == shop.rows["orders"]
    shop.assert_same("orders")
    # Run directly: no event has triggered it.
    report = shop.run(EXAMPLES / "on_asset.py", "report_on_asset").succeeded()
    assert report.task("report").value == []


def test_on_source_changed(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Run directly: no event has triggered them.
    run = shop.run(EXAMPLES / "on_source_changed.py", "orders_when_changed").succeeded()
    assert run.task("orders.verify").value["night"]["epoch"] >= 1  # others have copied it, too
    shop.assert_same("orders")
    (tmp_path / "rates.csv").write_text("currency,rate\nEUR,1\n")
    monkeypatch.setenv("RATES", f"{tmp_path}/*.csv")
    loaded = shop.run(EXAMPLES / "on_source_changed.py", "rates_when_arrived").succeeded()
    assert loaded.task("rates").value["rows"] == 1


def test_parquet_from_s3(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    with S3Server() as lake, tpch.parquet_files("orders", 0.01, 4) as files:
        lake.create_bucket("lake")
        for file in files:
            lake.put("lake", f"orders/{file.name}", file)
        connection = {
            "conn_type": "aws",
            "login": lake.access_key_id,
            "password": lake.secret_access_key,
            "extra": {"endpoint_url": lake.endpoint, "region_name": "us-east-1"},
        }
        monkeypatch.setitem(shop.connections, "lake", json.dumps(connection))
        for _ in range(2):
            run = shop.run(EXAMPLES / "parquet_from_s3.py", "parquet_from_s3").succeeded()
            assert run.mapped("orders.copy")
            assert "verified by counts" in run.task("orders.verify").log
            shop.assert_same("orders")


def test_orders_to_clickhouse(shop: Shop, clickhouse_server: str) -> None:
    with (
        fresh_clickhouse(clickhouse_server, "shop") as url,
        closing(connect_clickhouse(url)) as client,
    ):
        shop.connections["clickhouse"] = url
        run = shop.run(EXAMPLES / "orders_to_clickhouse.py", "orders_to_clickhouse").succeeded()
        assert "verified by checksums" in run.task("orders.verify").log
        found = client.query("SELECT count(), toString(sum(o_totalprice)) FROM shop.orders")
        mine = shop.source.execute("SELECT count(*), sum(o_totalprice)::text FROM orders")
        assert found.result_rows == mine.fetchall()
    shop.assert_no_session()


def test_orders_to_snowflake(shop: Shop, snowflake_url: str) -> None:
    shop.connections["snowflake"] = snowflake_url
    with closing(connect_snowflake(snowflake_url)) as target, target.cursor() as cursor:
        cursor.execute("CREATE SCHEMA shop")
        # The old table had none of these rows.
        cursor.execute(
            "CREATE TABLE shop.orders (o_orderkey NUMBER(19,0), o_custkey NUMBER(19,0),"
            " o_orderstatus VARCHAR, o_totalprice NUMBER(15,2), o_orderdate DATE,"
            " o_orderpriority VARCHAR, o_clerk VARCHAR, o_shippriority NUMBER(10,0),"
            " o_comment VARCHAR)"
        )
        run = shop.run(EXAMPLES / "orders_to_snowflake.py", "orders_to_snowflake").succeeded()
        assert "verified by counts" in run.task("orders.verify").log
        found = cursor.execute("SELECT COUNT(*), SUM(o_totalprice) FROM shop.orders").fetchone()
    query = "SELECT count(*), round(sum(o_totalprice)) FROM orders"
    assert tuple(map(round, found)) == shop.source.execute(query).fetchone()
