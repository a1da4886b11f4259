"""S3 servers for tests: they serve, fail on command, and end with their parent."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest
from botocore.exceptions import ClientError

from penstock_testkit import HttpFaults, S3Gateway, S3Server

ORPHAN = """
from penstock_testkit import S3Server
server = S3Server()
server.start()
print(server.port, flush=True)
import os, signal
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module", params=[S3Server, S3Gateway])
def server(request: pytest.FixtureRequest) -> Iterator[S3Server]:
    if request.param is S3Gateway and (reason := S3Gateway.missing()):
        pytest.skip(reason)
    with request.param() as server:
        server.create_bucket("bucket")
        yield server


def test_objects_and_conditional_puts_are_supported(server: S3Server) -> None:
    assert server.put("bucket", "a/b", b"1") == "bucket/a/b"
    assert server.read("bucket", "a/b") == b"1"
    assert "a/b" in server.keys("bucket", "a/")
    assert server.uploads("bucket") == []
    with pytest.raises(ClientError, match="PreconditionFailed"):
        server.client.put_object(Bucket="bucket", Key="a/b", Body=b"2", IfNoneMatch="*")
    tag = server.client.head_object(Bucket="bucket", Key="a/b")["ETag"]
    server.client.put_object(Bucket="bucket", Key="a/b", Body=b"3", IfMatch=tag)
    with pytest.raises(ClientError, match="PreconditionFailed"):
        server.client.put_object(Bucket="bucket", Key="a/b", Body=b"4", IfMatch=tag)
    assert server.read("bucket", "a/b") == b"3"


def test_faults_are_injected(server: S3Server) -> None:
    import boto3  # noqa: PLC0415

    server.put("bucket", "f", b"content")
    with HttpFaults(server.endpoint) as faults:
        client = boto3.client(
            "s3",
            endpoint_url=faults.url,
            aws_access_key_id=server.access_key_id,
            aws_secret_access_key=server.secret_access_key,
            region_name="us-east-1",
        )
        fault = faults.fail("GET /bucket/f", times=1)
        assert client.get_object(Bucket="bucket", Key="f")["Body"].read() == b"content"
        assert fault.answered == 1
        assert [request.split("?")[0] for request in faults.requests] == ["GET /bucket/f"] * 2
        client.close()


def test_a_server_ends_with_its_parent() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, text=True, check=False
    )
    port = done.stdout.strip()
    deadline = time.monotonic() + 20
    while any(port in process.info["cmdline"] for process in _processes()):
        assert time.monotonic() < deadline, "the server outlives who started it"
        time.sleep(0.1)


def _processes() -> list[psutil.Process]:
    found = psutil.process_iter(["cmdline"])
    return [process for process in found if process.info["cmdline"]]
