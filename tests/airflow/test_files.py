"""DAG runs between a database, a lake on S3, a folder and a DuckDB file, and their lineage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import duckdb
import pyarrow.dataset as ds
import pytest

from penstock_testkit import S3Server, Server
from penstock_testkit.airflow import DagRunResult

from .shop import Shop, open_shop

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 1000
SECRET = "s3cr3t/of+the=lake"
DAY = "2026-01-01"
LOGICAL_DATE = f"{DAY}T00:00:00+00:00"
DAG_FILE = """
LAKE = {"target": "s3://lake/out/day={{ ds }}/", "target_aws_conn_id": "lake"}
SOURCE = {"source": "s3://lake/out/day={{ ds }}/*.parquet", "source_aws_conn_id": "lake"}

with DAG("files", schedule=None, start_date=START) as dag:
    out = copy_table(
        group_id="out", source_conn_id="pg_src", table="public.t", **LAKE, mode="replace",
        strategy="range", key="id", partitions=4, degree=2,
    )
    back = copy_table(
        group_id="back", **SOURCE, target_conn_id="pg_dst", target_table="public.t",
        mode="truncate", strategy="files", partitions=2, degree=2, verify="checksums",
    )
    folder = CopyTableOperator(
        task_id="folder", **SOURCE, query="SELECT id, note FROM source WHERE id < 10",
        target="FOLDER/{{ ds }}/", mode="replace", degree=1, outlet=AssetAlias("mine"),
    )
    base = CopyTableOperator(
        task_id="base", source_conn_id="pg_src", table="public.t", target="duckdb:///FOLDER/w.duckdb",
        target_table="main.t", mode="recreate", degree=1, outlet=AssetAlias("mine"),
    )
    out >> back >> folder >> base
