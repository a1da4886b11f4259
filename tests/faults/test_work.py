"""Several processes work on one run: each takes partitions, one finishes, none ends before."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pyarrow import parquet

import penstock
from penstock.events import (
    Committed,
    Opened,
    Prepared,
    SnapshotChanged,
    StepChanged,
    Verified,
    Waiting,
)

from .cli import PATIENCE, Run, eventually
from .gate import Gate
from .pair import (
    PARTITIONS,
    ROWS,
    RUN_ID,
    Pair,
    ask,
    connect,
    digest,
    execute,
    middle,
    partition_id,
)

PLAN = ("--table", "public.item", "--strategy", "ctid", "--partitions", str(PARTITIONS))
ALL = range(1, PARTITIONS + 1)


def committed(runs: Sequence[Run]) -> list[str]:
    """Return the partitions that these processes have committed themselves, sorted."""
    return sorted(event.partition_id for run in runs for event in run.of(Committed, already=False))


def end(pair: Pair, runs: Sequence[Run]) -> None:
    for run in runs:
        run.ended(0)
        assert run.finished.status == "done"
    pair.check_done()


def test_each_takes_partitions_that_no_other_is_copying(pair: Pair) -> None:
    gates = pair.gates(*ALL)
    runs = [pair.work(*PLAN, streams=2), pair.work("--wait", "60s", streams=6)]
    for gate in gates:
        gate.reached()
    for gate in gates:
        gate.open()
    end(pair, runs)
    assert [len(run.of(Committed, already=False)) for run in runs] == [2, 6]
    assert committed(runs) == [partition_id(n) for n in ALL]
    assert sum(len(run.of(Opened)) for run in runs) == PARTITIONS


def test_no_process_ends_before_the_run_is_done(pair: Pair) -> None:
    gate = pair.gates(3)[0]
    first = pair.work(*PLAN, streams=1)
    first.wait_for(Opened)
    others = [pair.work("--wait", "60s") for _ in range(2)]
    gate.reached()
    eventually("the others have copied the rest", lambda: len(pair.attempts()) == 7, PATIENCE)
    time.sleep(3)
    assert not any(run.has_ended() for run in (first, *others))
    gate.open()
    end(pair, [first, *others])


def test_one_finishes_while_the_others_wait(pair: Pair) -> None:
    pair.create("--mode", "recreate")  # the plan has the needle, too
    pair.proxy("target")
    gate = pair.gate_at(b"CREATE UNIQUE INDEX")
    runs = [pair.work() for _ in range(3)]
    gate.reached()
    time.sleep(2)
    assert not [run.errors for run in runs if run.has_ended()]
    gate.open()
    for run in runs:
        run.ended(0)
    steps = [run.of(StepChanged, state="done") for run in runs]
    assert sorted(map(bool, steps)) == [False, False, True]
    pair.check_done()


def test_another_finishes_if_the_one_that_has_begun_is_killed(pair: Pair) -> None:
    pair.create("--mode", "recreate")
    pair.proxy("target")
    gate = pair.gate_at(b"CREATE UNIQUE INDEX")
    runs = [pair.work("--grace", "1s") for _ in range(3)]
    gate.reached()
    eventually(
        "the steps have begun",
        lambda: any(run.of(StepChanged, state="started") for run in runs),
        PATIENCE,
    )
    (finishing,) = [run for run in runs if run.of(StepChanged, state="started")]
    finishing.signal_all(signal.SIGKILL)
    gate.open()
    end(pair, [run for run in runs if run is not finishing])


# Whom a process waits for


def named(run: Run, count: int = 1) -> list[tuple[str, int, str, tuple[str, ...]]]:
    """Return whom a process has told that it waits for, once it has told so `count` times."""
    event = run.wait_for(Waiting, count=count)
    return [(each.host, each.pid, each.what, each.partition_ids) for each in event.others]


def test_a_process_that_waits_names_the_one_that_is_stopped_while_it_finishes(pair: Pair) -> None:
    """It is stopped while it builds an index: killing it there lets another finish the run."""
    pair.create("--mode", "recreate")
    pair.proxy("target")
    gate = pair.gate_at(b"CREATE UNIQUE INDEX")
    runs = [pair.work(), pair.work()]
    gate.reached()
    eventually("one finishes", lambda: any(run.of(StepChanged) for run in runs), PATIENCE)
    runs.sort(key=lambda run: bool(run.of(StepChanged)))
    waiting, finishing = runs
    assert named(waiting) == [(socket.gethostname(), finishing.pid, "finishing", ())]
    finishing.signal_all(signal.SIGSTOP)
    gate.open()
    late = pair.work()
    assert named(late) == [(socket.gethostname(), finishing.pid, "finishing", ())]
    assert len(waiting.of(Waiting)) == 1
    finishing.signal_all(signal.SIGKILL)
    end(pair, [waiting, late])
    assert not finishing.of(Waiting)
    journals = ask(
        pair.target, "SELECT count(*) FROM penstock.journal WHERE content->>'status' = 'running'"
    )
    assert journals == 1  # of the one that was killed


def test_a_process_that_waits_names_those_that_copy_the_last_partitions(pair: Pair) -> None:
    gates = pair.gates(3, 5)
    first = pair.work(*PLAN, streams=8)
    for gate in gates:
        gate.reached()
    second = pair.work(streams=1)
    copying = (socket.gethostname(), first.pid, "copying")
    assert named(second) == [(*copying, ("p0003", "p0005"))]
    time.sleep(8)
    assert len(second.of(Waiting)) == 1
    gates[0].open()
    assert named(second, count=2) == [(*copying, ("p0005",))]
    gates[1].open()
    end(pair, [first, second])
    since = second.of(Waiting)[0].others[0].since
    opened = min(first.of(Opened, partition_id=each)[0].at for each in ("p0003", "p0005"))
    assert abs(datetime.fromisoformat(since) - datetime.fromisoformat(opened)) < timedelta(
        seconds=2
    )


@pytest.mark.parametrize("all_at_once", [False, True])
def test_the_snapshot_outlives_the_process_that_took_it(pair: Pair, *, all_at_once: bool) -> None:
    """Each process holds it, too: the source is written to, and the third reads the old rows."""
    gates = pair.gates(1, 2, 3, 4)
    first = pair.work(*PLAN, streams=1)
    assert first.wait_for(SnapshotChanged).state == "taken"
    first.wait_for(Opened)
    second = pair.work("--grace", "1s", streams=1)
    assert second.wait_for(SnapshotChanged).state == "adopted"
    with connect(pair.source) as source:
        expected = digest(source)
    execute(
        pair.source,
        "UPDATE item SET note = note || 'later'",
        "DELETE FROM item WHERE id % 10 = 0",
    )
    third = pair.work("--grace", "1s", streams=1) if all_at_once else None
    if third is not None:
        assert third.wait_for(SnapshotChanged).state == "adopted"
    first.signal_all(signal.SIGKILL)
    first.popen.wait(PATIENCE)
    if third is None:
        third = pair.work("--grace", "1s", streams=1)
        assert third.wait_for(SnapshotChanged).state == "adopted"
    second.signal_all(signal.SIGKILL)
    second.popen.wait(PATIENCE)
    for gate in gates:
        gate.open()
    third.ended(0)
    with connect(pair.target) as target:
        assert digest(target) == expected
    pair.check_done(recount=False)


def test_a_stopped_process_loses_its_partition(pair: Pair) -> None:
    gate = pair.gates(5)[0]
    first = pair.work(*PLAN, "--grace", "1s", streams=8)
    gate.reached()
    eventually("it has one left", lambda: len(pair.attempts()) == PARTITIONS - 1, PATIENCE)
    first.signal_all(signal.SIGSTOP)
    gate.open()
    second = pair.work("--grace", "1s")
    second.ended(0)
    first.signal_all(signal.SIGCONT)
    end(pair, [first])
    assert committed([second]) == [partition_id(5)]


def test_a_process_that_comes_after_the_end_has_nothing_to_do(pair: Pair) -> None:
    pair.work(*PLAN).ended(0)
    finished_at = pair.status().run.finished_at
    again = pair.work()
    again.ended(0)
    assert not again.of(Opened)
    assert pair.status().run.finished_at == finished_at
    pair.check_done()


def test_a_comparison_that_fails_is_made_once(pair: Pair) -> None:
    gate = pair.gates(3)[0]
    runs = [pair.work(*PLAN, "--verify", "counts") for _ in range(3)]
    gate.reached()
    eventually("the rest is copied", lambda: len(pair.attempts()) == PARTITIONS - 1, PATIENCE)
    execute(pair.target, "DELETE FROM item WHERE id = 1")
    time.sleep(1)
    gate.open()
    for run in runs:
        run.ended(65)
    assert sum(len(run.of(Verified)) for run in runs) == 1
    assert sum("another process has finished run faults" in run.errors for run in runs) == 2


def test_a_plan_of_a_newer_version_is_refused(pair: Pair) -> None:
    pair.create()
    execute(
        pair.target,
        """UPDATE penstock.run SET plan = plan || '{"written_by": "99.1.0", "unheard_of": 1}'""",
    )
    run = pair.work()
    run.ended(65)
    assert "planned by Penstock 99.1.0, and this is Penstock 0.1.0" in run.errors
    assert not pair.attempts()


def test_a_failing_partition_ends_each_process(pair: Pair) -> None:
    execute(pair.target, f"ALTER TABLE item ADD CHECK (id <> {ROWS})")
    runs = [pair.work(*PLAN, "--on-error", "continue") for _ in range(2)]
    for run in runs:
        run.ended(65)
    assert len(pair.attempts()) == PARTITIONS - 1
    execute(pair.target, "ALTER TABLE item DROP CONSTRAINT item_id_check")
    end(pair, [pair.work("--on-snapshot-lost", "accept") for _ in range(2)])


def test_the_target_restarts(pair: Pair) -> None:
    """Its sessions are ended, as by a restart: nothing is lost, and nothing is there twice."""
    gates = pair.gates(1, 2)
    runs = [pair.work(*PLAN, "--grace", "1s"), pair.work("--wait", "60s", "--grace", "1s")]
    for gate in gates:
        gate.reached()
    for run in runs:
        run.wait_for(Prepared)
    query = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE starts_with(application_name, 'penstock:') AND datname = current_database()"
    )
    assert ask(pair.target, query) > 0
    for gate in gates:
        gate.open()
    end(pair, runs)


# Batches

TABLES = 12


def make_tables(pair: Pair) -> None:
    for n in range(TABLES):
        rows = 30_000 if n < 3 else 100
        execute(
            pair.source,
            f"CREATE TABLE t{n} (id int PRIMARY KEY, u int NOT NULL, pad text)",
            f"INSERT INTO t{n} SELECT i, i % 50 + 1, '<t{n}, ' || i || '>' || repeat('x', 90)"
            f" FROM generate_series(1, {rows}) AS i",
        )
    for n in range(1, TABLES):
        execute(pair.source, f"ALTER TABLE t{n} ADD FOREIGN KEY (u) REFERENCES t{n - 1}")


def batch_spec(pair: Pair, folder: Path, more: str = "") -> str:
    """Return a file that describes a batch of all of these tables."""
    spec = folder / "tables.toml"
    ends = f'source = "{pair.source}"\ntarget = "{pair.target}"\n'
    spec.write_text(f'{ends}tables = ["public.t*"]\nmode = "recreate"\n{more}', encoding="ascii")
    return str(spec)


def check_tables(pair: Pair) -> None:
    for n in range(TABLES):
        with connect(pair.source) as source, connect(pair.target) as target:
            assert digest(source, f"t{n}") == digest(target, f"t{n}")
    keys = "SELECT count(*) FROM pg_constraint WHERE contype = 'f'"
    assert ask(pair.target, keys) == TABLES - 1


def test_a_batch_is_worked_by_several(empty_pair: Pair, tmp_path: Path) -> None:
    pair = empty_pair
    make_tables(pair)
    spec = batch_spec(pair, tmp_path, "partitions = 4\n")
    runs = [pair.work("--spec", spec) for _ in range(2)]
    runs.append(pair.work("--wait", "60s"))
    for run in runs:
        run.ended(0)
    check_tables(pair)
    keys = [(e.run_id, e.partition_id) for r in runs for e in r.of(Committed, already=False)]
    assert len(keys) == len(set(keys))


def test_a_batch_whose_first_process_is_killed(empty_pair: Pair, tmp_path: Path) -> None:
    pair = empty_pair
    make_tables(pair)
    spec = batch_spec(pair, tmp_path, "partitions = 4\n")
    gates = [Gate(pair.proxy("source"), f"<t{n}, 20000>".encode(), "to_client") for n in range(3)]
    ends = ("--source", pair.proxy("source").url(pair.source))
    first = pair.work(*ends, "--spec", spec, streams=8)
    gates[0].reached()
    with connect(pair.source) as source:
        expected = [digest(source, f"t{n}") for n in range(TABLES)]
    others = [pair.work(*ends, "--spec", spec, "--grace", "1s") for _ in range(2)]
    for run in others:
        run.wait_for(SnapshotChanged)
    execute(pair.source, "UPDATE t0 SET pad = 'later' WHERE id > 20000", "DELETE FROM t11")
    first.signal_all(signal.SIGKILL)
    for gate in gates:
        gate.open()
    for run in others:
        run.ended(0)
    with connect(pair.target) as target:
        assert [digest(target, f"t{n}") for n in range(TABLES)] == expected


def test_a_process_of_a_batch_names_those_that_have_its_last_partitions(
    empty_pair: Pair, tmp_path: Path
) -> None:
    pair = empty_pair
    make_tables(pair)
    spec = batch_spec(pair, tmp_path, "partitions = 4\n")
    copying = Gate(pair.proxy("source"), b"<t0, 20000>", "to_client")
    ends = ("--source", pair.proxy("source").url(pair.source))
    first = pair.work(*ends, "--spec", spec, streams=8)
    copying.reached()
    second = pair.work(*ends, "--spec", spec)
    ((host, pid, what, partitions),) = named(second)
    assert (host, pid, what) == (socket.gethostname(), first.pid, "copying")
    assert [each.split()[0] for each in partitions] == ["public.t0"]
    copying.open()
    for run in (first, second):
        run.ended(0)
    check_tables(pair)


def test_a_process_of_a_batch_names_the_one_that_plans(empty_pair: Pair, tmp_path: Path) -> None:
    pair = empty_pair
    make_tables(pair)
    spec = batch_spec(pair, tmp_path, "partitions = 4\n")
    gate = Gate(pair.proxy("target"), b"ON CONFLICT DO NOTHING RETURNING run_id", "to_server")
    ends = ("--target", pair.proxy("target").url(pair.target))
    runs = [pair.work(*ends, "--spec", spec) for _ in range(2)]
    gate.reached()
    eventually("one waits", lambda: any(run.of(Waiting) for run in runs), PATIENCE)
    planning, waiting = sorted(runs, key=lambda run: bool(run.of(Waiting)))
    assert named(waiting) == [(socket.gethostname(), planning.pid, "planning", ())]
    planning.signal_all(signal.SIGKILL)
    gate.open()
    waiting.ended(0)
    check_tables(pair)


# What ends whoever copies it


def slow_down(pair: Pair) -> None:
    """Have the third partition take forever, until its client is gone."""
    database = urlsplit(pair.target).path[1:]
    execute(
        pair.target,
        f'ALTER DATABASE "{database}" SET client_connection_check_interval = 100',
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_sleep(1000); RETURN NEW; END $$",
        "CREATE TRIGGER slow BEFORE INSERT ON item FOR EACH ROW"
        f" WHEN (NEW.id = {middle(3)}) EXECUTE FUNCTION slow()",
    )


def test_a_partition_at_which_workers_are_lost_is_left_by_all(pair: Pair) -> None:
    """Each process may lose three workers at it by itself; together they lose few more."""
    lost: list[int] = []

    def kill(run: Run, over: threading.Event) -> None:
        while not over.wait(0.01):
            for event in run.of(Opened, partition_id="p0003"):
                if event.pid not in lost:
                    lost.append(event.pid)
                    with suppress(ProcessLookupError):
                        os.kill(event.pid, signal.SIGKILL)

    slow_down(pair)
    words = ("--attempts", "3", "--on-error", "continue", "--grace", "1s")
    pair.create()
    for _ in range(3):
        run = pair.work(*words, "--on-snapshot-lost", "accept")
        over = threading.Event()
        killer = threading.Thread(target=kill, args=(run, over))
        killer.start()
        run.ended(65)
        over.set()
        killer.join()
        assert (
            "penstock resume faults --target URL --only p0003"
            in run.finished.failures[0].error["message"]
        )
    assert len(pair.attempts()) == PARTITIONS - 1
    assert len(lost) <= 4
    execute(pair.target, "DROP TRIGGER slow ON item")
    pair.check_resumes("--on-snapshot-lost", "accept")


COPYING_P3 = (
    "SELECT count(*) FROM penstock.journal WHERE content->'open' ? 'p0003'"
    " AND content->>'status' = 'running'"
)


def test_processes_that_were_killed_at_a_partition_are_counted(pair: Pair) -> None:
    slow_down(pair)
    pair.create()
    words = (
        "--grace",
        "1s",
        "--attempts",
        "1",
        "--on-error",
        "continue",
        "--on-snapshot-lost",
        "accept",
    )
    for before in range(2):
        run = pair.work(*words, streams=1)
        run.wait_for(Opened, partition_id="p0003")
        eventually(
            "its journal says so",
            lambda before=before: ask(pair.target, COPYING_P3) > before,  # type: ignore[misc]
            PATIENCE,
        )
        run.signal_all(signal.SIGKILL)
        run.popen.wait(PATIENCE)
    last = pair.work(*words)
    last.ended(65)
    assert not last.of(Opened, partition_id="p0003")
    execute(pair.target, "DROP TRIGGER slow ON item")
    pair.check_resumes("--on-snapshot-lost", "accept")


# Leases


def test_a_process_that_was_cut_off_for_longer_than_its_lease(pair: Pair, tmp_path: Path) -> None:
    """It commits late, after another has taken over its partition and committed it."""
    folder = tmp_path / "items"
    target = ("--target", f"file://{folder}/", "--grace", "1s")
    gate = pair.gates(5)[0]
    first = pair.work(*PLAN, *target, streams=8)
    gate.reached()

    def committed_by_first() -> int:
        return len(penstock.status(RUN_ID, target=f"file://{folder}/").committed)

    eventually("it has one left", lambda: committed_by_first() == PARTITIONS - 1, PATIENCE)
    first.signal_all(signal.SIGSTOP)
    gate.open()
    second = pair.work(*target)
    second.ended(0)
    assert committed([second]) == [partition_id(5)]
    first.signal_all(signal.SIGCONT)
    first.ended(0)
    ids = parquet.read_table(folder, columns=["id"]).column("id").to_pylist()
    assert sorted(ids) == list(range(1, ROWS + 1))
    left = [path for path in folder.rglob("*") if "leases" in path.parts and path.is_file()]
    assert not left


def test_processes_that_finish_different_tables_do_not_wait_for_each_other(
    empty_pair: Pair, tmp_path: Path
) -> None:
    """The turns become free one after another, so that each process gets some."""
    pair = empty_pair
    names = [f"public.t{n}" for n in range(8)]
    for name in names:
        execute(pair.source, f"CREATE TABLE {name} AS SELECT generate_series(1, 100) AS id")
    spec = batch_spec(pair, tmp_path)
    ids = {name: hashlib.sha256(f"{name} {name}".encode()).hexdigest()[:8] for name in names}
    turns = [f"penstock:turn:{RUN_ID}-{ids[name]}" for name in names]
    lock = "SELECT pg_advisory_{}(hashtextextended(%s, 0))"
    with closing(connect(pair.target)) as holder:
        for turn in turns:
            holder.execute(lock.format("lock"), [turn])
        runs = [pair.work("--spec", spec) for _ in range(3)]
        for run in runs:
            run.wait_for(Prepared, count=len(names))
        for turn in turns:
            time.sleep(0.7)
            holder.execute(lock.format("unlock"), [turn])
    for run in runs:
        run.ended(0)
    query = "SELECT count(*) FROM penstock.run WHERE status = 'done'"
    assert ask(pair.target, query) == len(names)
