"""Two runs on one table, and a session that empties it: no run ends as done with wrong rows."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.backends.postgresql.ddl.text import temporary_name
from penstock.events import Committed, Failed, Opened

from .cli import PATIENCE, Run
from .pair import DEFINITION, ROWS, RUN_ID, Pair, ask, execute

WITHOUT_KEY = "ALTER TABLE item DROP CONSTRAINT item_pkey"
FRESH = ("truncate", "recreate", "swap")
# Both select every row, but their texts do not show it.
EVERY, EACH = "id > 0", "id >= 1"
# `PENSTOCK_ORDERS=500` tries many more than the suite does, `PENSTOCK_ORDERS=54:55` one of them.
SEEDS = range(*(int(bound) for bound in os.environ.get("PENSTOCK_ORDERS", "12").split(":")))


def start_other_run(pair: Pair, mode: str, *words: str) -> Run:
    """Start another run on the same table, with a different cut."""
    key = ("--key", "id") if mode in ("replace", "upsert") else ()
    return pair.copy(
        *("--run-id", "other", "--mode", mode, *key, *words), strategy="range", partitions=5
    )


def first(pair: Pair, mode: str, *words: str) -> Run:
    key = ("--key", "id") if mode in ("replace", "upsert") else ()
    return pair.copy("--mode", mode, *key, *words, strategy="range")


@pytest.mark.parametrize(
    ("mode", "second"),
    [
        ("truncate", "truncate"),
        ("truncate", "append"),
        ("append", "truncate"),
        ("recreate", "recreate"),
        ("swap", "replace"),
        ("append", "swap"),
        ("replace", "replace"),
        ("replace", "append"),
        ("upsert", "replace"),
    ],
)
def test_a_second_run_is_rejected_while_the_first_is_running(
    pair: Pair, mode: str, second: str
) -> None:
    if "upsert" not in (mode, second):
        execute(pair.target, WITHOUT_KEY)
    gates = pair.gates(1, 2)
    running = first(pair, mode)
    for gate in gates:
        gate.reached()
    refused = start_other_run(pair, second)
    refused.ended(75)
    assert "run faults (--mode " in refused.errors
    assert not refused.of(Opened)
    for gate in gates:
        gate.open()
    running.ended(0)
    pair.check_done()
    if second != "append":
        start_other_run(pair, second).ended(0)
        pair.check_content()


def test_two_runs_may_append_at_once(pair: Pair) -> None:
    execute(pair.target, WITHOUT_KEY)
    gates = pair.gates(1, 2)
    running = first(pair, "append")
    for gate in gates:
        gate.reached()
    for gate in gates:
        gate.open()
    start_other_run(pair, "append").ended(0)
    running.ended(0)
    assert ask(pair.target, "SELECT count(*) FROM item") == 2 * ROWS


@pytest.mark.parametrize("second", FRESH)
@pytest.mark.parametrize(
    ("mode", "committed"),
    [("append", True), ("truncate", True), ("truncate", False), ("recreate", True)],
)
def test_a_killed_run_cannot_continue_after_another_emptied_its_table(
    pair: Pair, mode: str, committed: bool, second: str
) -> None:
    gates = pair.gates(3) if committed else pair.gates(1, 2)
    killed = first(pair, mode)
    for gate in gates:
        gate.reached()
    if committed:
        killed.wait_for(Committed)
    killed.kill()
    pair.check_no_worker_left()
    for gate in gates:
        gate.open()
    pair.check_nothing_left()
    start_other_run(pair, second).ended(0)
    again = pair.resume()
    again.ended(65)
    how = "by run other"
    if mode == "recreate":
        # A run that replaces the table drops what the killed one has built beside it.
        beside = second in ("recreate", "swap")
        how = "is gone: the next run that" if beside else "run other loaded rows into"
    assert how in again.errors
    assert "start a new run" in again.errors
    assert not again.of(Opened)
    pair.check_content()


@pytest.mark.parametrize("mode", ["truncate", "recreate"])
def test_two_runs_killed_before_their_first_commit(pair: Pair, mode: str) -> None:
    """The first would load into an empty table, and so would the second after it.

    If each builds a table beside, the second one drops what the first has left.
    """
    execute(pair.target, WITHOUT_KEY)
    # The two streams that each run starts with.
    for start, rows_at_gates in ((first, (1, 2)), (start_other_run, (1, 3))):
        gates = pair.gates(*rows_at_gates)
        killed = start(pair, mode)
        for gate in gates:
            gate.reached()
        killed.kill()
        pair.check_no_worker_left()
        for gate in gates:
            gate.open()
        pair.check_nothing_left()
    again = pair.resume()
    again.ended(65)
    assert ("by run other" if mode == "truncate" else "is gone: the next run") in again.errors
    assert "start a new run" in again.errors
    assert not again.of(Opened)
    start_other_run(pair, mode).ended(0)
    pair.check_content()


@pytest.mark.parametrize("mode", ["append", "truncate", "recreate"])
def test_a_killed_run_cannot_continue_after_another_replaced_its_rows(
    pair: Pair, mode: str
) -> None:
    """The remaining rows of the first run would be added to those of the second."""
    execute(pair.target, WITHOUT_KEY)
    gates = pair.gates(1, 2)
    killed = first(pair, mode)
    for gate in gates:
        gate.reached()
    killed.kill()
    pair.check_no_worker_left()
    for gate in gates:
        gate.open()
    pair.check_nothing_left()
    start_other_run(pair, "replace").ended(0)
    again = pair.resume()
    again.ended(65)
    in_place = "run other (--mode replace) loaded the same rows"
    assert ("run other loaded rows into" if mode == "recreate" else in_place) in again.errors
    pair.check_content()


@pytest.mark.parametrize(
    "change",
    [
        ("TRUNCATE item",),
        ("DROP TABLE item", DEFINITION),
        ("ALTER TABLE item RENAME TO was", DEFINITION),
        ("BEGIN; CREATE TABLE more (LIKE item); DROP TABLE item; "
         "ALTER TABLE more RENAME TO item; COMMIT",),
    ],
)  # fmt: skip
def test_a_table_changed_between_two_executions(pair: Pair, change: tuple[str, ...]) -> None:
    gates = pair.gates(3)
    killed = pair.copy()
    gates[0].reached()
    killed.wait_for(Committed)
    killed.kill()
    gates[0].open()
    pair.check_nothing_left()
    execute(pair.target, *change)
    again = pair.resume()
    again.ended(65)
    assert "after run faults was prepared" in again.errors
    assert not again.of(Opened)


def test_a_table_emptied_while_it_is_loaded(pair: Pair) -> None:
    """Attempts lock the table; a later one finds it empty."""
    gates = pair.gates(3)
    running = pair.copy("--attempts", "2", degree=1)
    gates[0].reached()
    with ThreadPoolExecutor(1) as pool:
        emptying = pool.submit(execute, pair.target, "TRUNCATE item")
        pair.waiting_for_lock("target", 1)
        gates[0].open()
        emptying.result(60)
    running.ended(65)
    assert "was truncated or rewritten" in running.errors
    assert pair.status().run.status == "failed"


def test_vacuum_full_loses_no_rows(pair: Pair) -> None:
    gates = pair.gates(3)
    killed = pair.copy()
    gates[0].reached()
    killed.wait_for(Committed)
    killed.kill()
    gates[0].open()
    pair.check_nothing_left()
    execute(pair.target, "VACUUM FULL item")
    pair.check_resumes()


@pytest.mark.parametrize(
    ("mode", "words"), [("truncate", ("--on-snapshot-lost", "restart")), ("swap", ())]
)
def test_rows_that_others_have_loaded_since_are_kept(
    pair: Pair, mode: str, words: tuple[str, ...]
) -> None:
    execute(pair.target, WITHOUT_KEY)
    gates = pair.gates(3)
    killed = first(pair, mode)
    gates[0].reached()
    killed.wait_for(Committed)
    killed.kill()
    gates[0].open()
    pair.check_nothing_left()
    start_other_run(pair, "append").ended(0)
    if mode == "truncate":  # so that a snapshot is needed
        execute(pair.source, "UPDATE item SET note = note WHERE id = 1")
    before = ask(pair.target, "SELECT count(*) FROM item")
    again = pair.resume(*words)
    again.ended(65)
    assert "run other loaded rows into public.item after" in again.errors
    assert ask(pair.target, "SELECT count(*) FROM item") == before


def test_swap_waits_for_an_attempt_of_an_invisible_run(pair: Pair) -> None:
    """The attempt has rows in the table before swap can lock it, and commits them first."""
    execute(pair.target, WITHOUT_KEY)
    gates = pair.gates(2)
    append = pair.copy("--mode", "append", degree=1, partitions=1)
    gates[0].reached()
    append.signal_all(signal.SIGSTOP)
    # All its sessions except the one that loads, so the run does not appear to be alive.
    idle = """
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name LIKE 'penstock:%' AND datname = current_database()
            AND state = 'idle'
    """
    execute(pair.target, idle)
    gates[0].open()
    swap = start_other_run(pair, "swap")
    pair.waiting_for_lock("target", 1)
    append.signal_all(signal.SIGCONT)
    codes = [run.popen.wait(PATIENCE) for run in (swap, append)]
    assert codes == [65, 0], swap.errors + append.errors
    assert "run faults loaded rows into public.item after" in swap.errors
    pair.check_content()


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize(
    ("mine", "theirs"),
    [(("--where", EVERY), ("--where", EACH)), ((), ("--control-schema", "elsewhere"))],
    ids=["conditions", "control schemas"],
)
def test_two_runs_replace_the_same_rows_at_once(
    pair: Pair, mine: tuple[str, ...], theirs: tuple[str, ...], keyed: bool
) -> None:
    """Both delete before either commits, so each may miss the rows of the other."""
    if not keyed:
        execute(pair.target, WITHOUT_KEY)
    gates = [] if keyed else pair.gates(2)
    running = first(pair, "replace", *mine)
    for gate in gates:
        gate.reached()
    other_run = start_other_run(pair, "replace", *theirs)
    if gates:
        # All its partitions, except the one that reads the same row, are committed after the first
        # run's.
        other_run.wait_for(Committed, count=3)
    for gate in gates:
        gate.open()
    for run in (running, other_run):
        run.popen.wait(90)
    # With a unique key, a run fails if it meets a row of the other run; it can be resumed.
    assert {running.popen.returncode, other_run.popen.returncode} <= ({0, 65} if keyed else {0})
    first(pair, "replace", *mine).ended(0)
    start_other_run(pair, "replace", *theirs).ended(0)
    pair.check_content()


@pytest.mark.parametrize(
    "keeping",
    [
        "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
        "CREATE TRIGGER keep BEFORE DELETE ON item FOR EACH ROW EXECUTE FUNCTION keep()",
        "CREATE RULE keep AS ON DELETE TO item DO INSTEAD NOTHING",
    ],
    ids=["trigger", "rule"],
)
def test_rows_that_the_target_does_not_delete(pair: Pair, keeping: str) -> None:
    execute(pair.target, WITHOUT_KEY)
    first(pair, "replace").ended(0)
    execute(pair.target, keeping)
    again = start_other_run(pair, "replace")
    again.ended(65)
    failed = again.of(Failed)
    assert failed
    assert all("are still there after the deletion" in event.error["message"] for event in failed)
    pair.check_content()


@pytest.mark.parametrize("seed", SEEDS)
def test_two_runs_in_random_orders(pair: Pair, seed: int) -> None:
    """Two runs with different cuts, started and killed at moments that a seed determines.

    A run that ends as done has its rows in the table, each once; and at least one run gets there.
    """
    chance = random.Random(seed)
    modes = [chance.choice(("truncate", "recreate", "swap", "replace")) for _ in range(2)]
    if chance.random() < 0.7:
        execute(pair.target, WITHOUT_KEY)
    runs = []
    for start, mode in zip((first, start_other_run), modes, strict=True):
        runs.append(start(pair, mode))
        time.sleep(chance.choice((0.0, 0.1, 0.5, 1.2)))
    for run in runs:
        if chance.random() < 0.4:
            time.sleep(chance.random())
            run.kill()
    for run in runs:
        run.popen.wait(90)
    pair.check_nothing_left()
    codes = [run.popen.returncode for run in runs]
    details = json.dumps({"modes": modes, "codes": codes, "errors": [run.errors for run in runs]})
    if codes == [0, 0]:
        pair.check_content()
    # Runs that are not done try again, one after the other.
    for start, run, mode in zip((first, start_other_run), runs, modes, strict=True):
        if run.popen.returncode != 0:
            repeated = start(pair, mode)
            repeated.popen.wait(90)
            codes.append(repeated.popen.returncode)
            assert repeated.popen.returncode in (0, 65), details + repeated.errors
            if repeated.popen.returncode == 0:
                pair.check_content()
    assert 0 in codes, details
    pair.check_content()


@pytest.mark.parametrize("verify", ["none", "counts", "checksums"])
@pytest.mark.parametrize("mode", ["truncate", "append", "recreate", "replace"])
def test_a_verification_finds_rows_deleted_while_the_table_is_loaded(
    pair: Pair, mode: str, verify: str
) -> None:
    """Only a verification counts the rows."""
    gates = pair.gates(4)
    running = first(pair, mode, "--verify", verify)
    gates[0].reached()
    running.wait_for(Committed, partition_id="p0001")
    table = temporary_name(RUN_ID, "item") if mode == "recreate" else "item"
    execute(pair.target, f"DELETE FROM {table} WHERE id < 1000")
    gates[0].open()
    running.ended(0 if verify == "none" else 65)
    assert verify == "none" or "the target has" in running.errors
