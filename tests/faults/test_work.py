"""Several processes work on one run: each takes partitions, one finishes, none ends before."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence

import pytest

from penstock.events import Committed, Opened, Prepared, SnapshotChanged, StepChanged

from .cli import PATIENCE, Run, eventually
from .pair import PARTITIONS, ROWS, Pair, ask, connect, digest, execute, partition_id

PLAN = ("--table", "public.item", "--strategy", "ctid", "--partitions", str(PARTITIONS))
ALL = range(1, PARTITIONS + 1)


def committed(runs: Sequence[Run]) -> list[str]:
    """Return the partitions that these processes have committed themselves, sorted."""
    return sorted(event.partition_id for run in runs for event in run.of(Committed, already=False))


def end(pair: Pair, runs: Sequence[Run]) -> None:
    for run in runs:
        run.ended(0)
        assert run.finished.status == "done"
    pair.check_done()


def test_each_takes_partitions_that_no_other_is_copying(pair: Pair) -> None:
    gates = pair.gates(*ALL)
    runs = [pair.work(*PLAN, streams=2), pair.work("--wait", "60s", streams=6)]
    for gate in gates:
        gate.reached()
    for gate in gates:
        gate.open()
    end(pair, runs)
    assert [len(run.of(Committed, already=False)) for run in runs] == [2, 6]
    assert committed(runs) == [partition_id(n) for n in ALL]
    assert sum(len(run.of(Opened)) for run in runs) == PARTITIONS


def test_no_process_ends_before_the_run_is_done(pair: Pair) -> None:
    gate = pair.gates(3)[0]
    first = pair.work(*PLAN, streams=1)
    first.wait_for(Opened)
    others = [pair.work("--wait", "60s") for _ in range(2)]
    gate.reached()
    eventually("the others have copied the rest", lambda: len(pair.attempts()) == 7, PATIENCE)
    time.sleep(3)
    assert not any(run.has_ended() for run in (first, *others))
    gate.open()
    end(pair, [first, *others])


def test_one_finishes_while_the_others_wait(pair: Pair) -> None:
    pair.create("--mode", "recreate")  # the plan has the needle, too
    pair.proxy("target")
    gate = pair.gate_at(b"CREATE UNIQUE INDEX")
    runs = [pair.work() for _ in range(3)]
    gate.reached()
    time.sleep(2)
    assert not [run.errors for run in runs if run.has_ended()]
    gate.open()
    for run in runs:
        run.ended(0)
    steps = [run.of(StepChanged, state="done") for run in runs]
    assert sorted(map(bool, steps)) == [False, False, True]
    pair.check_done()


def test_another_finishes_if_the_one_that_has_begun_is_killed(pair: Pair) -> None:
    pair.create("--mode", "recreate")
    pair.proxy("target")
    gate = pair.gate_at(b"CREATE UNIQUE INDEX")
    runs = [pair.work("--grace", "1s") for _ in range(3)]
    gate.reached()
    eventually(
        "the steps have begun",
        lambda: any(run.of(StepChanged, state="started") for run in runs),
        PATIENCE,
    )
    (finishing,) = [run for run in runs if run.of(StepChanged, state="started")]
    finishing.signal_all(signal.SIGKILL)
    gate.open()
    end(pair, [run for run in runs if run is not finishing])


@pytest.mark.parametrize("all_at_once", [False, True])
def test_the_snapshot_outlives_the_process_that_took_it(pair: Pair, *, all_at_once: bool) -> None:
    """Each process holds it, too: the source is written to, and the third reads the old rows."""
    gates = pair.gates(1, 2, 3, 4)
    first = pair.work(*PLAN, streams=1)
    assert first.wait_for(SnapshotChanged).state == "taken"
    first.wait_for(Opened)
    second = pair.work("--grace", "1s", streams=1)
    assert second.wait_for(SnapshotChanged).state == "adopted"
    with connect(pair.source) as source:
        expected = digest(source)
    execute(
        pair.source,
        "UPDATE item SET note = note || 'later'",
        "DELETE FROM item WHERE id % 10 = 0",
    )
    third = pair.work("--grace", "1s", streams=1) if all_at_once else None
    if third is not None:
        assert third.wait_for(SnapshotChanged).state == "adopted"
    first.signal_all(signal.SIGKILL)
    first.popen.wait(PATIENCE)
    if third is None:
        third = pair.work("--grace", "1s", streams=1)
        assert third.wait_for(SnapshotChanged).state == "adopted"
    second.signal_all(signal.SIGKILL)
    second.popen.wait(PATIENCE)
    for gate in gates:
        gate.open()
    third.ended(0)
    with connect(pair.target) as target:
        assert digest(target) == expected
    pair.check_done(recount=False)


def test_a_stopped_process_loses_its_partition(pair: Pair) -> None:
    gate = pair.gates(5)[0]
    first = pair.work(*PLAN, "--grace", "1s", streams=8)
    gate.reached()
    eventually("it has one left", lambda: len(pair.attempts()) == PARTITIONS - 1, PATIENCE)
    first.signal_all(signal.SIGSTOP)
    gate.open()
    second = pair.work("--grace", "1s")
    second.ended(0)
    first.signal_all(signal.SIGCONT)
    end(pair, [first])
    assert committed([second]) == [partition_id(5)]


def test_a_process_that_comes_after_the_end_has_nothing_to_do(pair: Pair) -> None:
    pair.work(*PLAN).ended(0)
    finished_at = pair.status().run.finished_at
    again = pair.work()
    again.ended(0)
    assert not again.of(Opened)
    assert pair.status().run.finished_at == finished_at
    pair.check_done()


def test_a_failing_partition_ends_each_process(pair: Pair) -> None:
    execute(pair.target, f"ALTER TABLE item ADD CHECK (id <> {ROWS})")
    runs = [pair.work(*PLAN, "--on-error", "continue") for _ in range(2)]
    for run in runs:
        run.ended(65)
    assert len(pair.attempts()) == PARTITIONS - 1
    execute(pair.target, "ALTER TABLE item DROP CONSTRAINT item_id_check")
    end(pair, [pair.work("--on-snapshot-lost", "accept") for _ in range(2)])


def test_the_target_restarts(pair: Pair) -> None:
    """Its sessions are ended, as by a restart: nothing is lost, and nothing is there twice."""
    gates = pair.gates(1, 2)
    runs = [pair.work(*PLAN, "--grace", "1s"), pair.work("--wait", "60s", "--grace", "1s")]
    for gate in gates:
        gate.reached()
    for run in runs:
        run.wait_for(Prepared)
    query = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE starts_with(application_name, 'penstock:') AND datname = current_database()"
    )
    assert ask(pair.target, query) > 0
    for gate in gates:
        gate.open()
    end(pair, runs)
