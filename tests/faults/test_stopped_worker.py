"""A worker that was stopped (SIGSTOP), and one that wakes up after its partition was retried."""

from __future__ import annotations

import os
import signal
from contextlib import closing

import pytest

from penstock.events import Committed, Failed, Opened, SnapshotChanged

from .pair import PARTITIONS, RUN_ID, Pair, connect, partition_id

pytestmark = pytest.mark.usefixtures("both_paths")


def test_a_worker_that_wakes_up_after_a_resume_writes_nothing(pair: Pair) -> None:
    gates = pair.gates(1, 2)
    stopped = pair.copy("--grace", "1s")
    for gate in gates:
        gate.reached()
    sessions = [name for name in pair.backends() if name.startswith(f"target penstock:{RUN_ID}")]
    assert sessions == [f"target penstock:{RUN_ID}:p000{n}:1" for n in (1, 2)]
    stopped.signal_all(signal.SIGSTOP)
    for gate in gates:
        gate.open()
    bystanders = [
        f"penstock:OTHERRUN:{partition_id(1)}:1",
        f"penstock:{RUN_ID}:{partition_id(1)}:1",  # the same name, but not the lock
    ]
    with (
        closing(connect(pair.target, application_name=bystanders[0])) as other_run,
        closing(connect(pair.target, application_name=bystanders[1])) as same_name,
    ):
        resumed = pair.resume("--grace", "1s")
        resumed.ended(0)
        assert resumed.finished.status == "done"
        # The stopped run still holds the snapshot.
        assert [event.state for event in resumed.of(SnapshotChanged)] == ["adopted"]
        pair.check_content()
        for bystander in (other_run, same_name):
            assert bystander.execute("SELECT 1").fetchone() == (1,)
    ended = pair.attempts()

    stopped.signal_all(signal.SIGCONT)
    stopped.ended(0)
    assert stopped.finished.status == "done"
    assert {event.partition_id for event in stopped.of(Failed)} == {"p0001", "p0002"}
    assert all(event.error["side"] == "target" for event in stopped.of(Failed))
    assert all(event.already for event in stopped.of(Committed))
    assert pair.attempts() == ended
    pair.check_resumes()


def test_a_silent_worker_is_replaced(pair: Pair) -> None:
    (gate,) = pair.gates(3)
    run = pair.copy("--stall-timeout", "5s")
    gate.reached()
    worker = run.wait_for(Opened, partition_id=partition_id(3)).pid
    os.kill(worker, signal.SIGSTOP)
    gate.open()
    run.ended(0)
    (failed,) = run.of(Failed)
    assert (failed.partition_id, failed.attempt, failed.pid) == (partition_id(3), 1, worker)
    assert failed.error["error"] == "WorkerLost"
    assert "silent" in failed.error["message"]
    assert len(run.of(Opened)) == PARTITIONS + 1
    pair.check_resumes()
