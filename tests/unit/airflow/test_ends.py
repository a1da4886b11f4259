"""The ends of a copy as arguments: connections, or URLs with the keys of an `aws` connection."""

from __future__ import annotations

import importlib.util
import json
from importlib import import_module
from typing import Any

import pytest

import penstock_airflow
from penstock import TableRef, UsageError, place_of
from penstock.backends.parquet.location import parse
from penstock.spec.references import redact

KEY, SECRET, TOKEN = "AKIAEXAMPLE", "s3cr3t/+&=?#%", "t0k3n/+=="
DATABASE = {"target_conn_id": "pg_dst", "target_table": "dw.orders"}
FILES: dict[str, Any] = {"source": "s3://lake/orders/*.parquet", **DATABASE}


def aws(**fields: Any) -> Any:
    sdk = import_module("airflow.providers.common.compat.sdk")
    extra = fields.pop("extra", None)
    return sdk.Connection(
        **{"conn_id": "lake", "conn_type": "aws", **fields},
        extra=None if extra is None else json.dumps(extra),
    )


def parameters(**fields: Any) -> dict[str, str]:
    found = import_module("penstock_airflow.hooks.aws").s3_parameters(aws(**fields), "lake")
    return {name: value for name, value in found.items() if value is not None}


def end(url: str | None = None, conn_id: str | None = None, aws_conn_id: str | None = None) -> Any:
    return import_module("penstock_airflow.arguments.endpoint").Endpoint(
        "source", conn_id, url, aws_conn_id
    )


def operator(**arguments: Any) -> Any:
    return penstock_airflow.CopyTableOperator(task_id="copy", **arguments)


CONNECTIONS: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({}, {}),
    (
        {"login": KEY, "password": SECRET, "extra": {"aws_session_token": TOKEN}},
        {"access_key_id": KEY, "secret_access_key": SECRET, "session_token": TOKEN},
    ),
    (
        {
            "extra": {
                "aws_access_key_id": KEY,
                "aws_secret_access_key": SECRET,
                "session_token": TOKEN,
            }
        },
        {"access_key_id": KEY, "secret_access_key": SECRET, "session_token": TOKEN},
    ),
    (
        {"extra": {"endpoint_url": "http://minio:9000", "region_name": "eu-central-1"}},
        {"endpoint": "http://minio:9000", "region": "eu-central-1"},
    ),
    (
        {
            "extra": {
                "endpoint_url": "http://aws:4566",
                "service_config": {"s3": {"endpoint_url": "http://minio:9000"}},
                "config_kwargs": {"s3": {"addressing_style": "virtual"}},
            }
        },
        {"endpoint": "http://minio:9000", "path_style": "false"},
    ),
    (
        {"extra": {"config_kwargs": {"s3": {"addressing_style": "path"}, "retries": {}}}},
        {"path_style": "true"},
    ),
    ({"extra": {"profile_name": "lake"}}, {"profile": "lake"}),
    (
        {"extra": {"session_kwargs": {"profile_name": "lake", "region_name": "eu-west-1"}}},
        {"profile": "lake", "region": "eu-west-1"},
    ),
]


@pytest.mark.parametrize(("fields", "expected"), CONNECTIONS)
def test_an_aws_connection_becomes_parameters_of_a_url(
    fields: dict[str, Any], expected: dict[str, str]
) -> None:
    assert parameters(**fields) == expected


def test_the_backend_reads_the_keys_of_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "AIRFLOW_CONN_LAKE",
        json.dumps(
            {
                "conn_type": "aws",
                "login": KEY,
                "password": SECRET,
                "extra": {"endpoint_url": "http://minio:9000", "region_name": "eu-central-1"},
            }
        ),
    )
    url = end("s3://lake/a*.parquet,s3://lake/b.parquet?region=us-east-1", aws_conn_id="lake")
    found = parse(url.connect(), "source")
    assert str(found) == "s3://lake/a*.parquet,s3://lake/b.parquet"
    assert (found.access_key_id, found.secret_access_key) == (KEY, SECRET)
    assert (found.endpoint, found.path_style) == ("http://minio:9000", True)
    # The URL in the DAG takes precedence over the connection.
    assert found.region == "us-east-1"
    assert SECRET not in redact(url.connect())
    assert "s3cr3t" not in repr(url)


def test_without_a_connection_no_keys_are_needed() -> None:
    assert end("s3://lake/orders/").connect() == "s3://lake/orders/"
    assert end("./orders").connect() == "./orders"