"""


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as server:
        server.create_bucket("lake")
        yield server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("files")
    return folder


@pytest.fixture(scope="module")
def shop(
    source_server: Server, target_server: Server, folder: Path, server: S3Server
) -> Iterator[Shop]:
    transport = {"type": "file", "log_file_path": str(folder / "lineage.jsonl"), "append": True}
    settings = {
        "openlineage.transport": json.dumps(transport),
        "openlineage.namespace": "tests",
        "openlineage.execution_timeout": 120,
    }
    airflow = folder / "shop"
    airflow.mkdir()
    with open_shop((source_server, target_server), airflow, settings=settings) as shop:
        shop.both("CREATE TABLE t (id int PRIMARY KEY, note text, day date)")
        shop.source.execute(
            f"INSERT INTO t SELECT n, 'note ' || n, date '{DAY}' FROM generate_series(1, {ROWS}) n"
        )
        shop.connections["lake"] = json.dumps(
            {
                "conn_type": "aws",
                "login": "AKIAEXAMPLE",
                "password": SECRET,
                "extra": {"endpoint_url": server.endpoint, "region_name": "eu-central-1"},
            }
        )
        yield shop


@pytest.fixture(scope="module")
def run(shop: Shop, folder: Path) -> DagRunResult:
    from datetime import datetime  # noqa: PLC0415

    file = shop.write(
        "from airflow.providers.common.compat.sdk import AssetAlias\n"
        + DAG_FILE.replace("FOLDER", str(folder))
    )
    return shop.run(file, "files", logical_date=datetime.fromisoformat(LOGICAL_DATE)).succeeded()


def table(server: S3Server, keys: list[str], folder: Path) -> pa.Table:
    """Return the rows of objects, read through files."""
    paths = []
    for number, key in enumerate(keys):
        path = folder / f"read-{number}.parquet"
        path.write_bytes(server.read("lake", key))
        paths.append(str(path))
    return ds.dataset(paths).to_table()


def test_a_table_is_copied_to_files_and_back(
    run: DagRunResult, shop: Shop, server: S3Server, tmp_path: Path
) -> None:
    assert len(run.mapped("out.copy")) == 4
    keys = server.keys("lake", f"out/day={DAY}/")
    files = [key for key in keys if key.endswith(".parquet") and "/_penstock/" not in key]
    assert len(files) == 4
    assert sorted(table(server, files, tmp_path)["id"].to_pylist()) == [*range(1, ROWS + 1)]
    assert server.uploads("lake") == []
    assert len(run.mapped("back.copy")) == 2
    shop.assert_same("t")
    shop.assert_no_session()


def test_a_query_is_copied_to_a_folder_and_a_table_to_duckdb(
    run: DagRunResult, folder: Path
) -> None:
    assert run.task("folder").value["rows"] == 9
    found = ds.dataset(folder / DAY, format="parquet").to_table()
    assert found.column_names == ["id", "note"]
    assert sorted(found["id"].to_pylist()) == [*range(1, 10)]
    with duckdb.connect(str(folder / "w.duckdb"), read_only=True) as base:
        assert base.execute("SELECT count(*), sum(id) FROM main.t").fetchone() == (
            ROWS,
            ROWS * (ROWS + 1) // 2,
        )


def test_assets_are_named_by_location(run: DagRunResult, folder: Path, shop: Shop) -> None:
    events = {event.task_id: event for event in run.asset_events}
    assert events["out.verify"].uri == f"s3://lake/out/day={DAY}"
    assert events["out.verify"].extra["rows"] == ROWS
    assert events["back.verify"].uri.startswith("postgres://")
    assert events["folder"].uri == f"file://{folder}/{DAY}"
    # Airflow drops the slashes of an empty host if Python does not know the scheme.
    assert events["base"].uri.replace(":///", ":/") == f"duckdb:{folder}/w.duckdb/main/t"


def test_lineage_names_buckets_and_paths(run: DagRunResult, folder: Path) -> None:
    events = [json.loads(line) for line in (folder / "lineage.jsonl").read_text().splitlines()]

    def lineage(task: str) -> tuple[Any, Any, Any]:
        """Return input, output and rows at the end of the task."""
        event = next(
            event
            for event in events
            if event["job"]["name"] == f"files.{task}" and event["eventType"] == "COMPLETE"
        )
        (read,) = event["inputs"] or [None]
        (output,) = event["outputs"]
        return (
            read and (read["namespace"], read["name"]),
            (output["namespace"], output["name"]),
            output["outputFacets"].get("outputStatistics", {}).get("rowCount"),
        )

    def copied(group: str) -> int:
        """Return the rows that the tasks of a group have reported."""
        ends = (
            event
            for event in events
            if event["job"]["name"].startswith(f"files.{group}.")
            and event["eventType"] == "COMPLETE"
        )
        return sum(
            output["outputFacets"]["outputStatistics"]["rowCount"]
            for event in ends
            for output in event["outputs"]
            if "outputStatistics" in output["outputFacets"]
        )

    lake = ("s3://lake", f"out/day={DAY}")
    read, output, rows = lineage("out.verify")
    assert read[0].startswith("postgres://")
    # The tasks that copied them have reported them.
    assert (output, rows, copied("out")) == (lake, None, ROWS)
    read, output, rows = lineage("back.verify")
    assert (read, rows, copied("back")) == (lake, None, ROWS)
    assert output[1].endswith(".public.t")
    assert lineage("folder") == (lake, ("file", f"{folder}/{DAY}"), 9)
    _, output, rows = lineage("base")
    assert (output, rows) == (("duckdb", f"{folder}/w.duckdb.main.t"), ROWS)


def test_the_lakes_keys_appear_nowhere(
    run: DagRunResult, folder: Path, server: S3Server, shop: Shop
) -> None:
    shown = [SECRET, quote(SECRET, safe=""), quote(SECRET)]
    records = [
        server.read("lake", key).decode()
        for key in server.keys("lake", "out/")
        if key.endswith(".json")
    ]
    control = shop.target.execute("SELECT spec::text, plan::text FROM penstock.run").fetchall()
    places = {
        "output": run.output,
        "fields": json.dumps([task.rendered_fields for task in run.tasks]),
        "XComs": json.dumps([task.xcoms for task in run.tasks]),
        "lineage": (folder / "lineage.jsonl").read_text(),
        "metadata": run.database.read_bytes().decode(errors="replace"),
        "records": "\n".join(records),
        "control tables": str(control),
    }
    assert records
    assert control
    found = [name for name, text in places.items() if any(one in text for one in shown)]
    assert found == []
    # Proof that the test looked in the right places.
    for name in ("output", "fields", "metadata", "records"):
        assert "s3://lake/out" in places[name], name


def test_a_failure_names_the_missing_file_or_bucket(shop: Shop) -> None:
    file = shop.write(
        """
with DAG("absent", schedule=None, start_date=START, default_args={"retries": 3, **AT_ONCE}):
    CopyTableOperator(
        task_id="absent", source="s3://lake/nothing/*.parquet", source_aws_conn_id="lake",
        target_conn_id="pg_dst", target_table="public.t", degree=1,
    )
"""
    )
    run = shop.run(file, "absent")
    task = run.task("absent")
    # A retry would not help.
    assert (task.state, task.try_number) == ("failed", 1)
    assert "s3://lake/nothing/*.parquet" in task.log
    assert SECRET not in run.output
