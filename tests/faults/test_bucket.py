"""Faults of a bucket as source and target: throttling, cut connections, silence."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from penstock.events import Failed, Opened, TurnTaken
from penstock_testkit import HttpFaults, S3Server, TcpProxy

from .file_targets import BucketPair
from .pair import PARTITIONS, partition_id


@pytest.fixture
def bucket(s3_server: S3Server, source_url: str, tmp_path: Path) -> Iterator[BucketPair]:
    name = s3_server.create_bucket(f"b{uuid.uuid4().hex[:12]}")
    (tmp_path / "read").mkdir()
    with closing(BucketPair(source_url, s3_server, name, tmp_path / "read")) as new_pair:
        new_pair.load()
        yield new_pair


@pytest.fixture
def faults(s3_server: S3Server) -> Iterator[HttpFaults]:
    with HttpFaults(s3_server.endpoint) as proxy:
        yield proxy


@pytest.mark.parametrize(
    "request_",
    [
        "POST .*uploads",  # an upload begins
        "PUT .*partNumber=",  # one of its parts
        "PUT .*/1/p0003.json",  # a commit record
        "POST .*uploadId=",  # an upload is completed
        "PUT .*manifest.json",
    ],
)
def test_a_short_throttling_is_retried(
    bucket: BucketPair, faults: HttpFaults, request_: str
) -> None:
    """The SDK retries first, then the run."""
    fault = faults.fail(request_, times=5)
    bucket.through(faults.url)
    run = bucket.copy()
    run.ended(0)
    assert fault.answered == 5
    bucket.check_done()


def test_a_run_that_is_throttled_for_too_long_fails_and_is_resumed(
    bucket: BucketPair, faults: HttpFaults
) -> None:
    """The error contains the server's message, and the run continues when the server recovers."""
    fault = faults.fail("PUT .*partNumber=")
    bucket.through(faults.url)
    run = bucket.copy("--attempts", "2")
    run.ended(75)
    failure = run.finished.failures[0]
    assert "SlowDown" in failure.error["message"] or "reduce" in failure.error["message"].lower()
    assert failure.attempts == 2
    fault.remaining = 0
    bucket.check_resumes("--on-snapshot-lost", "accept")


@pytest.mark.parametrize(
    "needle", [b"partNumber=1", b"/1/p0002.json", b"uploadId="], ids=["part", "record", "complete"]
)
def test_a_cut_connection_to_the_bucket_is_retried(
    bucket: BucketPair, s3_server: S3Server, needle: bytes
) -> None:
    """The answer to a request is lost; the next request finds out whether it was carried out."""
    with ExitStack() as stack:
        proxy = stack.enter_context(TcpProxy.of(s3_server.endpoint))
        cut = []

        def cut_once() -> None:
            cut.append(proxy.cut())

        proxy.on_bytes(needle, "to_server", cut_once)
        bucket.through(f"http://127.0.0.1:{proxy.port}")
        run = bucket.copy()
        run.ended(0)
        assert cut
        bucket.check_done()


def test_a_worker_killed_between_its_record_and_its_files_has_committed(
    bucket: BucketPair, faults: HttpFaults
) -> None:
    """The record exists without the file; the next process completes it."""
    fault = faults.fail("POST .*uploadId=", times=6)
    bucket.through(faults.url)
    run = bucket.copy(degree=1)
    opened = run.wait_for(Opened)
    while fault.answered == 0:
        assert run.popen.poll() is None
        time.sleep(0.005)
    os.kill(opened.pid, signal.SIGKILL)
    run.ended(0)
    assert [event.partition_id for event in run.of(Failed)] == [partition_id(1)]
    # Committed partitions are not copied again.
    assert bucket.attempts()[partition_id(1)] == 1
    assert len(bucket.attempts()) == PARTITIONS
    bucket.check_resumes()


def test_a_process_that_is_stopped_while_it_finishes_loses_its_turn(
    bucket: BucketPair, faults: HttpFaults
) -> None:
    """After the grace time another finishes; the first comes back, and finds the run done."""
    words = ("--table", "public.item", "--strategy", "ctid", "--partitions", "4", "--grace", "1s")
    unharmed = bucket.target
    bucket.through(faults.url)
    gate = bucket.gate(1)
    stopped = bucket.work(*words)
    gate.reached()
    fault = faults.fail("PUT .*manifest.json")
    gate.open()
    stopped.wait_for(TurnTaken, what="finishing")
    stopped.signal_all(signal.SIGSTOP)
    bucket.target = unharmed
    others = [bucket.work(*words) for _ in range(2)]
    for run in others:
        run.ended(0)
    assert any(run.of(TurnTaken) for run in others)
    fault.remaining = 0
    stopped.signal_all(signal.SIGCONT)
    stopped.ended(0)
    bucket.check_done()
    assert not [key for key in bucket.all_keys() if "/leases/" in key]
