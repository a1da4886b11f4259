"""Every file in dags_examples/dagster, run and compared with its description."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import psycopg
import pytest
from dagster.components.testing import create_defs_folder_sandbox

import penstock
from dagster_penstock import CopiedTable, CopySpec
from penstock_testkit import S3Server, Server, connect_clickhouse, connect_snowflake, tpch

from ..conftest import Connection, fresh_clickhouse, fresh_database

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "dags_examples/dagster"
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TABLES = ("lineitem", "orders")
ORDERS, LINEITEM = dg.AssetKey(["dw", "orders"]), dg.AssetKey(["dw", "lineitem"])
RANGE = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
# A sum does not depend on the order of rows, and changes if one is doubled or missing.
CONTENT = "SELECT count(*), sum(hashtextextended(t::text, 0)::numeric) FROM {} AS t WHERE {}"


@pytest.fixture(scope="module")
def shop(source_server: Server) -> Iterator[str]:
    with fresh_database(source_server) as url:
        tpch.load(url, TABLES, primary_keys=True)
        yield url


@pytest.fixture
def warehouse(shop: str, target_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a warehouse with empty tables in the schema `dw`."""
    tpch.create(target_url, TABLES, schema="dw")
    monkeypatch.setenv("PG_SRC", shop)
    monkeypatch.setenv("PG_DST", target_url)
    return target_url


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test() as instance:
        yield instance


def read(url: str, statement: str) -> Any:
    with psycopg.connect(url) as connection:
        return connection.execute(statement.encode()).fetchone()


def content(url: str, table: str, where: str = "true") -> Any:
    return read(url, CONTENT.format(table, where))


def assert_same(shop: str, warehouse: str, table: str, where: str = "true") -> None:
    """Check that both tables have the same rows, equally often, and are not empty."""
    expected = content(shop, table, where)
    assert expected[0] > 0
    assert content(warehouse, f"dw.{table}", where) == expected


def definitions(file: Path) -> dg.Definitions:
    found = runpy.run_path(str(file))["defs"]
    assert isinstance(found, dg.Definitions)
    return found


def run(
    defs: dg.Definitions, instance: dg.DagsterInstance, keys: tuple[str, str] | None = None
) -> dg.ExecuteInProcessResult:
    """Materialize all assets.

    Args:
        keys: the first and the last partition.
    """
    return defs.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance,
        tags=dict(zip(RANGE, keys, strict=True)) if keys else {},
        raise_on_error=False,
    )


def test_every_example_is_tested() -> None:
    tests = Path(__file__).read_text(encoding="utf-8")
    assert set(re.findall(r'EXAMPLES / "(\w+\.py)"', tests)) == {
        file.name for file in EXAMPLES.glob("*.py")
    }


@pytest.mark.parametrize("page", ["docs/dagster.md", "dagster_plugin/README.md"])
def test_examples_on_pages(page: str) -> None:
    for body in PYTHON.findall((ROOT / page).read_text(encoding="utf-8")):
        # Placed next to the examples' file of many tables.
        found: dict[str, Any] = {"__file__": str(EXAMPLES / "nightly_file.py")}
        exec(compile(body, page, "exec", dont_inherit=True), found)
        if "defs" in found:
            dg.Definitions.validate_loadable(found["defs"])
        elif "Warehouse" in found:
            spec = CopySpec(source="env:SRC", target="env:DST", table="public.orders")
            asset = found["Warehouse"]().get_asset_spec(CopiedTable(spec))
            assert asset.owners == ["team:data"]
        elif "Nightly" in found:
            spec = CopySpec(source="env:SRC", target="env:DST", table="public.orders")
            assert found["Nightly"]().get_asset_spec(CopiedTable(spec)).freshness_policy
        elif "speed" in found:
            metadata = {"penstock/rows_per_second": dg.MetadataValue.float(7.5)}
            event = dg.AssetMaterialization("orders", metadata=metadata)
            assert found["speed"](event) == 7.5
        else:
            pytest.fail(f"not tried: {body}")


