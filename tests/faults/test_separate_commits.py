"""SIGKILL and SIGSTOP around steps whose record is a transaction of its own.

Changes that cannot be undone together are repeated: `resume` completes the run, wherever it was
killed.
"""

from __future__ import annotations

import signal
from pathlib import Path
from signal import SIGKILL

import pytest
from tests.backends.postgresql.definitions import definitions

from penstock.backends.postgresql.records import PostgresRecords
from penstock_testkit.proxy import Direction

from . import separate_commits
from .cli import PATIENCE, Run, eventually
from .gate import Gate
from .pair import Pair, ask, execute
from .test_killed_steps import DEFER, OLD, PARTS, RECREATE, SWAP, kill_at
from .test_stopped_steps import ENDED, GRACE, stop_at

RECORD = b'"step_record" (run_id, step_id'
PREPARED = b"SET prepared_at = "
RECORDS: dict[str, tuple[bytes, Direction]] = {
    "prepared, not recorded": (PREPARED, "to_server"),
    "a step done, not recorded": (RECORD, "to_server"),
}


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "script", Path(separate_commits.__file__).read_text())
    monkeypatch.setattr(PostgresRecords, "steps_with_records", False)


@pytest.mark.parametrize("step", [*RECREATE, *RECORDS])
def test_recreate_with_separate_records_is_resumed_after_a_kill(pair: Pair, step: str) -> None:
    execute(pair.source, *PARTS)
    execute(pair.target, "DROP TABLE item", "CREATE TABLE item (note text)")
    kill_at(pair, *(RECREATE | RECORDS)[step], "--mode", "recreate")
    pair.check_resumes()
    assert definitions(pair.target) == definitions(pair.source)


@pytest.mark.parametrize("step", [*SWAP, *RECORDS])
def test_swap_with_separate_records_is_resumed_after_a_kill(pair: Pair, step: str) -> None:
    execute(pair.target, *PARTS, OLD)
    before = definitions(pair.target)
    kill_at(pair, *(SWAP | RECORDS)[step], "--mode", "swap")
    assert ask(pair.target, "SELECT count(*) FROM item WHERE note = 'old'") == 1
    pair.check_resumes()
    assert definitions(pair.target) == before


@pytest.mark.parametrize("step", [*DEFER, *RECORDS])
def test_deferred_indexes_with_separate_records_are_restored_after_a_kill(
    pair: Pair, step: str
) -> None:
    execute(pair.target, *PARTS)
    before = definitions(pair.target)
    words = ("--mode", "append", "--indexes", "defer")
    kill_at(pair, *(DEFER | RECORDS)[step], *words)
    pair.check_resumes()
    assert definitions(pair.target) == before


def killable(run: Run, gate: Gate) -> bool:
    """Whether a run reaches a gate before it ends."""
    eventually("it ends", lambda: gate.is_reached() or run.has_ended(), PATIENCE)
    return gate.is_reached()


@pytest.mark.parametrize("mode", ["recreate", "swap", "append"])
def test_a_run_killed_between_each_step_and_its_record_is_resumed(pair: Pair, mode: str) -> None:
    """The step is found done, and the run continues with the next one.

    A verification finds the rows where the step has put them.
    """
    execute(pair.source, *PARTS)
    execute(pair.target, *PARTS)
    expected = definitions(pair.source)
    words = ("--indexes", "defer") if mode == "append" else ()
    kill_at(pair, RECORD, "to_server", "--mode", mode, *words, degree=1)
    killed = 1
    while True:
        pair.check_verifies()
        gate = pair.gate_at(RECORD, skip=1)  # the record of the completed step
        run = pair.resume()
        if not killable(run, gate):
            break
        run.signal_all(SIGKILL)
        run.ended(-SIGKILL)
        gate.open()
        pair.check_nothing_left()
        killed += 1
    run.ended(0)
    steps = ask(pair.target, "SELECT count(*) FROM penstock.step_record")
    assert killed == steps >= 4
    assert definitions(pair.target) == expected
    pair.check_done()


@pytest.mark.parametrize(
    ("needle", "direction", "words"),
    [
        (b"TRUNCATE TABLE\x00", "to_client", ("--mode", "truncate")),
        (PREPARED, "to_server", ("--mode", "truncate")),
        (b"DROP TABLE\x00", "to_client", ("--mode", "recreate")),
        (b'CREATE UNIQUE INDEX "item_pkey__penstock_', "to_server", ("--mode", "swap")),
        (b"LOCK TABLE\x00", "to_client", ("--mode", "swap")),
        (RECORD, "to_server", ("--mode", "swap")),
    ],
)
def test_a_process_stopped_around_a_step_does_no_harm(
    pair: Pair, needle: bytes, direction: Direction, words: tuple[str, ...]
) -> None:
    """A stopped process changes nothing in the table once another has continued."""
    wake = stop_at(pair, needle, direction, *words, "--verify", "counts")
    resumed = pair.resume(*GRACE)
    resumed.ended(0)
    assert resumed.finished.status == "done"
    assert ENDED in resumed.errors
    pair.check_content()
    wake()
    pair.check_content()
    pair.check_resumes()


def test_a_run_killed_while_it_starts_over_is_resumed(pair: Pair) -> None:
    words = ("--on-snapshot-lost", "restart")
    gates = pair.gates(2)
    first = pair.copy("--mode", "truncate", *words, degree=1)
    gates[0].reached()
    first.signal_all(SIGKILL)
    first.ended(-SIGKILL)
    gates[0].open()
    execute(pair.source, "UPDATE item SET note = note WHERE id = 1")
    gate = pair.gate_at(PREPARED)
    again = pair.resume(*words)
    gate.reached()
    assert ask(pair.target, "SELECT generation FROM penstock.run") == 2
    again.signal_all(signal.SIGKILL)
    again.ended(-SIGKILL)
    gate.open()
    pair.check_resumes(*words)
