"""Ctrl-C and SIGTERM: both servers' statements end within 5 s, and `resume` continues."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from signal import SIGINT, SIGTERM

import pytest

import penstock
from penstock.events import Opened, Planned, Progress

from .cli import PATIENCE, Run, eventually, promised
from .pair import PARTITIONS, RUN_ID, Pair, ask, execute, partition_id


def interrupt_as_a_terminal(run: Run) -> None:
    run.signal_all(SIGINT)


def terminate(run: Run) -> None:
    os.kill(run.pid, SIGTERM)


CANCELS = pytest.mark.parametrize("cancel", [interrupt_as_a_terminal, terminate])
Cancel = Callable[[Run], None]


def check_cancelled(pair: Pair, run: Run, since: float) -> None:
    run.ended(130)
    assert time.monotonic() - since < promised()
    pair.check_nothing_left()
    assert pair.status().run.status == "interrupted"


def terminate_all(run: Run) -> None:
    """Send SIGTERM to all processes, as a service manager does."""
    run.signal_all(SIGTERM)


@pytest.mark.usefixtures("both_paths")
@pytest.mark.parametrize("cancel", [interrupt_as_a_terminal, terminate, terminate_all])
def test_a_copy_is_cancelled_in_mid_stream(pair: Pair, cancel: Cancel) -> None:
    gates = pair.gates(3, 4)
    run = pair.copy()
    for gate in gates:
        gate.reached()
    since = time.monotonic()
    cancel(run)
    run.ended(130)
    # Not earlier, since a stream let through could still commit.
    for gate in gates:
        gate.open()
    check_cancelled(pair, run, since)
    assert run.finished.status == "interrupted"
    assert "interrupted" in run.errors
    assert "penstock resume faults" in run.errors
    resumed = pair.check_resumes()
    assert len(resumed.of(Opened)) == PARTITIONS - run.finished.committed


@CANCELS
def test_a_copy_is_cancelled_while_the_target_waits_for_a_lock(pair: Pair, cancel: Cancel) -> None:
    with pair.lock_target():
        run = pair.copy()
        run.wait_for(Progress)
        pair.waiting_for_lock("target", 2)
        since = time.monotonic()
        cancel(run)
        check_cancelled(pair, run, since)
    assert not pair.attempts()
    pair.check_resumes()


@CANCELS
def test_a_copy_is_cancelled_while_the_target_is_prepared(pair: Pair, cancel: Cancel) -> None:
    with pair.lock_target():
        run = pair.copy("--mode", "truncate")
        run.wait_for(Planned)
        pair.waiting_for_lock("target", 1)
        since = time.monotonic()
        cancel(run)
        check_cancelled(pair, run, since)
    pair.check_resumes()


@CANCELS
def test_a_copy_is_cancelled_during_a_slow_delete(pair: Pair, cancel: Cancel) -> None:
    execute(
        pair.target,
        "CREATE FUNCTION sleep() RETURNS trigger LANGUAGE plpgsql"
        " AS 'BEGIN PERFORM pg_sleep(600); RETURN NULL; END'",
        "CREATE TRIGGER slow BEFORE DELETE ON item EXECUTE FUNCTION sleep()",
    )
    run = pair.copy("--mode", "replace", "--key", "id", strategy="range")
    run.wait_for(Progress)
    sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    eventually("both deletes sleep", lambda: ask(pair.target, sleeping) == 2, PATIENCE)
    since = time.monotonic()
    cancel(run)
    check_cancelled(pair, run, since)
    assert ask(pair.target, sleeping) == 0
    assert not pair.attempts()
    execute(pair.target, "DROP TRIGGER slow ON item")
    pair.check_resumes()


@CANCELS
def test_a_copy_is_cancelled_before_any_rows_move(pair: Pair, cancel: Cancel) -> None:
    gates = pair.gates(1, 2)
    run = pair.copy()
    run.wait_for(Planned)
    since = time.monotonic()
    cancel(run)
    for gate in gates:
        gate.open()
    check_cancelled(pair, run, since)
    pair.check_resumes()


@pytest.mark.usefixtures("both_paths")
def test_closing_the_iterator_cancels_the_copy(pair: Pair) -> None:
    """The iterator is the one that the Python API returns."""
    gates = pair.gates(3, 4)
    spec = penstock.CopySpec(
        source=pair.proxy("source").url(pair.source),
        target=pair.target,
        table="public.item",
        strategy="ctid",
        partitions=PARTITIONS,
        degree=2,
        run_id=RUN_ID,
    )
    # While the iterator is not advanced, no partition is handed out, so the held ones must be in
    # progress.
    awaited = {partition_id(3), partition_id(4)}
    for event in (events := penstock.copy(spec)):
        if isinstance(event, Opened):
            awaited.discard(event.partition_id)
            if not awaited:
                break
    for gate in gates:
        gate.reached()
        gate.open()
    since = time.monotonic()
    events.close()
    assert time.monotonic() - since < promised()
    pair.check_nothing_left()
    assert pair.status().run.status == "interrupted"
    pair.check_resumes()
