"""Assets that are folders of Parquet files, or copies of them."""

# No future annotations: Dagster inspects the annotations of a step's context.
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pyarrow.dataset as ds
import pytest
from dagster_aws.s3 import S3Resource

from dagster_penstock import CopySpec, PenstockResource, penstock_assets, ranges
from penstock_testkit import S3Server

from .warehouse import Run, Warehouse, copying, days

if TYPE_CHECKING:
    import pyarrow as pa

SECRET = "s3cr3t/of+the=lake"
LAKE = dg.AssetKey("t")
THREE = ("2024-01-02", "2024-01-04")


@pytest.fixture
def server(s3_server: S3Server) -> S3Server:
    return s3_server


@pytest.fixture
def bucket(s3_server: S3Server, request: pytest.FixtureRequest) -> str:
    """Return a bucket that only this test uses."""
    return s3_server.create_bucket(f"lake-{abs(hash(request.node.nodeid))}")


def resource(server: S3Server) -> S3Resource:
    return S3Resource(
        aws_access_key_id="AKIAEXAMPLE",
        aws_secret_access_key=SECRET,
        endpoint_url=server.endpoint,
        region_name="eu-central-1",
    )


def copying_with(*specs: CopySpec, **options: Any) -> dg.AssetsDefinition:
    @penstock_assets(specs=specs, **options)
    def copy(
        context: dg.AssetExecutionContext, penstock: PenstockResource, s3: S3Resource
    ) -> Iterator[Any]:
        yield from penstock.copy(context, s3=s3)

    return copy


def run(
    warehouse: Warehouse,
    server: S3Server,
    assets: dg.AssetsDefinition,
    keys: tuple[str, str] | None = None,
) -> Run:
    names = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
    result = dg.materialize(
        [assets],
        instance=warehouse.instance,
        tags=dict(zip(names, keys, strict=True)) if keys else {},
        resources={"penstock": PenstockResource(degree=2), "s3": resource(server)},
        raise_on_error=False,
    )
    return Run(result, warehouse.instance)


def rows(folder: Path) -> "pa.Table":
    return ds.dataset(folder, format="parquet").to_table()


def data(server: S3Server, bucket: str) -> list[str]:
    """Return the keys of files that hold rows."""
    return [key for key in server.keys(bucket) if "_penstock/" not in key]


def test_a_folders_materialization_shows_its_location(warehouse: Warehouse, tmp_path: Path) -> None:
    folder = tmp_path / "lake" / "t"
    spec = warehouse.spec(target=str(folder), target_table=None, verify="checksums")
    asset = dg.AssetKey([part.replace("[", "_") for part in str(folder).strip("/").split("/")])
    for _ in range(2):
        outcome = warehouse.run(copying([spec]))
        assert outcome.ok, outcome.log
        found = outcome.metadata(asset=asset)
        assert found["dagster/uri"] == found["penstock/target_table"] == f"file://{folder}"
        assert "dagster/table_name" not in found
        assert found["dagster/row_count"] == 1000
        assert [check.passed for check in outcome.evaluations] == [True]
        assert sorted(rows(folder)["id"].to_pylist()) == [*range(1000)]


def test_each_day_of_a_lake_is_swapped_separately(
    warehouse: Warehouse, server: S3Server, bucket: str
) -> None:
    assets = copying_with(
        warehouse.spec(
            target=f"s3://{bucket}/t/", target_table=None, key="day", verify="checksums"
        ),
        partitions_def=days(),
    )
    first = run(warehouse, server, assets, THREE)
    assert first.ok, first.log
    assert first.reported(LAKE) == ["2024-01-02", "2024-01-03", "2024-01-04"]
    assert first.rows(LAKE) == dict.fromkeys(first.reported(LAKE), 100)
    assert {check.partition: check.passed for check in first.evaluations} == dict.fromkeys(
        first.reported(LAKE), True
    )
    assert first.metadata("2024-01-02", LAKE)["dagster/uri"] == f"s3://{bucket}/t"
    before = data(server, bucket)
    again = run(warehouse, server, assets, ("2024-01-03", "2024-01-03"))
    assert again.ok, again.log
    after = data(server, bucket)
    assert len(before) == len(after) == 3
    assert len(set(before) & set(after)) == 2
    assert server.uploads(bucket) == []