@pytest.mark.filterwarnings("ignore:.parse_obj_as. is deprecated")
@pytest.mark.filterwarnings("ignore:Class .(LocalFileCode|CodeReferences)")
def test_yaml_on_the_page() -> None:
    page = (ROOT / "docs/dagster.md").read_text(encoding="utf-8")
    found = [body for body in YAML.findall(page) if body.startswith("type:")]
    bodies = [document for body in found for document in body.split("---\n")]
    expected = ({ORDERS, LINEITEM}, {ORDERS}, {LINEITEM}, {ORDERS})
    for body, keys in zip(bodies, expected, strict=True):
        with create_defs_folder_sandbox() as sandbox:
            folder = sandbox.defs_folder_path / "copies"
            folder.mkdir()
            (folder / "defs.yaml").write_text(body)
            shutil.copy(EXAMPLES / "penstock.toml", folder)
            if "partitions:" in body:
                text = (folder / "penstock.toml").read_text(encoding="utf-8")
                by_day = 'mode = "replace"\nkey = "o_orderdate"'
                text = text.replace('deletes = "hard,10%,1000"', by_day)
                (folder / "penstock.toml").write_text(text, encoding="utf-8")
            with sandbox.load_component_and_build_defs(folder) as (_, defs):
                assert defs.resolve_asset_graph().materializable_asset_keys == keys


def test_daily_replace(
    shop: str, warehouse: str, target: Connection, instance: dg.DagsterInstance
) -> None:
    days = "o_orderdate >= '1995-03-04' AND o_orderdate < '1995-03-08'"
    # An outdated row for each day; the other day's row must not change.
    target.execute(
        b"""
        INSERT INTO dw.orders SELECT -n, 0, 'F', 0, date '1995-03-04' + n, '', '', 0, 'stale'
        FROM generate_series(0, 4) AS n
    """
    )
    defs = definitions(EXAMPLES / "daily_replace.py")
    for _ in range(2):
        assert run(defs, instance, ("1995-03-04", "1995-03-07")).success
        assert_same(shop, warehouse, "orders", days)
        assert content(warehouse, "dw.orders", f"NOT ({days})")[0] == 1
    assert instance.get_materialized_partitions(ORDERS) == {
        f"1995-03-0{day}" for day in (4, 5, 6, 7)
    }


