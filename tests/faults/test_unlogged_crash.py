"""A crash of the target's server empties an unlogged table: the run restarts by itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.backends.postgresql.definitions import definitions

from penstock.backends.postgresql.ddl.text import temporary_name
from penstock.events import Opened, Warned
from penstock_testkit import PostgresServer

from .pair import PARTITIONS, ROWS, RUN_ID, Pair, ask, execute

Servers = tuple[PostgresServer, PostgresServer]
OLD = "INSERT INTO item VALUES (-1, 'old', NULL, now(), NULL, '')"
INDEX = "CREATE INDEX item_at ON item (at)"
MODES = {
    "truncate": ("--mode", "truncate", "--unlogged"),
    "truncate, deferred": (
        "--mode", "truncate", "--unlogged", "--indexes", "defer",
    ),
    "recreate": ("--mode", "recreate", "--unlogged"),
    "swap": ("--mode", "swap", "--unlogged"),
}  # fmt: skip


def crash(server: PostgresServer) -> None:
    server.kill()
    server.start()


def stop_at_once(server: PostgresServer) -> None:
    server.restart("immediate")


@pytest.fixture
def dressed(fragile: Pair) -> Pair:
    execute(fragile.source, INDEX)
    execute(fragile.target, INDEX, OLD)
    return fragile


def check_complete(pair: Pair, before: list[str]) -> None:
    """Check that the table equals the source, is logged, and has every index."""
    pair.check_done()
    assert definitions(pair.target) == before
    assert ask(pair.target, "SELECT relpersistence::text FROM pg_class WHERE relname = 'item'") == (
        "p"
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("strike", [crash, stop_at_once])
def test_a_crash_in_mid_load_restarts_the_run(
    dressed: Pair, restartable: Servers, mode: str, strike: Callable[[PostgresServer], None]
) -> None:
    before = definitions(dressed.target)
    gates = dressed.gates(3, 4)
    run = dressed.copy(*MODES[mode])
    for gate in gates:
        gate.reached()
    assert len(dressed.attempts()) == 2
    strike(restartable[1])
    for gate in gates:
        gate.open()
    run.ended(0)
    (warned,) = run.of(Warned)
    assert "started over" in warned.message
    # Partitions committed before the crash were copied again.
    assert len([event for event in run.of(Opened) if event.partition_id == "p0001"]) == 2
    assert dressed.status().run.generation == 2
    check_complete(dressed, before)


@pytest.mark.parametrize("mode", MODES)
def test_a_crash_between_two_executions_restarts_the_run(
    dressed: Pair, restartable: Servers, mode: str
) -> None:
    before = definitions(dressed.target)
    gates = dressed.gates(3, 4)
    run = dressed.copy(*MODES[mode])
    for gate in gates:
        gate.reached()
    run.kill()
    dressed.check_no_worker_left()
    for gate in gates:
        gate.open()
    dressed.check_nothing_left()
    assert len(dressed.attempts()) == 2
    crash(restartable[1])
    resumed = dressed.check_resumes()
    assert len(resumed.opened()) == PARTITIONS
    check_complete(dressed, before)


# A stored plan holds the statement too, but its quotes have a backslash.
_BESIDE = f'"{temporary_name(RUN_ID, "item")}" SET LOGGED'.encode()
SET_LOGGED = {
    "truncate, deferred": b'"item" SET LOGGED',
    "recreate": _BESIDE,
    "swap": _BESIDE,
}


@pytest.mark.parametrize("mode", SET_LOGGED)
@pytest.mark.parametrize("killed", [False, True])
def test_a_crash_between_the_load_and_its_final_steps(
    dressed: Pair, restartable: Servers, mode: str, killed: bool
) -> None:
    """Every partition is committed, but the table is not logged yet."""
    before = definitions(dressed.target)
    gate = dressed.gate_at(SET_LOGGED[mode])
    run = dressed.copy(*MODES[mode])
    gate.reached()
    assert len(dressed.attempts()) == PARTITIONS
    if killed:
        run.kill()
    crash(restartable[1])
    gate.open()
    if killed:
        assert len(dressed.check_resumes().opened()) == PARTITIONS
    else:
        run.ended(0)
        assert len(run.opened()) == 2 * PARTITIONS
    check_complete(dressed, before)


def test_a_crash_after_the_table_is_logged_loses_no_rows(
    dressed: Pair, restartable: Servers
) -> None:
    """Only the indexes are missing: they are built, and no row is copied again."""
    before = definitions(dressed.target)
    gate = dressed.gate_at(b'CREATE INDEX "item_at" ON')
    run = dressed.copy(*MODES["truncate, deferred"])
    gate.reached()
    run.kill()
    gate.open()
    dressed.check_nothing_left()
    crash(restartable[1])
    assert ask(dressed.target, "SELECT count(*) FROM item") == ROWS
    resumed = dressed.check_resumes()
    assert resumed.opened() == []
    check_complete(dressed, before)


def test_a_target_that_was_unlogged_before_is_loaded_again(
    dressed: Pair, restartable: Servers
) -> None:
    """In mode append too: a crash removes this run's rows, so they are loaded again."""
    execute(dressed.target, "ALTER TABLE item SET UNLOGGED", "DELETE FROM item")
    gates = dressed.gates(3, 4)
    run = dressed.copy()
    for gate in gates:
        gate.reached()
    crash(restartable[1])
    for gate in gates:
        gate.open()
    run.ended(0)
    assert dressed.status().run.generation == 2
    dressed.check_done()


def test_sequences_keep_their_values(dressed: Pair, restartable: Servers) -> None:
    """If the table were unlogged, they would return to their start, and repeat values."""
    for url in (dressed.source, dressed.target):
        execute(url, "ALTER TABLE item ADD number bigint GENERATED BY DEFAULT AS IDENTITY")
    execute(dressed.target, "SELECT setval('item_number_seq', 4711)")
    gates = dressed.gates(3, 4)
    run = dressed.copy(*MODES["truncate"], "--sequences", "keep")
    for gate in gates:
        gate.reached()
    crash(restartable[1])
    for gate in gates:
        gate.open()
    run.ended(0)
    dressed.check_done()
    assert ask(dressed.target, "SELECT nextval('item_number_seq')") == 4712
