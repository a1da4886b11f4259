"""Workers that stop answering, in any code, are killed; those that wait for a long time are not."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from penstock.events import Committed, Event, Failed
from penstock.model.extents import Whole
from penstock.model.plans import Partition
from penstock.model.tables import Located, TableRef
from penstock.spec.worker_spec import WorkerSpec
from penstock.workers.process import Nursery
from penstock.workers.supervisor import Supervisor, Work

from . import stuck_backend

BACKEND = f"{stuck_backend.__name__}:BACKEND"


def spec() -> WorkerSpec:
    return WorkerSpec(
        run_id="run", generation=1, source="", target="", source_backend=BACKEND,
        target_backend=BACKEND, relation=Located(), target_table=TableRef("main", "t"), pairs=(),
        format="", where=None, mode="append", conflict_columns=(), volatile=False, series="",
        snapshot=None, stall_timeout=1, grace=1, control_schema="penstock", schema="", writing={},
    )  # fmt: skip


def run(*names: str) -> Sequence[Event]:
    """Run one worker for each partition."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    nursery = Nursery(environment, [BACKEND])
    works = [Work(spec(), Partition(name, Whole()), 5, False) for name in names]
    supervisor = Supervisor(
        nursery=nursery,
        degree=len(names),
        is_committed=lambda run_id, partition_id: False,
        watch=lambda: (),
    )
    try:
        return list(supervisor.run(works))
    finally:
        nursery.close()


def test_a_worker_is_killed_for_silence_but_not_for_waiting() -> None:
    events = run("native", "gil", "rollback", "sleep", "thread")
    lost = {event.partition_id: event for event in events if isinstance(event, Failed)}
    assert lost.keys() == {"native", "gil", "rollback"}
    for event in lost.values():
        assert event.error["error"] == "WorkerLost"
        assert event.error["transient"]
        assert "killed by SIGKILL" in event.error["message"]
        assert "silent for 10 s" in event.error["message"]
    assert "stuck for 10 s at " in lost["native"].error["message"]
    assert "stuck_backend.py" in lost["native"].error["message"]
    committed = {e.partition_id: e.attempt for e in events if isinstance(e, Committed)}
    assert committed == {"native": 2, "gil": 2, "rollback": 2, "sleep": 1, "thread": 1}


def test_a_crash_is_retried_once() -> None:
    """Native code that crashes on a file, for instance, crashes again."""
    events = run("crash", "crash-once")
    failed = [event for event in events if isinstance(event, Failed)]
    found = sorted((e.partition_id, e.attempt, bool(e.error["transient"])) for e in failed)
    assert found == [("crash", 1, True), ("crash", 2, False), ("crash-once", 1, True)]
    assert all("killed by SIGABRT" in event.error["message"] for event in failed)
    assert [e.partition_id for e in events if isinstance(e, Committed)] == ["crash-once"]