def test_range_buckets(
    shop: str, warehouse: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command in the example's docstring works."""
    file = EXAMPLES / "range_buckets.py"
    (command,) = re.findall(r"^    (dg launch .+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    program, *arguments = shlex.split(command)
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    ran = subprocess.run(
        [Path(sys.executable).with_name(program), *arguments],
        cwd=EXAMPLES,
        env={**os.environ, "DAGSTER_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert ran.returncode == 0, ran.stderr
    assert_same(shop, warehouse, "lineitem")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    with dg.DagsterInstance.get() as instance:
        assert instance.get_materialized_partitions(LINEITEM) == {f"00{n}" for n in range(8)}


def test_nightly_increment(shop: str, warehouse: str, instance: dg.DagsterInstance) -> None:
    defs = definitions(EXAMPLES / "nightly_increment.py")
    by_four = dg.FreshnessPolicy.cron("0 4 * * *", lower_bound_delta=timedelta(hours=2))
    assert {
        asset.freshness_policy
        for asset in defs.resolve_all_asset_specs()
        if "penstock" in asset.kinds
    } == {by_four}
    with psycopg.connect(warehouse) as target:
        target.execute("DROP TABLE dw.lineitem, dw.orders")  # the TPC-H tables here have no keys
    assert run(defs, instance).success
    with psycopg.connect(shop) as source:
        source.execute("UPDATE orders SET o_comment = 'tonight' WHERE o_orderkey % 100 = 0")
        deleted = source.execute("DELETE FROM lineitem WHERE l_orderkey % 100 = 1").rowcount
    tonight = run(defs, instance)
    assert tonight.success
    for table in TABLES:
        assert_same(shop, warehouse, table)
    found = {
        event.asset_key: event.step_materialization_data.materialization.metadata
        for event in tonight.get_asset_materialization_events()
    }
    assert found[LINEITEM]["penstock/rows_deleted"].value == deleted
    updated = found[ORDERS]["penstock/rows_updated"].value
    assert isinstance(updated, int)
    assert 0 < updated == found[ORDERS]["penstock/rows_read"].value


def test_nightly_file(shop: str, warehouse: str, instance: dg.DagsterInstance) -> None:
    defs = definitions(EXAMPLES / "nightly_file.py")
    with psycopg.connect(warehouse) as target:
        target.execute("DROP TABLE dw.lineitem, dw.orders")  # the TPC-H tables here have no keys
    first = run(defs, instance)
    assert first.success
    with psycopg.connect(shop) as source:
        source.execute("UPDATE orders SET o_comment = 'again' WHERE o_orderkey % 50 = 0")
    # One of them alone.
    job = defs.resolve_implicit_global_asset_job_def()
    alone = job.execute_in_process(instance=instance, asset_selection=[ORDERS])
    assert alone.success
    assert [e.asset_key for e in alone.get_asset_materialization_events()] == [ORDERS]
    for table in TABLES:
        assert_same(shop, warehouse, table)
    assert [check.passed for check in first.get_asset_check_evaluations()] == [True, True]
    moments = {
        event.step_materialization_data.materialization.metadata["penstock/as_of"].value
        for event in first.get_asset_materialization_events()
    }
    assert len(moments) == 1


def test_checked_graph(
    shop: str, warehouse: str, target: Connection, instance: dg.DagsterInstance
) -> None:
    defs = definitions(EXAMPLES / "checked_graph.py")
    assert run(defs, instance).success
    assert_same(shop, warehouse, "orders")
    days = read(shop, "SELECT count(DISTINCT o_orderdate) FROM orders")
    assert read(warehouse, "SELECT count(*) FROM dw.revenue") == days

    target.execute(
        b"""
        CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN NEW.o_totalprice = 0; RETURN NEW; END $$;
        CREATE TRIGGER spoil BEFORE INSERT ON dw.orders FOR EACH ROW
            WHEN (NEW.o_orderkey = 7) EXECUTE FUNCTION spoil();
        INSERT INTO dw.revenue VALUES ('2026-01-01', 0)
    """
    )
    spoilt = run(defs, instance)
    assert not spoilt.success
    assert [(check.asset_key, check.passed) for check in spoilt.get_asset_check_evaluations()] == [
        (ORDERS, False)
    ]
    # It was not created again.
    assert read(warehouse, "SELECT count(*) FROM dw.revenue") == (days[0] + 1,)


def test_on_new_source_partition(shop: str, warehouse: str, instance: dg.DagsterInstance) -> None:
    defs = definitions(EXAMPLES / "on_new_source_partition.py")
    sensor = defs.resolve_sensor_def("days_of_the_source")

    def tick(cursor: str | None) -> Any:
        with dg.build_sensor_context(instance=instance, cursor=cursor, definitions=defs) as context:
            return sensor.evaluate_tick(context)

    first = tick(None)
    assert [request.partition_key for request in first.run_requests] == [
        f"1992-01-{day:02}" for day in range(1, 11)
    ]
    assert tick(first.cursor).run_requests[0].partition_key == "1992-01-11"
    # Orders of the last day may still arrive.
    assert tick("1998-07-31").run_requests[0].partition_key == "1998-08-01"
    assert tick("1998-08-01").run_requests == []
    job = defs.resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(instance=instance, partition_key="1992-01-01").success
    assert_same(shop, warehouse, "orders", "o_orderdate = '1992-01-01'")
    assert content(warehouse, "dw.orders", "o_orderdate <> '1992-01-01'")[0] == 0


def test_daily_lake(
    shop: str, warehouse: str, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = "o_orderdate >= '1995-03-04' AND o_orderdate < '1995-03-08'"
    with S3Server() as lake:
        lake.create_bucket("lake")
        for name, value in lake.environment.items():
            monkeypatch.setenv(name, value)
        defs = definitions(EXAMPLES / "daily_lake.py")
        before: list[str] = []
        for _ in range(2):
            assert run(defs, instance, ("1995-03-04", "1995-03-07")).success
            files = lake.keys("lake", "orders/o_orderdate=")
            # Each day has new files, and the old ones have been removed.
            assert not set(files) & set(before)
            assert {key.split("/")[1] for key in files} == {
                f"o_orderdate=1995-03-0{day}" for day in (4, 5, 6, 7)
            }
            before = files
        assert run(defs, instance, ("1995-03-05", "1995-03-05")).success
        files = lake.keys("lake", "orders/o_orderdate=")
        unchanged = set(files) & set(before)
        assert {key.split("/")[1] for key in before if key not in unchanged} == {
            "o_orderdate=1995-03-05"
        }
        assert instance.get_materialized_partitions(dg.AssetKey("orders")) == {
            f"1995-03-0{day}" for day in (4, 5, 6, 7)
        }
        # Read it back in the same way, and compare it with its source.
        spec = penstock.CopySpec(
            source="s3://lake/orders/",
            target=warehouse,
            target_table="dw.orders",
            mode="append",
            degree=1,
        )
        for _ in penstock.copy(spec):
            pass
        assert_same(shop, warehouse, "orders", days)
        assert content(warehouse, "dw.orders", f"NOT ({days})")[0] == 0


def test_orders_in_clickhouse(
    shop: str,
    clickhouse_server: str,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with (
        fresh_clickhouse(clickhouse_server, "shop") as url,
        closing(connect_clickhouse(url)) as client,
    ):
        monkeypatch.setenv("PG_SRC", shop)
        monkeypatch.setenv("CLICKHOUSE_URL", url)
        defs = definitions(EXAMPLES / "orders_in_clickhouse.py")
        result = run(defs, instance)
        assert result.success
        assert [check.passed for check in result.get_asset_check_evaluations()] == [True]
        found = client.query("SELECT count(), toString(sum(o_totalprice)) FROM shop.orders")
        expected = read(shop, "SELECT count(*), sum(o_totalprice)::text FROM orders")
        assert found.result_rows == [expected]


def test_daily_snowflake(
    shop: str, snowflake_url: str, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PG_SRC", shop)
    monkeypatch.setenv("SNOWFLAKE_URL", snowflake_url)
    days = "o_orderdate BETWEEN '1995-03-04' AND '1995-03-05'"
    with closing(connect_snowflake(snowflake_url)) as target, target.cursor() as cursor:
        cursor.execute("CREATE SCHEMA shop")
        # An outdated row for each day; the other day's row must not change.
        cursor.execute(
            "CREATE TABLE shop.orders (o_orderkey NUMBER(19,0), o_custkey NUMBER(19,0),"
            " o_orderstatus VARCHAR, o_totalprice NUMBER(15,2), o_orderdate DATE,"
            " o_orderpriority VARCHAR, o_clerk VARCHAR, o_shippriority NUMBER(10,0),"
            " o_comment VARCHAR)"
        )
        cursor.execute(
            "INSERT INTO shop.orders (o_orderkey, o_orderdate, o_comment)"
            " VALUES (-4, '1995-03-04', 'stale'), (-6, '1995-03-06', 'stale')"
        )
        defs = definitions(EXAMPLES / "daily_snowflake.py")
        assert run(defs, instance, ("1995-03-04", "1995-03-05")).success
        query = f"SELECT count(*), sum(o_orderkey) FROM {{}} WHERE {days}"
        assert cursor.execute(query.format("shop.orders")).fetchone() == read(
            shop, query.format("orders")
        )
        cursor.execute(f"SELECT o_comment FROM shop.orders WHERE NOT ({days})")
        assert cursor.fetchall() == [("stale",)]
    assert instance.get_materialized_partitions(dg.AssetKey(["shop", "orders"])) == {
        "1995-03-04",
        "1995-03-05",
    }


@pytest.mark.parametrize(("number", "folder", "records"), [(0, ROOT, 1), (1, EXAMPLES, 8)])
def test_from_a_shell(
    warehouse: str, tmp_path: Path, number: int, folder: Path, records: int
) -> None:
    """The commands on the page work."""
    page = (ROOT / "docs/dagster.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ (dg launch .*)$", page, re.MULTILINE)
    assert len(commands) == 2
    command = commands[number]
    dg_program = Path(sys.executable).with_name("dg")
    if not dg_program.exists():
        pytest.skip("dg is not installed: pip install dagster-dg-cli")
    process = subprocess.run(
        [str(dg_program), *shlex.split(command)[1:]],
        cwd=folder,
        env={**os.environ, "DAGSTER_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    with closing(psycopg.connect(warehouse)) as connection:
        row = connection.execute("SELECT count(*) FROM penstock.commit_record").fetchone()
    assert row == (records,)
