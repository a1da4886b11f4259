"""A process stopped or disconnected in the middle of a transaction that concerns a whole run."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

import penstock
from penstock.events import Finished, StepChanged
from penstock_testkit.proxy import Direction

from .cli import PATIENCE, eventually
from .pair import RUN_ID, Connection, Pair, ask, connect, execute, partition_id

GRACE = ("--grace", "1s")
ENDED = "ended its older session"


def stop_at(pair: Pair, needle: bytes, direction: Direction, *words: str) -> Callable[[], None]:
    """Stop a run when its target receives or sends certain bytes.

    Returns:
        A function that wakes the run up.
    """
    gate = pair.gate_at(needle, direction)
    run = pair.copy(*words)
    gate.reached()
    run.signal_all(signal.SIGSTOP)
    gate.open()

    def wake() -> None:
        run.signal_all(signal.SIGCONT)
        run.ended(0)
        assert run.finished.status == "done"

    return wake


@pytest.mark.parametrize(
    ("needle", "direction", "words"),
    [
        (b"TRUNCATE TABLE\x00", "to_client", ("--mode", "truncate")),
        (b"DROP TABLE\x00", "to_client", ("--mode", "recreate")),
        (b'CREATE UNIQUE INDEX "item_pkey__penstock_', "to_server", ("--mode", "swap")),
        (b"LOCK TABLE\x00", "to_client", ("--mode", "swap")),
    ],
)
def test_a_run_stopped_in_a_step_is_replaced(
    pair: Pair, needle: bytes, direction: Direction, words: tuple[str, ...]
) -> None:
    """The step is done but not committed, so its locks remain."""
    wake = stop_at(pair, needle, direction, *words, "--verify", "counts")
    resumed = pair.resume(*GRACE)
    resumed.ended(0)
    assert resumed.finished.status == "done"
    assert f"run {RUN_ID}: waiting for session" in resumed.errors
    assert ENDED in resumed.errors
    pair.check_content()
    wake()
    pair.check_content()
    pair.check_resumes()


def test_a_run_stopped_while_it_starts_over_is_replaced(pair: Pair) -> None:
    words = ("--on-snapshot-lost", "restart")
    gates = pair.gates(2)
    first = pair.copy("--mode", "truncate", *words, degree=1)
    gates[0].reached()
    first.signal_all(signal.SIGKILL)
    first.ended(-signal.SIGKILL)
    gates[0].open()
    execute(pair.source, "UPDATE item SET note = note WHERE id = 1")
    gate = pair.gate_at(b"source_state = $1, snapshots")
    stopped = pair.resume(*words)
    gate.reached()
    stopped.signal_all(signal.SIGSTOP)
    gate.open()
    resumed = pair.resume(*words, *GRACE)
    resumed.ended(0)
    assert ENDED in resumed.errors
    pair.check_content()
    stopped.signal_all(signal.SIGCONT)
    stopped.ended(75)  # its transaction was rolled back, so `resume` continues
    pair.check_resumes()


@contextmanager
def older_session(pair: Pair, name: str = f"penstock:control/{RUN_ID}") -> Iterator[Connection]:
    """Open a session that locks the run's row and then stays idle."""
    with closing(connect(pair.target, application_name=name)) as session:
        session.execute("BEGIN")
        session.execute("SELECT FROM penstock.run WHERE run_id = %s FOR UPDATE", [RUN_ID])
        yield session


def is_open(session: Connection) -> bool:
    """Whether the session is still open."""
    try:
        session.execute("SELECT 1")
    except Exception:
        return False
    return True


@pytest.mark.parametrize(
    "call",
    [
        lambda pair: pair.resume(*GRACE).ended(0),
        lambda pair: pair.resume("--only", partition_id(1), "--recopy", *GRACE).ended(0),
        lambda pair: penstock.release(RUN_ID, target=pair.target),
        lambda pair: penstock.require_snapshot(RUN_ID, target=pair.target),
    ],
    ids=["resume", "recopy", "release", "take up"],
)
def test_a_call_that_changes_the_run_ends_an_older_session(
    pair: Pair, call: Callable[[Pair], None]
) -> None:
    pair.copy("--mode", "truncate").ended(0)
    execute(pair.target, "UPDATE penstock.run SET status = 'failed'")
    bystander = connect(pair.target, application_name="penstock:control/OTHERRUN")
    with older_session(pair) as older, closing(bystander):
        call(pair)
        assert not is_open(older)
        assert is_open(bystander)
    pair.check_resumes()


def test_a_worker_that_locks_partitions_ends_an_older_session(pair: Pair) -> None:
    """A worker's attempt waits for the run's row too, before it copies anything."""
    gates = pair.gates(2)
    run = pair.copy(*GRACE, degree=1)
    gates[0].reached()
    with closing(connect(pair.target, application_name=f"penstock:control/{RUN_ID}")) as older:
        older.execute("BEGIN")
        gates[0].open()
        # Behind the open attempt, and before all that follow.
        older.execute("SELECT FROM penstock.run WHERE run_id = %s FOR UPDATE", [RUN_ID])
        run.ended(0)
        assert not is_open(older)
    pair.check_done()


def test_a_session_of_another_program_is_left_alone(pair: Pair) -> None:
    pair.copy().ended(0)
    execute(pair.target, "UPDATE penstock.run SET status = 'failed'")
    for name in ("penstock:control/other", "psql"):
        with older_session(pair, name) as other:
            resumed = pair.resume("--grace", "1s", "--stall-timeout", "2s")
            resumed.ended(75)
            assert name in resumed.errors
            assert is_open(other)
    pair.check_resumes()


def test_a_busy_session_is_waited_for(pair: Pair) -> None:
    """A step may take hours, and only the server knows that it makes progress."""
    execute(
        pair.target,
        "CREATE TABLE go_on ()",
        """CREATE FUNCTION slow() RETURNS event_trigger LANGUAGE plpgsql AS
            'BEGIN
                WHILE NOT EXISTS (SELECT FROM public.go_on) LOOP PERFORM pg_sleep(0.1); END LOOP;
            END'""",
        """CREATE EVENT TRIGGER slow ON ddl_command_end WHEN TAG IN ('CREATE INDEX')
            EXECUTE FUNCTION slow()""",
    )
    words = ("--indexes", "defer", "--mode", "truncate")
    first = pair.copy(*words, degree=1)
    first.wait_for(StepChanged, state="started")
    # On a busy machine, the session may also be idle for a while between two statements.
    second = pair.resume("--grace", "5s")
    eventually("it waits", lambda: "waiting for session" in second.errors, PATIENCE)
    time.sleep(8)
    assert ENDED not in second.errors
    execute(pair.target, "INSERT INTO go_on DEFAULT VALUES")
    first.ended(0)
    second.ended(0)
    assert ENDED not in second.errors
    assert not first.of(StepChanged, state="retrying")
    assert first.of(Finished)
    pair.check_done()


def test_a_lock_on_the_creation_of_control_tables_fails_the_run(pair: Pair) -> None:
    with closing(connect(pair.target)) as other:
        other.execute("BEGIN")
        other.execute("SELECT pg_advisory_xact_lock(%s)", [0x50454E53])
        run = pair.copy("--stall-timeout", "2s")
        run.ended(75)
        assert "the control tables" in run.errors
        assert is_open(other)
    assert ask(pair.target, "SELECT to_regclass('penstock.run')") is None
