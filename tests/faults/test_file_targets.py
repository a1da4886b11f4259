"""Faults with a target that is not a server: committed rows arrive once, without strays."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from penstock.events import Committed, Failed, Opened
from penstock_testkit import S3Server

from .file_targets import BucketPair, DuckPair, FolderPair, OutsidePair
from .pair import PARTITIONS, partition_id


@pytest.fixture(params=["folder", "bucket", "duckdb"])
def outside(
    request: pytest.FixtureRequest, source_url: str, tmp_path: Path
) -> Iterator[OutsidePair]:
    made: OutsidePair
    if request.param == "folder":
        made = FolderPair(source_url, tmp_path / "lake" / "item")
    elif request.param == "bucket":
        server: S3Server = request.getfixturevalue("s3_server")
        bucket = server.create_bucket(f"b{uuid.uuid4().hex[:12]}")
        (tmp_path / "read").mkdir()
        made = BucketPair(source_url, server, bucket, tmp_path / "read")
    else:
        made = DuckPair(source_url, tmp_path / "local.duckdb")
    with closing(made):
        made.load()
        yield made


def test_a_worker_killed_in_the_middle_of_a_file_is_retried(outside: OutsidePair) -> None:
    (gate,) = outside.gates(3)
    run = outside.copy()
    opened = run.wait_for(Opened, partition_id=partition_id(3))
    gate.reached()
    os.kill(opened.pid, signal.SIGKILL)
    gate.open()
    run.ended(0)
    (failed,) = run.of(Failed)
    assert (failed.partition_id, failed.error["error"]) == (partition_id(3), "WorkerLost")
    expected = {partition_id(p): 1 for p in range(1, PARTITIONS + 1)} | {partition_id(3): 2}
    assert outside.attempts() == expected
    outside.check_resumes()


def test_a_run_killed_in_the_middle_of_two_files_is_resumed(outside: OutsidePair) -> None:
    gates = outside.gates(3, 4)
    run = outside.copy()
    for gate in gates:
        gate.reached()
    run.signal_all(signal.SIGKILL)
    run.ended(-signal.SIGKILL)
    for gate in gates:
        gate.open()
    outside.check_no_worker_left()
    assert len(outside.attempts()) == 2
    outside.check_resumes("--on-snapshot-lost", "accept")


def test_a_worker_killed_after_its_commit_loses_no_rows(outside: OutsidePair) -> None:
    (gate,) = outside.gates(3)
    run = outside.copy()
    committed = run.wait_for(Committed)
    os.kill(committed.pid, signal.SIGKILL)
    gate.open()
    run.ended(0)
    assert len(outside.attempts()) == PARTITIONS
    outside.check_resumes()


def test_a_stopped_worker_wakes_up_after_its_partition_was_retried(outside: OutsidePair) -> None:
    """The worker has lost its partition, so the rest of its work never becomes visible."""
    (gate,) = outside.gates(3)
    run = outside.copy()
    opened = run.wait_for(Opened, partition_id=partition_id(3))
    gate.reached()
    os.kill(opened.pid, signal.SIGSTOP)
    run.kill()
    gate.open()  # its rows are ready when it wakes up
    again = outside.resume("--on-snapshot-lost", "accept")
    again.ended(0)
    os.kill(opened.pid, signal.SIGCONT)
    # It removes its own files as it ends.
    outside.check_no_worker_left()
    outside.check_done()


def test_a_run_cancelled_in_the_middle_of_a_file_is_resumed(outside: OutsidePair) -> None:
    (gate,) = outside.gates(3)
    run = outside.copy()
    gate.reached()
    os.kill(run.pid, signal.SIGINT)
    run.ended(130)
    gate.open()
    outside.check_resumes("--on-snapshot-lost", "accept")


def test_two_executions_of_one_run_commit_each_partition_once(outside: OutsidePair) -> None:
    """Both copy; each partition is committed by one of them."""
    (gate,) = outside.gates(1)
    first = outside.copy()
    gate.reached()
    second = outside.resume()
    second.wait_for(Opened)
    gate.open()
    first.ended(0)
    second.ended(0)
    assert len(outside.attempts()) == PARTITIONS
    outside.check_done()


def test_a_failed_partition_is_copied_alone(outside: OutsidePair) -> None:
    run = outside.copy("--where", "1 / (id - 7000) IS NOT NULL", "--on-error", "continue")
    run.ended(65)
    (failure,) = run.finished.failures
    assert len(outside.attempts()) == PARTITIONS - 1
    assert failure.partition_id == partition_id(3)
    assert outside.strays() == []


def test_a_run_killed_while_it_replaces_another_is_resumed(outside: OutsidePair) -> None:
    """In the end there is one set of rows, and no trace of the run before."""
    outside.copy("--run-id", "before", "--mode", "truncate").ended(0)
    (gate,) = outside.gates(3)
    run = outside.copy("--mode", "swap")
    gate.reached()
    run.signal_all(signal.SIGKILL)
    run.ended(-signal.SIGKILL)
    gate.open()
    outside.check_no_worker_left()
    outside.check_resumes("--on-snapshot-lost", "accept")