@pytest.mark.parametrize("extra", [{"role_arn": "arn:aws:iam::1:role/x"}, {"external_id": "7"}])
def test_a_role_is_rejected_without_the_amazon_provider(extra: dict[str, Any]) -> None:
    if importlib.util.find_spec("airflow.providers.amazon"):
        pytest.skip("apache-airflow-providers-amazon is installed: it assumes roles")
    with pytest.raises(UsageError, match="install apache-airflow-providers-amazon") as raised:
        parameters(login=KEY, password=SECRET, extra=extra)
    assert SECRET not in raised.value.message


@pytest.mark.parametrize("kind", ["postgres", "s3", ""])
def test_keys_must_come_from_an_aws_connection(kind: str) -> None:
    with pytest.raises(UsageError, match="connection 'lake': expected the type aws; found"):
        parameters(conn_type=kind, password=SECRET)


def test_an_aws_connection_is_rejected_as_a_database() -> None:
    connections = import_module("penstock_airflow.hooks.penstock")
    with pytest.raises(UsageError, match="found type aws: for files on S3, pass a URL") as raised:
        connections.connection_url(aws(password=SECRET), "lake")
    assert SECRET not in raised.value.message


WRONG: list[tuple[dict[str, Any], str]] = [
    (DATABASE, "source_conn_id, source: found neither; pass either"),
    ({**FILES, "source_conn_id": "pg"}, "source_conn_id, source: found both; pass either"),
    (
        {"source_conn_id": "pg", "source_aws_conn_id": "lake", "table": "a.b", **DATABASE},
        "source_aws_conn_id goes with source, a URL that begins with s3://; found source_conn_id",
    ),
    (
        {**FILES, "source": "/data/orders", "source_aws_conn_id": "lake"},
        "source_aws_conn_id goes with source, a URL that begins with s3://; found file://",
    ),
    ({**FILES, "source": "gs://lake/orders/"}, "source: expected a URL with one of the schemes"),
    ({**FILES, "source": "s3:///orders/"}, "source: expected s3://bucket/path, found no bucket"),
    ({**FILES, "source": "lake/orders"}, "source: expected a URL such as"),
    (
        {**FILES, "source": f"s3://lake/o/?access_key_id={KEY}&secret_access_key=x"},
        "source: expected a URL without secrets",
    ),
    (
        {**FILES, "source": "s3://{{ params.bucket }}/o/?access_key_id=x&secret_access_key=y"},
        "source: expected a URL without secrets",
    ),
    (
        {"source": "postgresql://me:hidden@h/db", "table": "a.b", "target": "s3://lake/b/"},
        "source: expected a URL without secrets, because Airflow shows the arguments of tasks: add "
        "a connection of type postgres, to h, and pass its id as source_conn_id instead of source",
    ),
    ({**FILES, "table": "a.b"}, "table: s3://lake/orders/*.parquet points to the rows themselves"),
    (
        {"source": "s3://lake/orders/", "target_conn_id": "pg_dst"},
        "target_table: expected the table to write, found none",
    ),
    (
        {"source_conn_id": "pg", "table": "a.b", "target": "s3://lake/b/", "target_table": "a.b"},
        "target_table: s3://lake/b/ points to where the rows go: omit target_table",
    ),
    ({**FILES, "mode": "replace"}, 'mode="replace": expected key'),
    ({"source": "duckdb:////data/w.duckdb", **DATABASE}, "table, query: found "),
    (
        {"source_conn_id": "pg", "target": "duckdb:////data/w.duckdb", "query": "SELECT 1"},
        "target_table: expected the table to write",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_ends_are_reported_when_a_dag_is_parsed(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError) as raised:
        operator(**arguments)
    assert message in raised.value.message
    assert "--" not in raised.value.message
    assert "hidden" not in raised.value.message


RIGHT: list[dict[str, Any]] = [
    FILES,
    {**FILES, "source_aws_conn_id": "lake"},
    {**FILES, "query": "SELECT * FROM source"},
    {**FILES, "source": "s3://lake/day={{ ds }}/", "source_aws_conn_id": "{{ params.lake }}"},
    {**FILES, "source": "{{ params.url }}"},
    {**FILES, "source": "{{ params.kind }}://lake", "table": "a.b"},
    {**FILES, "source": "/data/{{ ds }}/*.parquet"},
    {**FILES, "source": "env:ORDERS"},
    {**FILES, "source": "file:/run/secrets/orders"},
    {**FILES, "source": "file:/run/secrets/{{ params.shop }}"},
    {"source_conn_id": "pg", "table": "a.b", "target": "s3://lake/b/", "mode": "replace"},
    {"source_conn_id": "pg", "query": "SELECT 1", "target": "./lake"},
    {"source_conn_id": "pg", "table": "a.b", "target": "duckdb:////data/w.duckdb"},
    {"source": "postgresql://me@h/db", "table": "a.b", "target": "s3://lake/b/"},
]


@pytest.mark.parametrize("arguments", RIGHT, ids=str)
def test_valid_ends_are_accepted(arguments: dict[str, Any]) -> None:
    task = operator(**arguments)
    for name in import_module("penstock_airflow.arguments.endpoint").ARGUMENTS:
        assert getattr(task, name) == arguments.get(name)
        assert name in task.template_fields


def test_secrets_from_a_template_are_rejected_in_the_task() -> None:
    task = operator(**{**FILES, "source": "{{ params.url }}"})
    task.source = f"s3://lake/?access_key_id={KEY}&secret_access_key=hidden"
    sdk = import_module("airflow.providers.common.compat.sdk")
    with pytest.raises(sdk.AirflowFailException, match="without secrets") as raised:
        task._urls()
    assert "hidden" not in str(raised.value)


def test_a_group_passes_its_ends_to_every_task() -> None:
    sdk = import_module("airflow.providers.common.compat.sdk")
    ends: dict[str, Any] = {
        "source": "s3://lake/orders/day={{ ds }}/",
        "source_aws_conn_id": "lake",
        "target_conn_id": "pg_dst",
    }
    with sdk.DAG("copies", schedule=None) as dag:
        penstock_airflow.copy_table(**ends, target_table="dw.orders", strategy="files")
    assert {task_id.partition(".")[0] for task_id in dag.task_ids} == {"dw_orders"}
    for task in dag.tasks:
        mapped = task.task_id == "dw_orders.copy"
        found = task.unmap({"partition": {}}) if mapped else task
        for name in import_module("penstock_airflow.arguments.endpoint").ARGUMENTS:
            if hasattr(found, name):
                assert getattr(found, name) == ends.get(name), (task.task_id, name)
                assert name in found.template_fields
        assert found.target_conn_id == "pg_dst"
    module = import_module("airflow.serialization.serialized_objects")
    assert "day={{ ds }}" in json.dumps(module.DagSerialization.to_dict(dag))


@pytest.mark.parametrize(
    ("ends", "table", "name"),
    [
        ({"target_conn_id": "pg_dst"}, "dw.orders", "penstock:pg_dst/dw.orders"),
        ({"target": "s3://lake/orders/?region=x"}, "dw.orders", "penstock:s3://lake/orders"),
        ({"target": "s3://lake/o/day={{ ds }}/"}, None, "penstock:s3://lake/o"),
        ({"target": "duckdb:////w.duckdb"}, "dw.o", "penstock:duckdb:////w.duckdb/dw.o"),
        ({"target": "s3://{{ params.lake }}/o/"}, None, "penstock:target"),
        ({"target": "{{ params.lake }}"}, None, "penstock:target"),
        ({"target": "env:LAKE"}, "dw.o", "penstock:env:LAKE/dw.o"),
        ({"target": "file:/run/lake"}, "dw.o", "penstock:file:/run/lake/dw.o"),
    ],
)
def test_an_alias_stands_for_the_target(ends: dict[str, str], table: Any, name: str) -> None:
    module = import_module("penstock_airflow.arguments.endpoint")
    values = [ends.get(argument) for argument in module.TARGET_ARGUMENTS]
    alias = import_module("penstock_airflow.lineage.assets").alias_of(
        module.Endpoint("target", *values), table
    )
    assert alias.name == name


@pytest.mark.parametrize(
    ("url", "namespace", "dataset", "uri"),
    [
        ("s3://lake/tpch/orders/", "s3://lake", "tpch/orders", "s3://lake/tpch/orders"),
        ("s3://lake/tpch/o-*.parquet", "s3://lake", "tpch", "s3://lake/tpch"),
        ("s3://lake/day=2026-01-01/", "s3://lake", "day=2026-01-01", "s3://lake/day=2026-01-01"),
        ("s3://lake", "s3://lake", "/", "s3://lake/"),
        ("/data/my%20lake/", "file", "/data/my%20lake", "file:///data/my%2520lake"),
        ("file:///data/my%20lake", "file", "/data/my lake", "file:///data/my%20lake"),
    ],
)
def test_names_of_files_in_lineage_and_as_assets(
    url: str, namespace: str, dataset: str, uri: str
) -> None:
    place = place_of(url)
    assert place.located
    assert place.namespace == namespace
    assert place.dataset(TableRef("", "target")) == dataset
    assert place.uri(TableRef("", "target")) == uri
    sdk = import_module("airflow.providers.common.compat.sdk")
    assert sdk.Asset(uri=uri).uri == uri
