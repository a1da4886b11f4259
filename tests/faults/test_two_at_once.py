"""Two supervisors at the same run: each partition is committed by one of them."""

from __future__ import annotations

from penstock.events import Committed, Failed, Opened

from .pair import PARTITIONS, Pair, execute


def test_two_resumes(pair: Pair) -> None:
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

    # The first to come is held up, and the other one waits for it. However long both take to get
    # there, it is not taken for one that was stopped.
    held = pair.gates(1, 2)
    both = [pair.resume("--grace", "10m"), pair.resume("--grace", "10m")]
    for run in both:
        run.wait_for(Opened, count=2)
    for gate in held:
        gate.open()
    for run in both:
        run.ended(0)
        assert run.finished.status == "done"
        assert not run.of(Failed)
    moved = [event for run in both for event in run.of(Committed, already=False)]
    assert len(moved) == len({event.partition_id for event in moved}) == PARTITIONS - before
    pair.check_resumes()


def test_the_first_ends_while_the_second_looks(pair: Pair) -> None:
    """What the second looks at is gone then: it took the place of the old table."""
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


def test_the_table_is_dropped_while_it_is_read(pair: Pair) -> None:
    """By another run in mode recreate: nothing is left for this one to drop."""
    pair.proxy("target")
    gate = pair.gate_at(b"'needed_by'")
    run = pair.copy("--mode", "recreate")
    gate.reached()
    execute(pair.target, "DROP TABLE item")
    gate.open()
    run.ended(0)
    pair.check_done()
