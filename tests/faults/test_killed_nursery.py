"""SIGKILL to the process that forks the workers."""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from penstock.events import Failed, Opened, Planned

from .cli import Run
from .pair import Pair, partition_id


def nursery(run: Run) -> int:
    """Return the supervisor's only child."""
    (child,) = psutil.Process(run.pid).children()
    return child.pid


def test_workers_continue_without_their_nursery(pair: Pair) -> None:
    gates = pair.gates(3, 4)
    run = pair.copy()
    for gate in gates:
        gate.reached()
    os.kill(nursery(run), signal.SIGKILL)
    for gate in gates:
        gate.open()
    run.ended(0)
    assert not run.of(Failed)
    pair.check_resumes()


@pytest.mark.parametrize("last", ["nursery", "worker"])
def test_a_nursery_killed_with_a_worker_is_replaced(pair: Pair, last: str) -> None:
    gates = pair.gates(3, 4)
    run = pair.copy()
    for gate in gates:
        gate.reached()
    victims = [nursery(run), run.wait_for(Opened, partition_id=partition_id(3)).pid]
    for victim in victims if last == "worker" else reversed(victims):
        os.kill(victim, signal.SIGKILL)
    for gate in gates:
        gate.open()
    run.ended(0)
    (failed,) = run.of(Failed)
    assert (failed.partition_id, failed.error["error"]) == (partition_id(3), "WorkerLost")
    pair.check_resumes()


def test_a_nursery_killed_before_it_has_workers_is_replaced(pair: Pair) -> None:
    with pair.lock_target() as lock:
        run = pair.copy("--mode", "truncate")
        run.wait_for(Planned)
        pair.waiting_for_lock("target", 1)
        os.kill(nursery(run), signal.SIGKILL)
        lock.close()
        run.ended(0)
    pair.check_resumes()
