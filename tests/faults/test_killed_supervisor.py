"""SIGKILL to the supervisor: its workers end by themselves, and `resume` continues."""

from __future__ import annotations

from collections.abc import Callable
from signal import SIGKILL

import pytest

from penstock.events import Committed, Event, Opened, Planned, Prepared, Progress

from .cli import Run
from .pair import PARTITIONS, Pair


def kill_supervisor(run: Run) -> None:
    run.kill()


def kill_both(run: Run) -> None:
    run.signal_all(SIGKILL)
    run.ended(-SIGKILL)


# The third and fourth partitions stay open until the supervisor is dead.
@pytest.mark.parametrize("event", [Planned, Prepared, Opened, Committed, Progress])
@pytest.mark.parametrize("strike", [kill_supervisor, kill_both])
def test_resume_continues_after_the_supervisor_was_killed(
    pair: Pair, event: type[Event], strike: Callable[[Run], None]
) -> None:
    gates = pair.gates(3, 4)
    run = pair.copy()
    run.wait_for(event)
    if event is Progress:
        for gate in gates:
            gate.reached()
    strike(run)
    pair.check_no_worker_left()
    for gate in gates:
        gate.open()
    pair.check_nothing_left()

    before = pair.attempts()
    assert len(before) <= 2
    resumed = pair.check_resumes()
    (planned,) = resumed.of(Planned)
    assert planned.committed == len(before)
    assert len(resumed.of(Opened)) == PARTITIONS - len(before)


def test_an_orphaned_worker_that_waits_for_a_lock_ends_too(pair: Pair) -> None:
    with pair.lock_target():
        run = pair.copy()
        run.wait_for(Progress)
        run.kill()
        pair.check_nothing_left()
    pair.check_resumes()
