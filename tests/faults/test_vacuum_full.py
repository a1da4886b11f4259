"""VACUUM FULL moves rows to other blocks, but never unnoticed by a run that cuts by blocks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from psycopg.errors import QueryCanceled

from penstock.events import Opened, Planned, Prepared, SnapshotChanged

from .cli import Run
from .pair import PARTITIONS, Pair, ask, connect, execute

NODE = "SELECT pg_relation_filenode('item')"


class Rewrite(threading.Thread):
    """VACUUM FULL in a session of its own."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._connection = connect(url)
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            with closing(self._connection) as connection:
                connection.execute("VACUUM FULL item")
        except Exception as error:
            self.error = error

    def give_up(self) -> None:
        self._connection.cancel_safe()
        self.join()


@contextmanager
def rewriting(pair: Pair) -> Iterator[Rewrite]:
    """Yield a VACUUM FULL that has to wait at first."""
    rewrite = Rewrite(pair.source)
    rewrite.start()
    try:
        pair.waiting_for_lock("source", 1)
        yield rewrite
    finally:
        if rewrite.is_alive():
            rewrite.give_up()


def delete_some(pair: Pair) -> None:
    """Free some space, so that the rows end up elsewhere."""
    execute(pair.source, "DELETE FROM item WHERE id % 3 = 1")


@contextmanager
def between_plan_and_copy(pair: Pair, *words: str) -> Iterator[tuple[Run, Rewrite]]:
    """Yield a run, and a VACUUM FULL that came before its streams.

    The streams queue behind it, and it waits for the session that holds the snapshot.
    """
    delete_some(pair)
    with pair.lock_target() as lock:
        # The mode's preparation comes after planning, and has to wait.
        run = pair.copy("--mode", "truncate", *words)
        run.wait_for(Planned)
        pair.waiting_for_lock("target", 1)
        with rewriting(pair) as rewrite:
            assert not run.of(Prepared)
            lock.close()
            yield run, rewrite


def test_the_run_continues_if_vacuum_full_gives_up_before_the_copy(pair: Pair) -> None:
    with between_plan_and_copy(pair) as (run, rewrite):
        pair.waiting_for_lock("source", 3)
        rewrite.give_up()
        assert isinstance(rewrite.error, QueryCanceled)
        run.ended(0)
    pair.check_resumes()


def test_the_run_fails_and_is_resumed_if_vacuum_full_stays_before_the_copy(pair: Pair) -> None:
    with between_plan_and_copy(pair, "--attempts", "1") as (run, rewrite):
        run.ended(75)
        rewrite.join()
    assert rewrite.error is None
    (failure, *_) = run.finished.failures
    assert failure.error["code"] == "55P03"
    assert "VACUUM FULL" in failure.error["message"]
    assert not pair.attempts()
    pair.check_resumes()


def test_vacuum_full_waits_for_a_copy_in_progress(pair: Pair) -> None:
    delete_some(pair)
    gates = pair.gates(3, 4)
    run = pair.copy()
    for gate in gates:
        gate.reached()
    node = ask(pair.source, NODE)
    with rewriting(pair) as rewrite:
        for gate in gates:
            gate.open()
        run.ended(0)
        rewrite.join()
    assert rewrite.error is None
    assert ask(pair.source, NODE) != node
    pair.check_resumes()


@pytest.mark.parametrize("mode", ["append", "truncate"])
def test_a_rewrite_after_a_kill_invalidates_the_plan(pair: Pair, mode: str) -> None:
    delete_some(pair)
    stop_in_mid_copy(pair, mode)
    committed = pair.attempts()
    assert committed
    execute(pair.source, "VACUUM FULL item")

    resumed = pair.resume()
    resumed.ended(65)
    assert "public.item was rewritten after run faults was planned" in resumed.errors
    assert "VACUUM FULL" in resumed.errors
    assert not resumed.of(Opened)
    assert pair.attempts() == committed
    pair.check_nothing_left()
    if mode == "truncate":
        restarted = pair.check_resumes("--on-snapshot-lost", "restart")
        assert len(restarted.of(Opened)) == PARTITIONS
        assert restarted.finished.snapshots == 1


def test_a_rewrite_after_a_kill_by_key_needs_a_decision(pair: Pair) -> None:
    delete_some(pair)
    stop_in_mid_copy(pair, "append", strategy="range")
    assert pair.attempts()
    execute(pair.source, "VACUUM FULL item")
    # The plan is valid, but a TRUNCATE would look the same, and its deleted rows are not counted.
    resumed = pair.resume()
    resumed.ended(65)
    assert "public.item was rewritten since" in resumed.errors
    assert "--on-snapshot-lost accept" in resumed.errors
    pair.check_resumes("--on-snapshot-lost", "accept")


def test_a_rewrite_before_the_first_commit_leaves_the_plan_valid(pair: Pair) -> None:
    delete_some(pair)
    gates = pair.gates(1, 2)
    run = pair.copy()
    run.wait_for(Prepared)
    run.kill()
    pair.check_no_worker_left()
    for gate in gates:
        gate.open()
    pair.check_nothing_left()
    assert not pair.attempts()
    execute(pair.source, "VACUUM FULL item")
    resumed = pair.check_resumes()
    assert [event.state for event in resumed.of(SnapshotChanged)] == ["renewed"]


def stop_in_mid_copy(pair: Pair, mode: str, strategy: str = "ctid") -> None:
    gates = pair.gates(3, 4)
    run = pair.copy("--mode", mode, strategy=strategy)
    for gate in gates:
        gate.reached()
    run.kill()
    pair.check_no_worker_left()
    for gate in gates:
        gate.open()
    pair.check_nothing_left()
