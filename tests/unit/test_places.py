"""The places of connections, parameters that are added to them, and secrets in them."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest

from penstock import UsageError, holds_secret, place_of, with_parameters
from penstock.model.tables import Place, TableRef

ORDERS = TableRef("dw", "My orders")


@pytest.mark.parametrize(
    ("place", "namespace", "dataset", "uri"),
    [
        (
            Place("postgres", "h", 5432, "my db/x"),
            "postgres://h:5432",
            "my db/x.dw.My orders",
            "postgres://h:5432/my%20db%2Fx/dw/My%20orders",
        ),
        (
            Place("postgres", "::1", 5433, "d"),
            "postgres://[::1]:5433",
            "d.dw.My orders",
            "postgres://[::1]:5433/d/dw/My%20orders",
        ),
        (
            Place("s3", "lake", None, "tpch/o s/", located=True),
            "s3://lake",
            "tpch/o s",
            "s3://lake/tpch/o%20s",
        ),
        (Place("s3", "lake", None, "", located=True), "s3://lake", "/", "s3://lake/"),
        (
            Place("file", "", None, "/data/day=1/", located=True),
            "file",
            "/data/day=1",
            "file:///data/day=1",
        ),
        (
            Place("duckdb", "", None, "/data/w.duckdb"),
            "duckdb",
            "/data/w.duckdb.dw.My orders",
            "duckdb:///data/w.duckdb/dw/My%20orders",
        ),
        (
            Place("mysql", "h", 3306, "shop", schemas_are_databases=True),
            "mysql://h:3306",
            "dw.My orders",
            "mysql://h:3306/dw/My%20orders",
        ),
    ],
)
def test_a_place_has_a_namespace_a_dataset_and_a_uri(
    place: Place, namespace: str, dataset: str, uri: str
) -> None:
    assert place.namespace == namespace
    assert place.dataset(ORDERS) == dataset
    assert place.uri(ORDERS) == uri


@pytest.mark.parametrize(
    ("url", "dataset"),
    [
        ("mysql://me@h/shop", "shop.orders"),
        ("clickhouse://me@h/shop", "shop.orders"),
        ("snowflake://me:x@account/DB/SHOP", "DB.shop.orders"),
        ("mssql://me@h/db", "db.shop.orders"),
        ("postgresql://me@h/db", "db.shop.orders"),
    ],
)
def test_a_qualified_table_has_each_name_once(url: str, dataset: str) -> None:
    place = place_of(url)
    assert place.dataset(TableRef("shop", "orders")) == dataset
    assert place.uri(TableRef("shop", "orders")).endswith("/" + dataset.replace(".", "/"))


def test_a_table_without_a_schema_is_in_the_database_of_the_url() -> None:
    assert place_of("mysql://me@h/shop").dataset(TableRef("", "orders")) == "shop.orders"


def test_a_place_may_stand_for_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE", "s3://lake/orders/*.parquet?secret_access_key=x")
    kinds = ("parquet", "s3")
    assert place_of("env:LAKE") == Place("s3", "lake", None, "orders", located=True, kinds=kinds)
    assert place_of("postgresql://me@h/db") == Place(
        "postgres", "h", 5432, "db", kinds=("postgresql",)
    )


@pytest.mark.parametrize(
    ("reference", "secret"),
    [
        ("env:ANYTHING", False),
        ("file:/run/secrets/nowhere", False),
        ("/data/orders/", False),
        ("s3://lake/orders/", False),
        ("s3://lake/orders/?endpoint=http://h:1&region=x&profile=lake", False),
        ("s3://lake/orders/?access_key_id=a&secret_access_key=b", True),
        ("s3://lake/a,s3://lake/b?access_key_id=a&secret_access_key=b&session_token=c", True),
        ("postgresql://me@h/db?sslmode=require", False),
        ("postgresql://me:hidden@h/db", True),
        ("postgresql://me@h/db?sslpassword=hidden", True),
    ],
)
def test_only_secrets_in_the_url_count(
    reference: str, secret: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Variables of the environment are not part of the connection.
    for name in ("PGPASSWORD", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "s3cr3t")
    assert holds_secret(reference) is secret


def test_a_malformed_url_is_rejected_without_showing_its_secrets() -> None:
    with pytest.raises(UsageError) as raised:
        holds_secret("postgresql://me:hidden@h:port/db")
    assert "hidden" not in raised.value.message


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("s3://lake/a", {"region": "r", "endpoint": "http://h:1/?&"}),
        ("s3://lake/a?region=mine", {"region": "mine", "endpoint": "http://h:1/?&"}),
        ("s3://lake/a,s3://lake/b", {"region": "r", "endpoint": "http://h:1/?&"}),
        ("env:LAKE", {"region": "", "endpoint": "http://h:1/?&"}),
    ],
)
def test_parameters_are_added_if_they_are_missing(
    reference: str, expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKE", "s3://lake/a?region=")
    url = with_parameters(reference, {"region": "r", "endpoint": "http://h:1/?&", "profile": None})
    assert url.count("?") == 1
    assert dict(parse_qsl(url.partition("?")[2], keep_blank_values=True)) == expected


def test_parameters_apply_to_a_whole_list() -> None:
    listed = "s3://lake/a?region=mine,s3://lake/b"
    url = with_parameters(listed, {"endpoint": "http://h:1"})
    assert url == "s3://lake/a?region=mine,s3://lake/b?endpoint=http%3A%2F%2Fh%3A1"


def test_without_parameters_a_url_stays_the_same() -> None:
    assert with_parameters("s3://lake/a%3Fb", {"region": None}) == "s3://lake/a%3Fb"
