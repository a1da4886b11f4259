"""Two supervisors on the same run: each partition is committed by one of them."""

from __future__ import annotations

from penstock.events import Committed, Failed, Opened

from .pair import PARTITIONS, Pair, execute


def test_two_resumes_commit_each_partition_once(pair: Pair) -> None:
    gates = pair.gates(1, 2)
    first = pair.copy()
    for gate in gates:
        gate.reached()
    first.kill()
    pair.check_no_worker_left()
    for gate in gates:
        gate.open()
    pair.check_nothing_left()
    before = len(pair.attempts())

    # The first is held, and the other waits for it. However long both take to get there, neither is
    # mistaken for a stopped one.
    both_gates = pair.gates(1, 2)
    both = [pair.resume("--grace", "10m"), pair.resume("--grace", "10m")]
    for run in both:
        run.wait_for(Opened, count=2)
    for gate in both_gates:
        gate.open()
    for run in both:
        run.ended(0)
        assert run.finished.status == "done"
        assert not run.of(Failed)
    committed = [event for run in both for event in run.of(Committed, already=False)]
    assert len(committed) == len({event.partition_id for event in committed}) == PARTITIONS - before
    pair.check_resumes()


def test_the_first_execution_ends_while_the_second_inspects_the_table(pair: Pair) -> None:
    """The table that the second inspects no longer exists then: it replaced the old one."""
    gates = pair.gates(1, 2)
    pair.proxy("target")
    first = pair.copy("--mode", "swap")
    for gate in gates:
        gate.reached()
    looking = pair.gate_at(b"item__penstock_")
    second = pair.resume()
    looking.reached()
    for gate in gates:
        gate.open()
    first.ended(0)
    looking.open()
    second.ended(0)
    assert second.finished.status == "done"
    assert not second.of(Opened)
    pair.check_resumes()


def test_a_table_may_be_dropped_while_it_is_inspected(pair: Pair) -> None:
    """Another run in mode recreate drops it, so this one does not need to."""
    pair.proxy("target")
    gate = pair.gate_at(b"'needed_by'")
    run = pair.copy("--mode", "recreate")
    gate.reached()
    execute(pair.target, "DROP TABLE item")
    gate.open()
    run.ended(0)
    pair.check_done()