def test_the_keys_of_a_resource_appear_nowhere(
    warehouse: Warehouse, server: S3Server, bucket: str
) -> None:
    into = copying_with(warehouse.spec(target=f"s3://{bucket}/t/", target_table=None))
    outcome = run(warehouse, server, into)
    assert outcome.ok, outcome.log
    shown = {
        "log": outcome.log,
        "events": "\n".join(map(str, outcome.result.all_events)),
        "metadata": str(outcome.metadata(asset=LAKE)),
        "documents": "\n".join(
            server.read(bucket, key).decode() for key in server.keys(bucket, "t/_penstock/")
        ),
    }
    escaped = SECRET.replace("/", "%2F").replace("+", "%2B").replace("=", "%3D")
    found = [name for name, text in shown.items() if SECRET in text or escaped in text]
    assert found == []
    assert bucket in shown["documents"]


def test_the_error_for_a_missing_bucket_names_it(warehouse: Warehouse, server: S3Server) -> None:
    outcome = run(
        warehouse,
        server,
        copying_with(warehouse.spec(target="s3://nobodys-bucket/t/", target_table=None)),
    )
    assert not outcome.ok
    assert "nobodys-bucket" in outcome.failure.description
    assert SECRET not in outcome.failure.description


def test_an_unset_variable_is_a_failure(
    warehouse: Warehouse, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAKE", raising=False)
    spec = warehouse.spec(target=dg.EnvVar("LAKE"), target_table=None)
    outcome = run(warehouse, server, copying_with(spec))
    assert "environment variable 'LAKE' is not set" in outcome.failure.description


def test_files_are_appended_once(warehouse: Warehouse, tmp_path: Path) -> None:
    spec = warehouse.spec(
        target=f"file://{tmp_path}/t/", target_table=None, mode="append", key="day"
    )
    assets = copying([spec], partitions_def=days())
    assert warehouse.run(assets, keys=THREE).ok
    again = warehouse.run(assets, keys=("2024-01-04", "2024-01-05"))
    assert f"file://{tmp_path}/t already has these partitions" in again.failure.description
    assert warehouse.run(assets, key="2024-01-05").ok
    assert rows(tmp_path / "t").num_rows == 400


def test_ranges_in_a_lake_keep_their_bounds(
    warehouse: Warehouse, server: S3Server, bucket: str
) -> None:
    warehouse.source.execute(b"ANALYZE public.t")
    assets = copying_with(
        warehouse.spec(target=f"s3://{bucket}/t/", target_table=None, key="id"),
        partitions_def=ranges(4),
    )
    first = run(warehouse, server, assets, ("000", "001"))
    assert first.ok, first.log
    second = run(warehouse, server, assets, ("002", "003"))
    assert second.ok, second.log
    counted = [*first.rows(LAKE).values(), *second.rows(LAKE).values()]
    assert sum(counted) == 1000
    manifest = json.loads(server.read(bucket, "t/_penstock/manifest.json"))
    assert sum(file["rows"] for file in manifest["files"]) == 1000


def test_files_are_copied_into_a_table(warehouse: Warehouse, server: S3Server, bucket: str) -> None:
    into = copying_with(warehouse.spec(target=f"s3://{bucket}/t/", target_table=None))
    assert run(warehouse, server, into).ok
    back = copying_with(
        warehouse.spec(
            source=f"s3://{bucket}/t/*.parquet",
            table=None,
            mode="truncate",
            strategy="files",
            verify="checksums",
        )
    )
    outcome = run(warehouse, server, back)
    assert outcome.ok, outcome.log
    warehouse.check_same()
    assert outcome.metadata()["penstock/source_table"] == f"s3://{bucket}/t/*.parquet"
    assert [check.passed for check in outcome.evaluations] == [True]
