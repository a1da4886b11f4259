"""Mode attach: what other sessions see and wait for, and what kills leave behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from penstock.events import Committed, Failed, Opened, Retrying

from .cli import PATIENCE, Run, eventually
from .pair import PARTITIONS, Connection, Pair, ask, connect, execute, partition_id

ATTACH = ("--mode", "attach", "--key", "id")
CHILDREN = (
    "SELECT count(*) FROM pg_inherits WHERE inhparent = 'item'::regclass"
    " AND inhrelid::regclass::text LIKE 'item\\_p%%'"
)
NAMED = "SELECT count(*) FROM pg_class WHERE relname LIKE 'penstock\\_%%' AND relkind = 'r'"
# Locks on the parent or its children held by attempts that have not attached anything yet.
LOCKS = """
    SELECT count(*) FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
    WHERE a.application_name LIKE 'penstock:faults:%%'
        AND l.relation IN (SELECT relid FROM pg_partition_tree('item'))
"""


@pytest.fixture
def parted(pair: Pair) -> Pair:
    """Return a pair whose target is partitioned, with a default partition."""
    execute(
        pair.target,
        "ALTER TABLE item RENAME TO plain",
        "ALTER INDEX item_pkey RENAME TO plain_pkey",
        "CREATE TABLE item (LIKE plain, PRIMARY KEY (id)) PARTITION BY RANGE (id)",
        "CREATE TABLE others PARTITION OF item DEFAULT",
    )
    return pair


def attach(pair: Pair, *words: str, degree: int = 2) -> Run:
    return pair.copy(*ATTACH, *words, strategy="range", degree=degree)


def check_children(pair: Pair, count: int = PARTITIONS) -> None:
    assert ask(pair.target, CHILDREN) == count
    assert ask(pair.target, NAMED) == 0


@contextmanager
def reading(pair: Pair) -> Iterator[Connection]:
    """Run a query on the target's table that does not end."""
    with closing(connect(pair.target)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT FROM item LIMIT 1")
        yield reader


def test_a_worker_killed_in_mid_stream_leaves_no_child(parted: Pair) -> None:
    gates = parted.gates(1, 2)
    run = attach(parted)
    for gate in gates:
        gate.reached()
    assert ask(parted.target, LOCKS) == 0
    assert ask(parted.target, "SELECT count(*) FROM item") == 0
    os.kill(run.wait_for(Opened, partition_id=partition_id(1)).pid, signal.SIGKILL)
    eventually("nothing is left of it", lambda: len(attempts_open(parted)) == 1, PATIENCE)
    for gate in gates:
        gate.open()
    run.ended(0)
    assert [event.partition_id for event in run.of(Retrying)] == [partition_id(1)]
    check_children(parted)
    parted.check_resumes()
    check_children(parted)


def attempts_open(pair: Pair) -> list[str]:
    return [name for name in pair.backends() if name.startswith("target penstock:faults:")]


def test_a_worker_killed_while_it_waits_to_attach_leaves_no_child(parted: Pair) -> None:
    """Readers of the default partition get through between tries for its lock."""
    with reading(parted):
        run = attach(parted)
        parted.waiting_for_lock("target", 2)
        with closing(connect(parted.target)) as other:
            # Each try queues behind the session that waits for the lock, but only for a limited
            # time.
            begun = time.monotonic()
            other.execute("SELECT count(*) FROM item")
            assert time.monotonic() - begun < 10
        run.signal_all(signal.SIGKILL)
        parted.check_nothing_left()
        check_children(parted, 0)
    parted.check_resumes("--on-snapshot-lost", "accept")
    check_children(parted)


def test_a_worker_that_wakes_up_after_a_resume_attaches_nothing(parted: Pair) -> None:
    gates = parted.gates(1, 2)
    stopped = attach(parted, "--grace", "1s")
    for gate in gates:
        gate.reached()
    stopped.signal_all(signal.SIGSTOP)
    for gate in gates:
        gate.open()
    resumed = parted.resume("--grace", "1s")
    resumed.ended(0)
    check_children(parted)
    ended = parted.attempts()

    stopped.signal_all(signal.SIGCONT)
    stopped.ended(0)
    assert {event.partition_id for event in stopped.of(Failed)} == {"p0001", "p0002"}
    assert all(event.already for event in stopped.of(Committed))
    assert parted.attempts() == ended
    parted.check_resumes()
    check_children(parted)


def test_all_children_are_replaced_while_others_read(parted: Pair) -> None:
    """Each exchange locks readers out for a moment, and every reader sees all rows."""
    attach(parted, "--degree", "4").ended(0)
    ended = threading.Event()
    counted: set[int] = set()

    def read() -> None:
        with closing(connect(parted.target)) as reader:
            while not ended.is_set():
                ((count,),) = reader.execute("SELECT count(*) FROM item").fetchall()
                counted.add(count)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for each in readers:
        each.start()
    try:
        run = parted.resume(
            "--degree", "4", "--recopy", "--on-snapshot-lost", "accept",
            "--only", *(partition_id(n) for n in range(1, PARTITIONS + 1)),
        )  # fmt: skip
        run.ended(0)
    finally:
        ended.set()
        for each in readers:
            each.join(PATIENCE)
    assert not run.of(Failed)
    assert {record.attempt for record in parted.status().committed} == {1}
    assert counted == {ask(parted.source, "SELECT count(*) FROM item")}
    check_children(parted)
    parted.check_resumes()
