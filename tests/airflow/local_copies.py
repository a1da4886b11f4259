"""Copies on a real Airflow with LocalExecutor: mapped tasks are killed, marked, or time out."""

from __future__ import annotations

import subprocess

from penstock_testkit import PostgresServer
from penstock_testkit.airflow import AirflowStack

from ..concurrent_cases import concurrent_test
from . import copy_cases
from .lines import FEW, SECRETS, UNPACKED, Lines, check_ended
from .watch import NURSERY, Watch

WRONG = "wr0ng-s3cret"


@concurrent_test
def test_a_plain_run(lines: Lines) -> None:
    copy_cases.plain_run(lines, "unpacked", UNPACKED, 1)


@concurrent_test
def test_only_a_killed_mapped_task_is_retried(lines: Lines) -> None:
    copy_cases.killed_in_mid_copy(lines)


@concurrent_test
def test_a_mapped_task_killed_after_its_commit_copies_nothing_again(lines: Lines) -> None:
    copy_cases.killed_after_commit(lines)


@concurrent_test
def test_a_mapped_task_marked_failed_leaves_nothing_behind(lines: Lines) -> None:
    copy_cases.marked_failed_in_mid_copy(lines)


@concurrent_test
def test_a_mapped_task_that_times_out_leaves_nothing_behind(lines: Lines) -> None:
    copy_cases.timed_out_in_mid_copy(lines)


@concurrent_test
def test_workers_share_the_partitions(lines: Lines) -> None:
    copy_cases.shared_run(lines)


@concurrent_test
def test_other_workers_go_on_when_one_is_killed(lines: Lines) -> None:
    copy_cases.killed_worker(lines)


@concurrent_test
def test_a_worker_cleared_after_the_end_has_nothing_to_do(lines: Lines) -> None:
    copy_cases.cleared_worker(lines)


def test_no_password_is_visible_and_no_process_remains(
    real_stack: AirflowStack, lines_alone: Lines
) -> None:
    stack, lines = real_stack, lines_alone
    with Watch(stack) as watch:
        run = lines.run("few")
        lines.check_done(run, partitions=FEW)
        stack.set_connection(lines.conn_id("target"), lines.target.replace(SECRETS[-1], WRONG))
        refused = lines.run("once")
        assert refused.wait() == "failed"
    assert watch.nurseries
    check_ended(list(watch.nurseries))
    assert "password authentication failed" in refused.log("lines.prepare")
    places = {
        "processes": b"\n".join(watch.texts),
        "logs": b"\n".join(path.read_bytes() for path in stack.home.rglob("*.log")),
        "metadata": _dump(stack.metadata, stack.metadata.url),
        "control tables": _dump(stack.metadata, lines.target, "--schema=penstock"),
    }
    for secret in (*SECRETS, WRONG):
        found = [name for name, content in places.items() if secret.encode() in content]
        assert not found, f"{secret} is in {found}"
    # Proof that the test looked in the right places.
    for name, known in {
        "processes": NURSERY.encode(),
        "logs": b"committed: p0001",
        "metadata": lines.conn_id("source").encode(),
        "control tables": lines.run_id(run).encode(),
    }.items():
        assert known in places[name], name


def _dump(server: PostgresServer, url: str, *options: str) -> bytes:
    command = [str(server.bin("pg_dump")), "--dbname", url, *options]
    return subprocess.run(command, check=True, capture_output=True).stdout
