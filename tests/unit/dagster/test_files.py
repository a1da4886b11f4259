"""Assets of copies between files, S3, DuckDB and databases: names, and rejected definitions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from dagster_penstock import CopiedTable, CopySpec, PenstockTranslator, penstock_assets
from dagster_penstock.connections import S3_FIELDS, source_ref, target_ref, with_s3_keys
from penstock import UsageError
from penstock.backends.parquet.location import parse

DAYS = dg.DailyPartitionsDefinition("2024-01-01")
KEY, SECRET = "AKIAEXAMPLE", "s3cr3t/+&=?#%"


def asset(**options: Any) -> dg.AssetSpec:
    arguments = {
        "source": "env:PG_SRC",
        "target": "env:PG_DST",
        "table": "public.orders",
        **options,
    }
    present = {name: value for name, value in arguments.items() if value is not None}
    return PenstockTranslator().get_asset_spec(CopiedTable(CopySpec(**present)))


@pytest.mark.parametrize(
    ("target", "key"),
    [
        ("s3://lake/orders/", ["orders"]),
        ("s3://lake/tpch/sf10/orders", ["tpch", "sf10", "orders"]),
        ("s3://lake/tpch/?region=eu-west-1", ["tpch"]),
        ("s3://lake", ["lake"]),
        ("s3://lake/of=all/o%20s/", ["of_all", "o_20s"]),
        ("file:///data/lake/orders/", ["data", "lake", "orders"]),
        ("/data/lake/orders", ["data", "lake", "orders"]),
        ("./lake/orders/", ["lake", "orders"]),
        ("../lake", ["lake"]),
    ],
)
def test_a_folder_is_an_asset_named_by_its_path(target: str, key: list[str]) -> None:
    found = asset(target=target)
    assert found.key == dg.AssetKey(key)
    assert found.kinds - {"s3"} == {"penstock", "parquet"}
    assert ("s3" in found.kinds) == target.startswith("s3:")
    assert "dagster/table_name" not in found.metadata

    @penstock_assets(specs=[CopySpec(source="env:PG_SRC", target=target, table="public.orders")])
    def step() -> Iterator[Any]:
        yield from ()

    assert step.keys == {found.key}


def test_metadata_has_both_ends_without_parameters() -> None:
    found = asset(target="s3://lake/orders/?region=eu-west-1")
    assert found.description == "public.orders, copied to s3://lake/orders in mode append."
    found = asset(
        source="s3://lake/o/*.parquet?region=eu-west-1", table=None, target_table="dw.orders"
    )
    assert found.description == "s3://lake/o/*.parquet, copied to dw.orders in mode append."
    assert found.key == dg.AssetKey(["dw", "orders"])
    assert found.kinds == {"penstock"}
    assert found.metadata["dagster/table_name"] == "dw.orders"


def test_a_duckdb_table_is_an_asset_named_by_its_name() -> None:
    found = asset(target="duckdb:////data/w.duckdb")
    assert found.key == dg.AssetKey(["public", "orders"])
    assert found.kinds == {"penstock", "duckdb"}
    assert found.metadata["dagster/table_name"] == "public.orders"


def test_definitions_read_only_the_kind_from_a_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("LAKE_ORDERS", raising=False)
    assert asset(target="env:LAKE_ORDERS", table=None, query="SELECT 1").kinds == {"penstock"}
    monkeypatch.setenv("LAKE_ORDERS", "s3://lake/read-at-load/")
    found = asset(target="env:LAKE_ORDERS", table=None, query="SELECT 1")
    assert found.key == dg.AssetKey(["lake_orders"])
    assert "read-at-load" not in repr(found)
    assert found.kinds == {"penstock", "parquet", "s3"}
    monkeypatch.setenv("LAKE_ORDERS", "nonsense://lake")
    assert asset(target="env:LAKE_ORDERS", table=None, query="SELECT 1").kinds == {"penstock"}
    assert asset(target=dg.EnvVar("LAKE_ORDERS")).key == dg.AssetKey(["public", "orders"])


def test_definitions_read_only_the_kind_from_a_file(tmp_path: Path) -> None:
    target = f"file:{tmp_path}/Lake Orders"
    assert asset(target=target, table=None, query="SELECT 1").kinds == {"penstock"}
    (tmp_path / "Lake Orders").write_text("s3://lake/read-at-load/\n")
    found = asset(target=target, table=None, query="SELECT 1")
    assert found.key == dg.AssetKey(["lake_orders"])
    assert "read-at-load" not in repr(found)
    assert found.kinds == {"penstock", "parquet", "s3"}


def test_component_templates_name_folders_as_tables() -> None:
    spec = CopySpec(source="s3://in/raw/o/*.parquet", target="s3://lake/tpch/sf1/orders/")
    assert (target_ref(spec).schema, target_ref(spec).name) == ("tpch/sf1", "orders")
    assert (source_ref(spec).schema, source_ref(spec).name) == ("raw", "o")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"target": "postgresql://me@h/dw", "mode": "replace"}, 'mode="replace": expected key'),
        ({"target": "duckdb:////w.duckdb", "mode": "replace"}, 'mode="replace": expected key'),
        ({"source": "postgresql://me@h/shop", "table": None}, "table, query: found "),
        ({"source": "s3://lake/orders/"}, "table: s3://lake/orders/ points to the rows themselves"),
        (
            {"target": "postgresql://me@h/dw", "table": None, "query": "SELECT 1"},
            "target_table: expected the table to write",
        ),
        ({"target": "s3:///orders"}, "expected s3://bucket/path, found no bucket"),
        ({"target": "gs://lake/orders"}, "expected a URL with one of the schemes"),
        (
            {"target": "s3://lake/o/", "mode": "upsert"},
            'does not support mode="upsert"',
        ),
        ({"target": "s3://lake/o/", "mode": "replace", "partitions_def": DAYS}, "key: expected"),
    ],
)
def test_invalid_ends_are_rejected(options: dict[str, Any], expected: str) -> None:
    partitions_def = options.pop("partitions_def", None)
    arguments = {
        "source": "env:PG_SRC",
        "target": "env:PG_DST",
        "table": "public.orders",
        **options,
    }
    spec = CopySpec(**{name: value for name, value in arguments.items() if value is not None})
    with pytest.raises(dg.DagsterInvalidDefinitionError) as raised:
        penstock_assets(specs=[spec], partitions_def=partitions_def)
    assert expected in str(raised.value)


def test_two_copies_into_one_folder_are_rejected() -> None:
    specs = [
        CopySpec(source="env:PG_SRC", target="s3://lake/all/", table=table)
        for table in ("public.orders", "public.lineitem")
    ]

    with pytest.raises(dg.DagsterInvalidDefinitionError, match="all"):

        @penstock_assets(specs=specs)
        def step() -> Iterator[Any]:
            yield from ()


# The keys of S3


def resource(**fields: Any) -> Any:
    """Return a resource with all the fields that matter here."""
    empty = dict.fromkeys(S3_FIELDS.values())
    return SimpleNamespace(**{**empty, "use_unsigned_session": False, **fields})


def test_fields_match_dagsters_own_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    module = pytest.importorskip("dagster_aws.s3", reason="dagster-aws is not installed")
    fields = module.S3Resource.model_fields
    assert {*S3_FIELDS.values(), "use_unsigned_session"} <= set(fields)
    resource = module.S3Resource(aws_access_key_id=KEY, aws_secret_access_key=SECRET)
    monkeypatch.setenv("PG_DST", "postgresql://me@h/dw")
    spec = CopySpec(source="s3://lake/o/", target="env:PG_DST", target_table="dw.orders")
    assert with_s3_keys(spec, None) == spec
    found = with_s3_keys(spec, resource)
    assert found.target == "env:PG_DST"
    assert parse(found.source, "source").secret_access_key == SECRET


def test_a_resource_provides_the_keys_for_s3_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LAKE", "s3://lake/orders/?region=us-east-1")
    spec = CopySpec(source=str(tmp_path), target="env:LAKE", target_table="dw.orders")
    s3 = resource(
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
        endpoint_url="http://minio:9000",
        region_name="eu-central-1",
    )
    found = with_s3_keys(spec, s3)
    assert found.source == str(tmp_path)
    where = parse(found.target, "target")
    assert (where.access_key_id, where.secret_access_key) == (KEY, SECRET)
    # The URL of the copy takes precedence over the resource.
    assert (where.endpoint, where.region) == ("http://minio:9000", "us-east-1")
    assert SECRET not in repr(found)
    assert "s3cr3t" not in str(found.stored())


def test_an_unsigned_resource_is_rejected() -> None:
    spec = CopySpec(source="s3://lake/o/", target="s3://lake/p/")
    with pytest.raises(UsageError, match="use_unsigned_session"):
        with_s3_keys(spec, resource(use_unsigned_session=True))
