"""A run in many processes: its holder is killed or disconnected, and another one takes over."""

from __future__ import annotations

import signal

import pytest

import penstock
from penstock.errors import EXIT_TRANSIENT
from penstock.events import Committed, Opened, SnapshotChanged

from .cli import PATIENCE, Run, eventually
from .pair import PARTITIONS, RUN_ID, Pair, ask, execute, partition_id

HALF = [partition_id(number) for number in range(1, PARTITIONS // 2 + 1)]
AWAIT = ("--await-snapshot", "60s")
WRITE = "UPDATE item SET amount = 1 WHERE id = 20000"
HELD = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'penstock:snapshot'"


def killed_after_half(pair: Pair, *words: str) -> None:
    """Return a run that is half committed, and whose holder is then killed."""
    pair.create(*words)
    holder = pair.hold()
    holder.wait_for(SnapshotChanged, state="taken")
    run = pair.resume(*AWAIT, "--only", *HALF)
    run.ended(0)
    assert len(run.of(Committed)) == len(HALF)
    holder.kill()
    pair.check_nothing_left()


def end(pair: Pair, holder: Run) -> None:
    """Check that the run is done, its holder has ended by itself, and nothing is left."""
    run = pair.resume(*AWAIT)
    run.ended(0)
    assert run.finished.status == "done"
    holder.ended(0)
    assert holder.of(SnapshotChanged, state="released")
    pair.check_done()


def test_a_new_holder_continues_if_the_source_was_not_written_to(pair: Pair) -> None:
    killed_after_half(pair)
    # This run only waits, and finds the next holder's snapshot.
    waiting = pair.resume(*AWAIT, "--only", partition_id(PARTITIONS))
    holder = pair.hold()
    holder.wait_for(SnapshotChanged, state="renewed")
    waiting.ended(0)
    assert waiting.of(SnapshotChanged, state="adopted")
    end(pair, holder)


def test_fail_ends_the_new_holder_and_all_waiting_runs(pair: Pair) -> None:
    killed_after_half(pair)
    execute(pair.source, WRITE)
    waiting = pair.resume(*AWAIT)
    holder = pair.hold()
    holder.ended(65)
    assert "--on-snapshot-lost" in holder.errors
    waiting.ended(65)
    pair.check_nothing_left()
    assert len(pair.attempts()) == len(HALF)


def test_accept_reads_the_rest_as_of_now(pair: Pair) -> None:
    killed_after_half(pair, "--on-snapshot-lost", "accept")
    execute(pair.source, WRITE)
    holder = pair.hold()
    holder.wait_for(SnapshotChanged, state="renewed")
    run = pair.resume(*AWAIT)
    run.ended(0)
    assert len(run.of(Opened)) == PARTITIONS - len(HALF)
    holder.ended(0)
    pair.check_done(recount=False)
    assert ask(pair.target, "SELECT amount FROM item WHERE id = 20000") == 1


def test_restart_starts_over_once_for_all(pair: Pair) -> None:
    killed_after_half(pair, "--mode", "truncate", "--on-snapshot-lost", "restart")
    execute(pair.source, WRITE)
    done, waiting = (pair.resume(*AWAIT, "--only", *ids) for ids in (HALF[:2], [partition_id(8)]))
    holder = pair.hold()
    holder.wait_for(SnapshotChanged, state="renewed")
    end(pair, holder)
    waiting.ended(0)
    # Its partitions were committed. If the run restarts at that moment, it must be called again.
    assert done.popen.wait(PATIENCE) in (0, EXIT_TRANSIENT)
    assert pair.status().run.generation == 2


def test_attempts_of_the_old_generation_are_copied_again_after_a_restart(pair: Pair) -> None:
    pair.create("--mode", "truncate", "--on-snapshot-lost", "restart", "--attempts", "1")
    first = pair.hold()
    first.wait_for(SnapshotChanged, state="taken")
    pair.resume(*AWAIT, "--only", *HALF).ended(0)
    (gate,) = pair.gates(6)
    run = pair.resume(*AWAIT, "--only", partition_id(6), partition_id(7))
    gate.reached()
    first.kill()
    eventually("the session is gone", lambda: ask(pair.source, HELD) == 0, PATIENCE)
    execute(pair.source, WRITE)
    holder = pair.hold()
    holder.wait_for(SnapshotChanged, state="renewed")
    gate.open()
    # The holder ends the attempt before it publishes the new generation: with one attempt, a task
    # that looks in between fails transiently, and must be called again.
    assert run.popen.wait(PATIENCE) in (0, EXIT_TRANSIENT)
    assert run.of(SnapshotChanged, state="adopted")
    end(pair, holder)
    assert pair.status().run.generation == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_releases_the_snapshot(pair: Pair, number: signal.Signals) -> None:
    pair.create()
    holder = pair.hold()
    holder.wait_for(SnapshotChanged, state="taken")
    holder.popen.send_signal(number)
    holder.ended(130)
    pair.check_nothing_left()
    # Another holder may come, so the run still waits for one.
    assert pair.status().run.released_at is None


def test_the_holder_outlives_its_connection_to_the_target(pair: Pair) -> None:
    proxy = pair.proxy("target")
    pair.create()
    holder = pair.hold()
    holder.wait_for(SnapshotChanged, state="taken")
    proxy.cut()
    end(pair, holder)
    assert [event.state for event in holder.of(SnapshotChanged)] == ["taken", "released"]


def test_a_terminated_session_is_replaced(pair: Pair) -> None:
    pair.create("--on-snapshot-lost", "accept")
    holder = pair.hold()
    holder.wait_for(SnapshotChanged, state="taken")
    pair.resume(*AWAIT, "--only", *HALF).ended(0)
    ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
    execute(pair.source, ended + " WHERE application_name = 'penstock:snapshot'")
    holder.wait_for(SnapshotChanged, state="renewed")
    end(pair, holder)
    assert [e.state for e in holder.of(SnapshotChanged)] == ["taken", "lost", "renewed", "released"]


def test_release_leaves_no_process_or_session(pair: Pair) -> None:
    pair.create()
    holder = pair.hold()
    holder.wait_for(SnapshotChanged, state="taken")
    penstock.release(RUN_ID, target=pair.target)
    holder.ended(0)
    pair.check_nothing_left()


def test_a_run_killed_during_a_recopy_is_resumed(pair: Pair) -> None:
    run = pair.copy()
    run.ended(0)
    (gate,) = pair.gates(3)
    words = ("--only", partition_id(3), partition_id(4))
    recopy = pair.resume(*words, "--recopy")
    gate.reached()
    recopy.signal_all(signal.SIGKILL)
    recopy.ended(-signal.SIGKILL)
    gate.open()
    pair.check_nothing_left()
    found = pair.status()
    assert found.run.status == "running"
    assert partition_id(3) not in pair.attempts()
    request = ask(pair.target, "SELECT min(request) FROM penstock.recopy_record")
    events = [
        event
        for _ in range(2)
        for event in penstock.resume(
            RUN_ID,
            source=pair.source,
            target=pair.target,
            only=[partition_id(3), partition_id(4)],
            recopy=request,
        )
    ]
    copied = [e.partition_id for e in events if isinstance(e, Committed)]
    assert partition_id(3) in copied
    assert len(copied) == len(set(copied)) <= 2
    pair.check_done()


def test_a_run_that_reads_as_of_now_continues_when_a_holder_restarts(pair: Pair) -> None:
    """No retry is needed: its only attempt is of the old generation, and it adopts the new one."""
    pair.create("--mode", "truncate", "--attempts", "1")
    first = pair.hold()
    first.wait_for(SnapshotChanged, state="taken")
    first.kill()
    eventually("the session is gone", lambda: ask(pair.source, HELD) == 0, PATIENCE)
    (gate,) = pair.gates(6)
    run = pair.resume("--as-of-now", "--only", partition_id(6))
    gate.reached()
    # No partition is committed: the lost snapshot is replaced, and no worker may read with it any
    # more.
    holder = pair.hold()
    holder.wait_for(SnapshotChanged, state="renewed")
    gate.open()
    run.ended(0)
    assert pair.status().run.generation == 2
    assert set(pair.attempts()) == {partition_id(6)}
    end(pair, holder)


def test_a_stopped_holder_may_be_released_twice(pair: Pair) -> None:
    pair.create()
    holder = pair.hold()
    holder.wait_for(SnapshotChanged, state="taken")
    holder.signal_all(signal.SIGSTOP)
    for _ in range(2):
        penstock.release(RUN_ID, target=pair.target)
    holder.signal_all(signal.SIGCONT)
    holder.ended(0)
    pair.check_nothing_left()
    pair.check_resumes()


def test_a_second_holder_takes_over_from_a_killed_one(pair: Pair) -> None:
    """The second one has watched the first one's snapshot, and there were no writes since."""
    pair.create()
    first = pair.hold()
    first.wait_for(SnapshotChanged, state="taken")
    second = pair.hold()
    second.wait_for(SnapshotChanged, state="adopted")
    first.kill()
    second.wait_for(SnapshotChanged, state="renewed")
    task = pair.resume("--only", partition_id(1), *AWAIT)
    task.ended(0)
    penstock.release(RUN_ID, target=pair.target)
    second.ended(0)
    pair.check_nothing_left()
    pair.check_resumes()


def test_a_stopped_holder_wakes_up_after_another_took_over(pair: Pair) -> None:
    pair.create()
    first = pair.hold()
    first.wait_for(SnapshotChanged, state="taken")
    first.signal_all(signal.SIGSTOP)
    second = pair.hold()
    second.wait_for(SnapshotChanged)
    pair.resume("--only", partition_id(1), *AWAIT).ended(0)
    first.signal_all(signal.SIGCONT)
    pair.resume("--only", partition_id(2), *AWAIT).ended(0)
    penstock.release(RUN_ID, target=pair.target)
    for holder in (first, second):
        holder.ended(0)
    pair.check_nothing_left()
    pair.check_resumes()
