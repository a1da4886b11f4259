"""SIGKILL at each step of recreate, swap and deferred indexes: unchanged, or completed by `resume`.

A gate holds the step's statement on its way to the server, after all earlier steps; or it holds the
server's answer, so that the step is done but not committed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from signal import SIGKILL

import pytest
from tests.backends.postgresql.definitions import definitions

from penstock.backends.postgresql.ddl.text import temporary_name
from penstock.events import StepChanged
from penstock_testkit.proxy import Direction

from .cli import PATIENCE, eventually
from .pair import ROWS, RUN_ID, Pair, ask, connect, execute

PARTS = (
    "CREATE INDEX item_at ON item (at) WHERE id > 9",
    "ALTER TABLE item ADD CONSTRAINT item_note UNIQUE (note, id) DEFERRABLE",
    "COMMENT ON TABLE item IS 'items'",
    "COMMENT ON INDEX item_at IS 'times'",
    "CREATE STATISTICS item_both ON id, note FROM item",
)
OLD = "INSERT INTO item VALUES (-1, 'old', NULL, now(), NULL, '')"

# Needles that no stored plan contains, since quotes have a backslash there.
CREATE: dict[str, tuple[bytes, Direction]] = {
    "create": (b'CREATE TABLE "public"."item" (', "to_server"),
    "build the key": (b'CREATE UNIQUE INDEX "item_pkey" ', "to_server"),
    "build another": (b'CREATE INDEX "item_at" ', "to_server"),
    "add the key": (b'ADD CONSTRAINT "item_pkey" ', "to_server"),
    "add another": (b'ADD CONSTRAINT "item_note" ', "to_server"),
    "complete": (b'CREATE STATISTICS "public"."item_both"', "to_server"),
}
SWAP: dict[str, tuple[bytes, Direction]] = {
    "drop": (b'DROP TABLE IF EXISTS "public"."item__penstock_', "to_server"),
    "create": (b'CREATE TABLE "public"."item__penstock_', "to_server"),
    "build the key": (b'CREATE UNIQUE INDEX "item_pkey__penstock_', "to_server"),
    "build another": (b'CREATE INDEX "item_at__penstock_', "to_server"),
    "add the key": (b'ADD CONSTRAINT "item_pkey__penstock_', "to_server"),
    "add another": (b'ADD CONSTRAINT "item_note__penstock_', "to_server"),
    "complete": (b'CREATE STATISTICS "public"."item_both__penstock_', "to_server"),
    "exchange": (b'LOCK TABLE ONLY "public"."item"', "to_server"),
    "exchanged, not committed": (b"LOCK TABLE\x00", "to_client"),
}
# Planning creates statistics too, under another name.
_STATISTICS = f'CREATE STATISTICS "public"."{temporary_name(RUN_ID, "item_both")}"'
RECREATE: dict[str, tuple[bytes, Direction]] = {
    **SWAP,
    "complete": (_STATISTICS.encode(), "to_server"),
    "exchange": (b'DROP TABLE IF EXISTS "public"."item"', "to_server"),
    "exchanged, not committed": (b"DROP TABLE\x00", "to_client"),
}
DEFER: dict[str, tuple[bytes, Direction]] = {
    "drop the key": (b'DROP CONSTRAINT IF EXISTS "item_pkey"', "to_server"),
    "drop another": (b'DROP INDEX IF EXISTS "public"."item_at"', "to_server"),
    "dropped, not committed": (b"DROP INDEX\x00", "to_client"),
    "build the key": (b'CREATE UNIQUE INDEX "item_pkey" ', "to_server"),
    "build another": (b'CREATE INDEX "item_at" ', "to_server"),
    "built, not committed": (b"CREATE INDEX\x00", "to_client"),
    "add the key": (b'ADD CONSTRAINT "item_pkey" ', "to_server"),
    "add another": (b'ADD CONSTRAINT "item_note" ', "to_server"),
}
FIRST = ("create", "drop the key", "drop another", "dropped, not committed")


def kill_at(pair: Pair, needle: bytes, direction: Direction, *words: str, degree: int = 2) -> None:
    gate = pair.gate_at(needle, direction)
    run = pair.copy(*words, degree=degree)
    gate.reached()
    run.signal_all(SIGKILL)
    run.ended(-SIGKILL)
    gate.open()
    pair.check_nothing_left()


def old_rows(pair: Pair) -> int:
    found: int = ask(pair.target, "SELECT count(*) FROM item WHERE note = 'old'")
    return found


@pytest.mark.parametrize("step", CREATE)
def test_a_table_that_recreate_makes_is_resumed_after_a_kill_at_any_step(
    pair: Pair, step: str
) -> None:
    execute(pair.source, *PARTS)
    execute(pair.target, "DROP TABLE item")
    kill_at(pair, *CREATE[step], "--mode", "recreate")
    if step not in FIRST:
        assert ask(pair.target, "SELECT count(*) FROM item") == ROWS
    pair.check_resumes()
    assert definitions(pair.target) == definitions(pair.source)


@contextmanager
def reading(pair: Pair) -> Iterator[set[tuple[int, int]]]:
    """Count all rows and the old ones, repeatedly."""
    seen: set[tuple[int, int]] = set()
    ended = threading.Event()

    def read() -> None:
        with closing(connect(pair.target)) as connection:
            while not ended.is_set():
                found = connection.execute(
                    "SELECT count(*), count(*) FILTER (WHERE note = 'old') FROM item"
                ).fetchone()
                assert found is not None
                seen.add((found[0], found[1]))

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join(PATIENCE)


@pytest.mark.parametrize("step", RECREATE)
def test_recreate_keeps_the_old_table_until_the_new_one_is_complete(pair: Pair, step: str) -> None:
    execute(pair.source, *PARTS)
    execute(pair.target, "DROP TABLE item", "CREATE TABLE item (note text)")
    execute(pair.target, "INSERT INTO item VALUES ('old')")
    before = definitions(pair.target, "public.item")
    with reading(pair) as seen:
        kill_at(pair, *RECREATE[step], "--mode", "recreate")
        assert seen == {(1, 1)}
        assert definitions(pair.target, "public.item") == before
        pair.check_resumes()
        eventually("the reader sees the new rows", lambda: (ROWS, 0) in seen, PATIENCE)
    assert seen == {(1, 1), (ROWS, 0)}
    assert definitions(pair.target) == definitions(pair.source)


@pytest.mark.parametrize("step", SWAP)
def test_swap_is_resumed_after_a_kill_at_any_step(pair: Pair, step: str) -> None:
    execute(pair.target, *PARTS, OLD)
    before, of_item = definitions(pair.target), definitions(pair.target, "public.item")
    with reading(pair) as seen:
        kill_at(pair, *SWAP[step], "--mode", "swap")
        assert seen == {(1, 1)}
        assert old_rows(pair) == 1
        assert definitions(pair.target, "public.item") == of_item
        pair.check_resumes()
        eventually("the reader sees the new rows", lambda: (ROWS, 0) in seen, PATIENCE)
    assert seen == {(1, 1), (ROWS, 0)}
    assert definitions(pair.target) == before


def test_swap_is_resumed_after_a_kill_while_it_waits_for_a_reader(pair: Pair) -> None:
    execute(pair.target, *PARTS, OLD)
    before = definitions(pair.target)
    with closing(connect(pair.target)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT FROM item")
        run = pair.copy("--mode", "swap")
        run.wait_for(StepChanged, step_id="swap", state="retrying")
        run.signal_all(SIGKILL)
        run.ended(-SIGKILL)
        assert old_rows(pair) == 1
    pair.check_resumes()
    assert definitions(pair.target) == before


@pytest.mark.parametrize("step", DEFER)
def test_deferred_indexes_are_restored_after_a_kill_at_any_step(pair: Pair, step: str) -> None:
    execute(pair.target, *PARTS)
    before = definitions(pair.target)
    words = ("--mode", "append", "--indexes", "defer")
    kill_at(pair, *DEFER[step], *words)
    if step in FIRST:
        assert definitions(pair.target) == before
    else:
        assert definitions(pair.target) != before
        assert ask(pair.target, "SELECT count(*) FROM item") == ROWS
    pair.check_resumes()
    assert definitions(pair.target) == before


def test_deferred_indexes_are_restored_after_a_kill_in_mid_copy(pair: Pair) -> None:
    execute(pair.target, *PARTS)
    before = definitions(pair.target)
    gates = pair.gates(3, 4)
    run = pair.copy("--mode", "truncate", "--indexes", "defer")
    for gate in gates:
        gate.reached()
    run.kill()
    for gate in gates:
        gate.open()
    assert ask(pair.target, "SELECT count(*) FROM pg_indexes WHERE tablename = 'item'") == 0
    pair.check_resumes()
    assert definitions(pair.target) == before


def test_an_index_build_is_repeated_after_a_kill(pair: Pair) -> None:
    """The server ends the build when its client is gone, and discards the unfinished index."""
    execute(pair.target, *PARTS)
    before = definitions(pair.target)
    with closing(connect(pair.target)) as writer:
        run = pair.copy("--indexes", "defer")
        run.wait_for(StepChanged, state="started")
        run.kill()
        writer.execute("SELECT 1")
    pair.check_resumes()
    assert definitions(pair.target) == before
