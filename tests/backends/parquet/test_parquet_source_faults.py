"""Failures of S3: their messages, their classes, and retries."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.backends.parquet.storage import filesystems
from penstock.backends.parquet.storage.storage import open_storage
from penstock.errors import PermanentError, StallError, TransientError
from penstock.model.extents import Files, HashBucket, Key
from penstock.model.plans import Partition
from penstock.model.tables import ColumnPair
from penstock_testkit import HttpFaults, S3Gateway, S3Server, TcpProxy

from .parquet_stores import Store, all_files, read, reader, waiter
from .test_parquet_source import numbers

BUCKET = "bucket"
PAIRS = [ColumnPair("id", "id"), ColumnPair("text", "text")]
HASHED = HashBucket(Key("id"), 1, 0)


@pytest.fixture(scope="module")
def server(s3_server: S3Server) -> S3Server:
    s3_server.create_bucket(BUCKET)
    return s3_server


@pytest.fixture
def store(server: S3Server, tmp_path: Path) -> Store:
    store = Store(tmp_path, server, BUCKET)
    store.write("t/a.parquet", numbers(0, 50_000), row_group_size=10_000)
    return store


@pytest.fixture
def large(store: Store) -> Store:
    """Create more data than the 10 MB that DuckDB reads ahead."""
    texts = pa.array([f"{n:01000d}" for n in range(50_000)])
    table = pa.table({"id": pa.array(range(50_000), pa.int64()), "text": texts})
    store.write("t/a.parquet", table, row_group_size=5_000)
    return store


@pytest.fixture
def faults(store: Store) -> Iterator[HttpFaults]:
    assert store.server is not None
    with HttpFaults(store.server.endpoint) as faults:
        store.endpoint = faults.url
        yield faults


@pytest.fixture
def proxy(store: Store) -> Iterator[TcpProxy]:
    assert store.server is not None
    with TcpProxy.of(store.server.endpoint) as proxy:
        store.endpoint = proxy.url(store.server.endpoint)
        yield proxy


def test_a_bucket_that_does_not_exist(store: Store) -> None:
    store.bucket = "no-such-bucket"
    with pytest.raises(PermanentError, match=r"s3://no-such-bucket/t/: the bucket does not exist"):
        store.source("t/")


@pytest.mark.parametrize("pattern", ["list-type=2", "(HEAD|GET) /bucket/t/a"])
def test_throttling_is_retried(store: Store, faults: HttpFaults, pattern: str) -> None:
    planned = all_files(store, "t/")
    fault = faults.fail(pattern, times=2)
    extent = planned if "HEAD" in pattern else HASHED
    assert read(store.url("t/"), extent, ["id"]).num_rows == 50_000
    assert fault.answered == 2


@pytest.mark.parametrize("pattern", ["list-type=2", "HEAD /bucket/t/a", "GET /bucket/t/a"])
def test_endless_throttling_is_transient(store: Store, faults: HttpFaults, pattern: str) -> None:
    planned = all_files(store, "t/")
    fault = faults.fail(pattern)
    with pytest.raises(TransientError, match=r"503|SLOW_DOWN|SERVICE_UNAVAILABLE"):
        read(store.url("t/"), HASHED if "list" in pattern else planned, ["id"])
    assert fault.answered >= filesystems.ATTEMPTS


def test_throttling_of_duckdb_is_transient(large: Store, faults: HttpFaults) -> None:
    planned = all_files(large, "t/")
    reading = reader(large.url("t/"), PAIRS, where="id >= 0")
    batches = reading.read(Partition("p0001", planned), waiter())
    next(batches)
    # From here on, only data is read.
    fault = faults.fail("GET /bucket/t/a")
    with pytest.raises(TransientError, match=r"SLOW_DOWN|SERVICE_UNAVAILABLE"):
        list(batches)
    assert fault.answered >= filesystems.ATTEMPTS


def test_a_missing_endpoint(store: Store) -> None:
    store.endpoint = "http://127.0.0.1:1"
    begun = time.monotonic()
    with pytest.raises(TransientError, match=r"s3://bucket/t/: Could not connect"):
        store.source("t/")
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize(
    ("status", "problem"),
    [(200, "a web page instead of a list"), (301, "a redirect"), (308, "a redirect")],
)
def test_an_endpoint_that_does_not_speak_s3(
    store: Store, faults: HttpFaults, status: int, problem: str
) -> None:
    """The endpoint is a web console, or a proxy that redirects everything to https."""
    faults.fail("/", status=status, body=b"<html>Hello</html>", kind="text/html; charset=utf-8")
    with pytest.raises(PermanentError, match=rf"source: s3://bucket/t/: .*{problem} \(status"):
        store.source("t/")
    target = open_storage(store.url("new/"), "penstock")
    with pytest.raises(PermanentError, match=r"target: s3://bucket/new/: expected an S3 server"):
        target.documents.get("manifest.json")


def test_an_endpoint_that_does_not_answer(
    store: Store, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filesystems, "READ_TIMEOUT", 1)
    proxy.freeze()
    begun = time.monotonic()
    with pytest.raises(TransientError, match=r"s3://bucket/t/: Read timeout"):
        store.source("t/")
    assert time.monotonic() - begun < 20


def test_data_that_does_not_arrive(
    store: Store, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filesystems, "READ_TIMEOUT", 1)
    planned = all_files(store, "t/")
    proxy.freeze()
    begun = time.monotonic()
    with pytest.raises(TransientError, match=r"bucket/t/a\.parquet: .*[Tt]imeout"):
        read(store.url("t/"), planned, ["id"])
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize("where", [None, "id >= 0"])
def test_a_stall_is_noticed_before_the_sdk_notices(
    large: Store, proxy: TcpProxy, where: str | None
) -> None:
    reading = reader(large.url("t/"), PAIRS, where=where)
    planned = Partition("p0001", all_files(large, "t/"))
    batches = reading.read(planned, waiter(5))
    next(batches)
    proxy.freeze()
    with pytest.raises(StallError, match="source: no bytes moved"):
        list(batches)
    begun = time.monotonic()
    reading.abandon()
    reading.abandon()
    assert time.monotonic() - begun < 2
    proxy.thaw()
    found = list(reading.read(planned, waiter()))
    assert sum(rows for _, rows, _ in found) == reading.rows == 50_000


def test_a_cut_connection_is_survived_or_transient(store: Store, proxy: TcpProxy) -> None:
    planned = all_files(store, "t/")
    proxy.cut_after(100_000, "to_client")
    try:
        assert read(store.url("t/"), planned, ["id", "text"]).num_rows == 50_000
    except TransientError as error:
        assert "t/a.parquet" in error.message  # noqa: PT017 - both outcomes are right


def test_a_read_can_be_abandoned(store: Store) -> None:
    for extent, where in ((all_files(store, "t/"), None), (HASHED, None), (HASHED, "id > 3")):
        reading = reader(store.url("t/"), PAIRS, where=where)
        batches = reading.read(Partition("p0001", extent), waiter())
        next(batches)
        begun = time.monotonic()
        reading.abandon()
        assert time.monotonic() - begun < 2


def test_files_damaged_beyond_the_footer(store: Store) -> None:
    from .parquet_stores import encoded  # noqa: PLC0415

    content = bytearray(encoded(numbers(0, 50_000), row_group_size=10_000, compression="zstd"))
    content[len(content) // 2 : len(content) // 2 + 200] = b"\xff" * 200
    store.put("d/bad.parquet", bytes(content))
    planned = all_files(store, "d/")
    for extent, where in ((planned, None), (planned, "id >= 0")):
        with pytest.raises(PermanentError, match=r"d/bad\.parquet: cannot be read as Parquet"):
            read(store.url("d/"), extent, ["id", "text"], where=where)


@pytest.fixture(scope="module")
def gateway(s3_gateway: S3Gateway) -> S3Gateway:
    s3_gateway.create_bucket(BUCKET)
    return s3_gateway


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("secret_access_key=penstock-test-secret", "secret_access_key=wrong"),
        ("access_key_id=penstock-test", "access_key_id=nobody"),
    ],
)
def test_wrong_credentials(gateway: S3Gateway, tmp_path: Path, name: str, value: str) -> None:
    store = Store(tmp_path, gateway, BUCKET)
    store.write("t/a.parquet", numbers(0, 10))
    planned = all_files(store, "t/")
    assert read(store.url("t/"), planned, ["id"]).num_rows == 10
    url = store.url("t/").replace(name, value)
    with pytest.raises(PermanentError) as caught:
        read(url, HASHED, ["id"])
    assert "wrong" not in caught.value.message.replace("is wrong", "")
    with pytest.raises(PermanentError):
        read(url, planned, ["id"])


def test_no_credentials(store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    url = store.url("t/").split("&access_key_id")[0]
    with pytest.raises(PermanentError, match="expected S3 credentials: access_key_id"):
        read(url, HASHED, ["id"])


def test_a_profile(gateway: S3Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path, gateway, BUCKET)
    store.write("p/a.parquet", numbers(0, 10))
    file = tmp_path / "credentials"
    file.write_text(
        f"[dw]\naws_access_key_id = {gateway.access_key_id}\n"
        f"aws_secret_access_key = {gateway.secret_access_key}\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    url = store.url("p/").split("&access_key_id")[0]
    assert read(f"{url}&profile=dw", HASHED, ["id"]).num_rows == 10
    with pytest.raises(PermanentError, match="other"):
        read(f"{url}&profile=other", HASHED, ["id"])


def test_planned_files_are_read_without_listing_the_bucket(
    store: Store, faults: HttpFaults
) -> None:
    planned = all_files(store, "t/")
    faults.fail("list-type=2")
    assert isinstance(planned, Files)
    found = reader(store.url("t/"), PAIRS).read(Partition("p", planned), waiter())
    assert sum(rows for _, rows, _ in found) == 50_000
