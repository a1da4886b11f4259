"""URLs of Parquet files: their meaning, settings from the environment, and hidden secrets."""

from __future__ import annotations

import pytest

from penstock.backends.parquet import s3 as backend
from penstock.backends.parquet.location import identity, parse
from penstock.backends.parquet.storage.storage import open_storage
from penstock.errors import UsageError
from penstock.model.tables import Place
from penstock.spec.references import redact, resolve_reference

KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIA1",
    "AWS_SECRET_ACCESS_KEY": "s3cr3t/+=",
    "AWS_SESSION_TOKEN": "t",
}
SECRET = "Zz9"


def resolved(url: str, **environ: str) -> str:
    return backend.resolve(url, environ, "--source")


def test_settings_of_the_environment_become_parameters() -> None:
    url = resolved(
        "s3://lake/orders/*.parquet",
        **KEYS,
        AWS_ENDPOINT_URL="http://other:1",
        AWS_ENDPOINT_URL_S3="http://minio:9000",
        AWS_DEFAULT_REGION="eu-west-1",
    )
    found = parse(url, "--source")
    assert found.patterns == ("lake/orders/*.parquet",)
    assert found.endpoint == "http://minio:9000"
    assert found.path_style
    assert found.region == "eu-west-1"
    assert (found.access_key_id, found.secret_access_key) == ("AKIA1", "s3cr3t/+=")
    assert found.session_token == "t"
    assert backend.secrets(url) == ("s3cr3t/+=", "t")
    # Resolving again changes nothing: a worker, whose environment is empty, gets the same result.
    assert resolved(url) == url


def test_parameters_take_precedence_over_the_environment() -> None:
    found = parse(
        resolved(
            "s3://lake/x?access_key_id=me&secret_access_key=mine&endpoint=https://a&region=r"
            "&path_style=false",
            **KEYS,
            AWS_ENDPOINT_URL_S3="http://minio:9000",
            AWS_REGION="eu-west-1",
        ),
        "--source",
    )
    assert (found.access_key_id, found.secret_access_key) == ("me", "mine")
    assert found.session_token == "", "a token belongs to its keys"
    assert (found.endpoint, found.region, found.path_style) == ("https://a", "r", False)


def test_a_profile_takes_precedence_over_keys_in_the_environment() -> None:
    found = parse(resolved("s3://lake/x?profile=dw", **KEYS), "--source")
    assert (found.profile, found.access_key_id) == ("dw", "")


def test_aws_itself_uses_virtual_hosts() -> None:
    assert not parse(resolved("s3://lake/x", **KEYS), "--source").path_style
    url = resolved("s3://lake/x?path_style=false", AWS_ENDPOINT_URL_S3="http://a:1", **KEYS)
    assert not parse(url, "--source").path_style


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("s3:///x", "no bucket"),
        ("s3://b*/x", "a pattern"),
        ("s3://me:Zz9@bucket/x", "no user and password"),
        ("s3://b/x?secret_access_key=Zz9", "found secret_access_key only"),
        ("s3://b/x?access_key_id=Zz9", "found access_key_id only"),
        ("s3://b/x?endpont=Zz9", "no URL parameter 'endpont'"),
        ("s3://b/x?endpoint=Zz9:1", "expected http://host:port"),
        ("s3://b/x?endpoint=http://me:Zz9@h", "expected http://host:port"),
        ("s3://b/x?path_style=maybe", "expected true or false"),
        (
            "s3://b/x?session_token=Zz9,s3://b/y?session_token=Zz9b",
            "'session_token': expected one value for the whole list",
        ),
        ("file://server/x", "expected file:///absolute/path"),
        ("file:///x?region=Zz9", "has no URL parameter 'region'"),
        ("file:///part-?.parquet", "? is not a pattern, unlike * and [0-9]"),
        ("file:///data/x.duckdb", "whose URL is duckdb:////data/x.duckdb"),
        (
            "file:///x/orders.xlsx",
            "not support XLSX files; expected Parquet files, such as file:///x/orders.pa",
        ),
        ("file:///x/*.jsonl.gz", "expected files of one format"),
        ("s3://b/orders.AVRO", "does not support AVRO files"),
        ("file:///x,s3://b/y", "expected one scheme for the whole list, found file and s3"),
    ],
)
def test_a_malformed_url_is_rejected_without_showing_a_secret(url: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolved(url)
    assert words in caught.value.message
    assert caught.value.message.startswith("--source: ")
    assert SECRET not in caught.value.message


def test_a_list_shares_its_parameters() -> None:
    found = parse(resolved("s3://a/x,s3://b/y,z?region=r", **KEYS), "--source")
    assert found.patterns == ("a/x", "b/y,z")
    assert found.region == "r"


def test_paths_become_urls(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.chdir(str(tmp_path))
    url = resolve_reference("./a b/*.parquet,../x,/y/[0-9]/,s3://b/k", {}, "--source")
    parent = str(tmp_path).rpartition("/")[0]
    assert url == f"file://{tmp_path}/a%20b/*.parquet,file://{parent}/x,file:///y/[0-9]/,s3://b/k"


def test_secrets_are_never_shown() -> None:
    url = resolved(
        "s3://a/x,s3://b/y",
        **{**KEYS, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": SECRET},
    )
    found = parse(url, "--source")
    assert SECRET not in f"{found!r} {found} {redact(url)}"
    several = f"s3://a/x?endpoint=http://h,s3://b/y?secret_access_key={SECRET}"
    assert SECRET not in redact(several)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("s3://lake/tpch/orders/*.parquet?region=x", Place("s3", "lake", None, "tpch/orders")),
        ("s3://lake/tpch/orders/", Place("s3", "lake", None, "tpch/orders/")),
        ("file:///data/a%20b/day=*/x.parquet", Place("file", "", None, "/data/a b")),
    ],
)
def test_the_place_of_a_url(url: str, place: Place) -> None:
    assert backend.place(url) == place


def test_the_identity_is_that_of_the_folder() -> None:
    same = {
        identity(parse(url, "--source"))
        for url in ("s3://b/x/*.parquet", "s3://b/x/", "s3://b/x", "s3://b/x/a.parquet")
    }
    assert same == {"s3://b/x"}
    assert identity(parse("s3://b/x?endpoint=http://h", "--source")) not in same


def test_a_target_must_be_a_single_folder() -> None:
    found = parse("s3://b/x%2Ay/", "--target")
    # In a bucket, names are used as they are.
    assert (found.path, found.bucket, found.key) == ("b/x%2Ay", "b", "x%2Ay")
    assert str(found) == "s3://b/x%2Ay/"
    assert parse(found.url(), "--target") == found
    assert parse("file:///x%2Ay/", "--target").path == "/x*y"
    for url in ("s3://b/x*", "s3://b/x,s3://b/y"):
        with pytest.raises(UsageError, match="expected one folder"):
            _ = parse(url, "--target").path


@pytest.mark.parametrize("name", ["out.avro", "out.xlsx", "out.parquet"])
@pytest.mark.parametrize("start", ["./", "/tmp/", "s3://lake/"])
def test_a_target_that_looks_like_a_file_is_rejected(start: str, name: str) -> None:
    reference = start + name
    with pytest.raises(UsageError, match=r"--target: .*expected a folder.*/out/") as caught:
        open_storage(resolved_target(reference), "penstock")
    assert name in caught.value.message
    # So this is a folder.
    assert parse(resolved_target(reference + "/"), "--target").path.endswith(name)


def resolved_target(reference: str) -> str:
    environ = {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": SECRET}
    return backend.resolve(resolve_reference(reference, {}, "--target"), environ, "--target")
