"""SIGKILL to a worker: only its partition is retried."""

from __future__ import annotations

import os
import signal

import pytest

from penstock.events import Committed, Event, Failed, Opened, Progress, Retrying

from .pair import PARTITIONS, Pair, partition_id

pytestmark = pytest.mark.usefixtures("both_paths")


@pytest.mark.parametrize("kind", [Opened, Progress])
@pytest.mark.parametrize("partition", [1, PARTITIONS])
def test_the_partition_of_a_killed_worker_is_retried(
    pair: Pair, kind: type[Event], partition: int
) -> None:
    (gate,) = pair.gates(partition)
    run = pair.copy()
    event = run.wait_for(kind, partition_id=partition_id(partition))
    assert isinstance(event, Opened | Progress)
    if isinstance(event, Progress):
        gate.reached()
    os.kill(event.pid, signal.SIGKILL)
    gate.open()
    run.ended(0)

    (failed,) = run.of(Failed)
    assert (failed.partition_id, failed.attempt) == (event.partition_id, 1)
    assert failed.error["error"] == "WorkerLost"
    assert "SIGKILL" in failed.error["message"]
    assert [(r.partition_id, r.attempt) for r in run.of(Retrying)] == [(event.partition_id, 2)]
    expected = {partition_id(p): 1 for p in range(1, PARTITIONS + 1)} | {event.partition_id: 2}
    assert pair.attempts() == expected
    pair.check_resumes()


def test_a_worker_killed_right_after_its_commit_loses_no_rows(pair: Pair) -> None:
    # The worker that commits first gets the third partition, which it cannot complete.
    (gate,) = pair.gates(3)
    run = pair.copy()
    committed = run.wait_for(Committed)
    os.kill(committed.pid, signal.SIGKILL)
    gate.open()
    run.ended(0)

    # The partition that it got next is retried, unless the worker died before receiving it. It is
    # the third, or the fourth if another worker committed at the same moment.
    attempts = pair.attempts()
    assert len(attempts) == PARTITIONS
    assert sorted(attempts.values()) in ([1] * PARTITIONS, [1] * (PARTITIONS - 1) + [2])
    pair.check_resumes()


def test_a_partition_whose_every_attempt_is_killed_fails(pair: Pair) -> None:
    (gate,) = pair.gates(1)
    run = pair.copy("--attempts", "2")
    for attempt in (1, 2):
        opened = run.wait_for(Opened, partition_id=partition_id(1), attempt=attempt)
        gate.reached()
        os.kill(opened.pid, signal.SIGKILL)
        # Hold the next attempt before the gate lets the retry pass.
        gate, passed = pair.gates(1)[0], gate
        passed.open()
    gate.open()
    run.ended(75)
    (failure,) = run.finished.failures
    assert (failure.partition_id, failure.attempts) == (partition_id(1), 2)
    assert failure.error["error"] == "WorkerLost"
    assert partition_id(1) not in pair.attempts()
    pair.check_resumes()
