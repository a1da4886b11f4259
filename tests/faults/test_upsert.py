"""SIGKILL and cancellation in an upsert, and statements that take a long time."""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing
from typing import Literal

import pytest

from penstock.events import Failed, Opened, Progress

from .cli import PATIENCE, eventually, promised
from .pair import (
    PARTITIONS,
    ROWS,
    Pair,
    ask,
    connect,
    execute,
    insert_items,
    partition_id,
)

UPSERT = ("--mode", "upsert")
THERE = ROWS // 2
CHANGED = THERE // 10
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"
SLOW = """
    CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN IF OLD.id = 1 THEN PERFORM pg_sleep(23); END IF; RETURN {row}; END $$;
    CREATE TRIGGER slow BEFORE {event} ON item FOR EACH ROW EXECUTE FUNCTION slow();
"""


@pytest.fixture
def half(pair: Pair) -> Pair:
    """Fill the target with half of the rows, a tenth of them with other values."""
    execute(
        pair.target,
        insert_items(1, THERE),
        "UPDATE item SET note = 'mine', tags = NULL WHERE id % 10 = 0",
    )
    return pair


def check_counts(pair: Pair) -> None:
    """Check the counts of inserted and updated rows over all executions."""
    records = pair.status().committed
    assert len(records) == PARTITIONS
    assert sum(record.rows for record in records) == ROWS
    assert sum(record.inserted or 0 for record in records) == ROWS - THERE
    assert sum(record.updated or 0 for record in records) == CHANGED


@pytest.mark.parametrize("whom", ["worker", "supervisor"])
@pytest.mark.parametrize("moment", ["stream", "merge"])
def test_a_killed_upsert_is_resumed(
    half: Pair, whom: Literal["worker", "supervisor"], moment: Literal["stream", "merge"]
) -> None:
    (gate,) = half.gates(2)
    with half.lock_target() as holder:
        run = half.copy(*UPSERT, degree=2, strategy="range")
        opened = run.wait_for(Opened, partition_id=partition_id(2))
        gate.reached()
        # The first partition's merge waits for the lock; the second is in mid-stream.
        half.waiting_for_lock("target", 1)
        if moment == "merge":
            gate.open()
            half.waiting_for_lock("target", 2)
        if whom == "worker":
            os.kill(opened.pid, signal.SIGKILL)
        else:
            run.kill()
        gate.open()
        holder.execute("ROLLBACK")
    if whom == "worker":
        run.ended(0)
        (failed,) = run.of(Failed)
        assert (failed.partition_id, failed.error["error"]) == (partition_id(2), "WorkerLost")
    half.check_nothing_left()
    half.resume().ended(0)
    half.check_nothing_left()
    half.check_content()
    check_counts(half)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_upsert_is_cancelled_while_it_merges(half: Pair, number: signal.Signals) -> None:
    with half.lock_target():
        run = half.copy(*UPSERT, degree=2)
        half.waiting_for_lock("target", 2)
        since = time.monotonic()
        run.popen.send_signal(number)
        run.ended(130)
        assert time.monotonic() - since < promised()
        half.check_nothing_left()
    assert half.attempts() == {}
    half.resume().ended(0)
    half.check_content()
    check_counts(half)


@pytest.mark.parametrize(
    ("event", "row", "words"),
    [
        ("UPDATE", "NEW", UPSERT),
        ("DELETE", "OLD", ("--mode", "replace", "--key", "id")),
    ],
)
def test_a_long_computation_is_no_stall(
    half: Pair, event: str, row: str, words: tuple[str, ...]
) -> None:
    execute(half.target, "UPDATE item SET note = 'mine' WHERE id = 1")
    execute(half.target, SLOW.format(event=event, row=row))
    run = half.copy(*words, "--stall-timeout", "10s", strategy="range", degree=1)
    run.ended(0)
    assert run.of(Failed) == []
    # Longer than a worker may be stuck, followed by silence.
    assert max(event.seconds for event in run.of(Progress)) > 22
    half.check_content()


def test_a_long_wait_for_a_lock_is_a_stall(half: Pair) -> None:
    with half.lock_target() as holder:
        run = half.copy(*UPSERT, "--stall-timeout", "3s", degree=1)
        failed = run.wait_for(Failed)
        assert failed.error["code"] == "55P03"
        assert failed.error["transient"]
        holder.execute("ROLLBACK")
    run.ended(0)
    half.check_content()
    check_counts(half)


def test_a_deadlock_is_retried(half: Pair) -> None:
    # A session looks for a deadlock once, after it has waited this long: the merge does so after
    # the deadlock exists, and before the other session.
    execute(
        half.target,
        "DO $$ BEGIN EXECUTE format("
        "'ALTER DATABASE %I SET deadlock_timeout = %L', current_database(), '5s'); END $$",
    )
    with closing(connect(half.target)) as other:
        other.execute("SET deadlock_timeout = '60s'")
        other.execute("BEGIN")
        # The merge updates row 10 first, then waits for 20, which the other session has locked.
        other.execute("UPDATE item SET pad = 'x' WHERE id = 20")
        run = half.copy(*UPSERT, strategy="range", degree=1)
        eventually("the merge waits for the row", lambda: ask(half.target, WAITING) == 1, PATIENCE)
        other.execute("UPDATE item SET pad = 'x' WHERE id = 10")
        other.execute("ROLLBACK")
    failed = run.wait_for(Failed)
    assert failed.error["code"] == "40P01"
    assert failed.error["transient"]
    run.ended(0)
    half.check_content()
    check_counts(half)
