"""Faults in the middle of `copy-all`: done tables stay done, and the others continue."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import psutil
import pytest

import penstock
from penstock.events import (
    BatchFinished,
    BatchStarted,
    Committed,
    DegreeChanged,
    Failed,
    Finished,
    Opened,
    Planned,
    Retrying,
    SnapshotChanged,
    StepChanged,
    Warned,
)
from penstock_testkit import PostgresServer

from .cli import PATIENCE, Run, eventually, promised
from .pair import DEFINITION, Pair, Side, ask, connect, digest, execute, insert_items
from .test_connection_limit import LIMIT, limited

__all__ = ["limited"]

Servers = tuple[PostgresServer, PostgresServer]
PARTITIONS = 4
# Rows of each partition, and the id before the first: the largest table is copied first.
SHAPES = {"item": (3_000, 0), "made": (2_500, 100_000), "swapped": (2_000, 200_000)}
MODES = {"item": "append", "made": "recreate", "swapped": "swap"}
UNLOGGED = {"item": "truncate", "made": "recreate", "swapped": "swap"}
OLD = "INSERT INTO {} VALUES (-1, 'old', NULL, now(), NULL, '')"


def rows_of(name: str, table: str) -> str:
    return name.replace("item", table)


def row(table: str, partition: int) -> int:
    """Return the id of a row in the middle of a table's partition; partitions count from 1."""
    each, before = SHAPES[table]
    return before + partition * each - each // 2


class Batch:
    """Three tables, a file that names them, and the checks on all of them."""

    def __init__(self, pair: Pair, folder: Path) -> None:
        self.pair = pair
        self._file = folder / "batch.toml"

    def load(self) -> None:
        for table, (each, before) in SHAPES.items():
            rows = insert_items(before + 1, before + PARTITIONS * each)
            definition = rows_of(DEFINITION, table)
            execute(self.pair.source, definition, rows_of(rows, table), f"ANALYZE {table}")
            execute(self.pair.target, definition)
        for table in ("made", "swapped"):
            execute(self.pair.target, OLD.format(table))

    def start(
        self, *words: str, degree: int = 2, modes: Mapping[str, str] = MODES, extra: str = ""
    ) -> Run:
        sections = [
            f'[[table]]\ntable = "public.{table}"\nmode = "{mode}"\n{extra}\n'
            for table, mode in modes.items()
        ]
        options = f'strategy = "ctid"\npartitions = {PARTITIONS}\n'
        text = options + "".join(sections)
        # Another process may be about to read it.
        if not self._file.exists() or self._file.read_text(encoding="utf-8") != text:
            self._file.write_text(text, encoding="utf-8")
        return self.pair.copy_all(str(self._file), *words, degree=degree)

    @contextmanager
    def in_mid_batch(self, *words: str, **options: object) -> Iterator[Run]:
        """Hold a batch after the first table and one partition of the second, before the third.

        If partitions differ by a block, larger ones go first: the second, third and fourth.
        """
        gates = [self.pair.gate(row("made", partition)) for partition in (3, 4)]
        run = self.start(*words, **options)  # type: ignore[arg-type]
        for gate in gates:
            gate.reached()
        yield run
        for gate in gates:
            gate.open()

    def runs(self, run: Run) -> dict[str, penstock.RunStatus]:
        """Return the target's runs by table."""
        return {
            table.table.removeprefix("public."): penstock.status(
                table.run_id, target=self.pair.target
            )
            for table in run.wait_for(BatchStarted).tables
        }

    def statuses(self, run: Run) -> dict[str, str]:
        return {table: found.run.status for table, found in self.runs(run).items()}

    def pending(self, run: Run) -> list[tuple[str, str]]:
        """Return the partitions without a commit record, sorted.

        A worker that is asked to end may commit before it receives the message.
        """
        return sorted(
            (table.table.removeprefix("public."), partition_id)
            for table in run.wait_for(BatchStarted).tables
            for partition_id in penstock.status(table.run_id, target=self.pair.target).as_json()[
                "pending"
            ]
        )

    def check_done(self, run: Run) -> None:
        """Check that each row of every table is in the target once."""
        run.ended(0)
        assert ended(run).status == "done"
        self.pair.check_nothing_left()
        assert self.statuses(run) == dict.fromkeys(SHAPES, "done")
        with closing(connect(self.pair.source)) as source:
            for table in SHAPES:
                with closing(connect(self.pair.target)) as target:
                    assert digest(target, table) == digest(source, table), table


def ended(run: Run) -> BatchFinished:
    return run.wait_for(BatchFinished)


def outcomes(run: Run) -> dict[str, str]:
    """Return the outcomes by table, from the batch's last event."""
    return {table.table.removeprefix("public."): table.status for table in ended(run).tables}


def opened(run: Run) -> list[tuple[str, str]]:
    """Return table and partition of every attempt, sorted."""
    names = {table.run_id: table.table for table in run.wait_for(BatchStarted).tables}
    return sorted(
        (names[event.run_id].removeprefix("public."), event.partition_id)
        for event in run.of(Opened)
    )


def partitions(table: str, *numbers: int) -> list[tuple[str, str]]:
    return [(table, f"p{number:04}") for number in numbers or range(1, PARTITIONS + 1)]


@pytest.fixture
def batch(empty_pair: Pair, tmp_path: Path) -> Batch:
    new_batch = Batch(empty_pair, tmp_path)
    new_batch.load()
    return new_batch


@pytest.fixture
def fragile_batch(fragile: Pair, tmp_path: Path) -> Batch:
    for url in (fragile.source, fragile.target):
        execute(url, "DROP TABLE item")
    new_batch = Batch(fragile, tmp_path)
    new_batch.load()
    return new_batch


def test_a_batch_is_resumed_after_its_supervisor_was_killed(batch: Batch) -> None:
    with batch.in_mid_batch() as run:
        run.kill()
    batch.pair.check_nothing_left()
    pending_before = batch.pending(run)
    assert ("made", "p0001") in pending_before
    assert set(pending_before) <= set(partitions("made", 1, 3, 4) + partitions("swapped"))
    again = batch.start()
    batch.check_done(again)
    assert opened(again) == pending_before
    # A batch that is done has no work left.
    third = batch.start()
    batch.check_done(third)
    assert opened(third) == []


def test_a_supervisor_killed_during_planning_leaves_nothing(batch: Batch) -> None:
    run = batch.start()
    run.wait_for(Planned)
    run.kill()
    batch.pair.check_nothing_left()
    batch.check_done(batch.start())


def test_a_done_table_stays_done_when_the_supervisor_is_killed(batch: Batch) -> None:
    execute(batch.pair.target, "ALTER TABLE item ADD CONSTRAINT few CHECK (id < 0)")
    batch.start("--verify", "counts").ended(65)
    execute(batch.pair.target, "ALTER TABLE item DROP CONSTRAINT few")
    gate = batch.pair.gate(row("item", 2))
    second = batch.start("--verify", "counts")
    gate.reached()
    second.kill()
    gate.open()
    batch.pair.check_nothing_left()
    assert batch.statuses(second) == {"item": "running", "made": "done", "swapped": "done"}
    # Writes after the verification do not count as differences.
    execute(batch.pair.source, "DELETE FROM made WHERE id % 2 = 0")
    third = batch.start("--verify", "counts")
    third.ended(0)
    assert outcomes(third) == dict.fromkeys(SHAPES, "done")


def test_two_batches_at_once_copy_each_partition_once(batch: Batch) -> None:
    gates = [batch.pair.gate(row("item", partition)) for partition in (2, 3)]
    runs = [batch.start(), batch.start()]
    for gate in gates:
        gate.reached()
        gate.open()
    for run in runs:
        run.ended(0)
    batch.check_done(runs[0])
    committed = [e for run in runs for e in run.of(Committed) if not e.already]
    assert len(committed) == 3 * PARTITIONS


def test_a_second_batch_adopts_the_snapshot_of_the_first(batch: Batch) -> None:
    """Only for a run that existed when the second batch planned its table."""
    late = batch.pair.gate_at(b'"run" (run_id, spec, plan')
    gates = [batch.pair.gate(row(table, 2)) for table in ("item", "made")]
    second = batch.start()
    late.reached()
    # The held batch must not copy rows from its older view of the source.
    execute(batch.pair.source, *(f"UPDATE {table} SET amount = -id" for table in SHAPES))
    first = batch.start()
    for gate in gates:
        gate.reached()
    late.open()
    second.wait_for(Planned, count=3)
    for gate in gates:
        gate.open()
    first.ended(0)
    batch.check_done(second)
    assert [event.state for event in first.of(SnapshotChanged)] == ["taken"] * 3
    assert [event.state for event in second.of(SnapshotChanged)] == ["adopted"] * 3
    assert all(len(found.run.snapshots) == 1 for found in batch.runs(second).values())
    committed = [e for run in (first, second) for e in run.of(Committed) if not e.already]
    assert len(committed) == 3 * PARTITIONS


def test_only_the_partition_of_a_killed_worker_is_retried(batch: Batch) -> None:
    with batch.in_mid_batch() as run:
        struck = run.of(Opened)[-1]
        os.kill(struck.pid, signal.SIGKILL)
        run.wait_for(Failed)
    batch.check_done(run)
    (retried,) = run.of(Retrying)
    assert (retried.run_id, retried.partition_id) == (struck.run_id, struck.partition_id)
    assert len(run.of(Opened)) == 3 * PARTITIONS + 1


def interrupt_as_a_terminal(run: Run) -> None:
    run.signal_all(signal.SIGINT)


def terminate(run: Run) -> None:
    os.kill(run.pid, signal.SIGTERM)


CANCELS = pytest.mark.parametrize("cancel", [interrupt_as_a_terminal, terminate])


@CANCELS
def test_a_cancelled_batch_is_resumed(batch: Batch, cancel: Callable[[Run], None]) -> None:
    with batch.in_mid_batch() as run:
        since = time.monotonic()
        cancel(run)
        run.ended(130)
        assert time.monotonic() - since < promised()
    batch.pair.check_nothing_left()
    assert ended(run).status == "interrupted"
    assert batch.statuses(run) == dict.fromkeys(SHAPES, "interrupted")
    again = batch.start()
    batch.check_done(again)
    assert opened(again) == partitions("made", 1, 3, 4) + partitions("swapped")


def test_a_done_table_stays_done_when_the_rest_is_cancelled(batch: Batch) -> None:
    execute(batch.pair.target, "ALTER TABLE item ADD CONSTRAINT few CHECK (id < 0)")
    first = batch.start()
    first.ended(65)
    assert outcomes(first) == {"item": "failed", "made": "done", "swapped": "done"}
    execute(batch.pair.target, "ALTER TABLE item DROP CONSTRAINT few")
    gate = batch.pair.gate(row("item", 2))
    second = batch.start()
    gate.reached()
    terminate(second)
    second.ended(130)
    gate.open()
    assert batch.statuses(second) == {"item": "interrupted", "made": "done", "swapped": "done"}
    batch.check_done(batch.start())


@CANCELS
def test_a_batch_is_cancelled_while_it_prepares(
    batch: Batch, cancel: Callable[[Run], None]
) -> None:
    with batch.pair.lock_target():
        run = batch.start(modes=UNLOGGED, extra=EMPTIED)
        run.wait_for(Planned, count=3)
        batch.pair.waiting_for_lock("target", 1)
        since = time.monotonic()
        cancel(run)
        run.ended(130)
        assert time.monotonic() - since < promised()
        batch.pair.check_nothing_left()
        assert batch.statuses(run) == dict.fromkeys(SHAPES, "interrupted")
    batch.check_done(batch.start(modes=UNLOGGED, extra=EMPTIED))


def end_snapshot(batch: Batch) -> None:
    ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
    mine = "application_name = 'penstock:snapshot' AND datname = current_database()"
    assert ask(batch.pair.source, f"{ended} WHERE {mine}") == 1


def test_a_batch_whose_snapshot_is_ended_fails_and_is_resumed(batch: Batch) -> None:
    with batch.in_mid_batch() as run:
        end_snapshot(batch)
        run.wait_for(SnapshotChanged, state="lost")
        run.ended(65)
    assert outcomes(run) == {"item": "done", "made": "failed", "swapped": "failed"}
    assert len(run.of(SnapshotChanged, state="lost")) == 2
    failed = [table.error for table in ended(run).tables if table.error]
    assert {error["error"] for error in failed} == {"SnapshotLost"}
    batch.pair.check_nothing_left()

    # One table has commits and was written to; the other had no writes.
    execute(batch.pair.source, f"UPDATE made SET amount = 1 WHERE id = {row('made', 4)}")
    second = batch.start()
    second.ended(65)
    assert outcomes(second) == {"item": "done", "made": "failed", "swapped": "done"}
    (table,) = [table for table in ended(second).tables if table.error]
    assert table.error is not None
    assert "1 updated" in table.error["message"]
    assert "--on-snapshot-lost accept" in table.error["message"]

    third = batch.start("--on-snapshot-lost", "accept")
    batch.check_done(third)
    assert opened(third) == partitions("made", 1, 3, 4)


def test_a_second_end_of_the_snapshot_spares_the_done_table(batch: Batch) -> None:
    """The first table is done, so its snapshot is no longer watched."""
    with batch.in_mid_batch() as run:
        run.kill()
    batch.pair.check_nothing_left()
    gate = batch.pair.gate(row("swapped", 2))
    again = batch.start()
    gate.reached()
    # The other stream may still be copying the second table.
    eventually(
        "the second table is committed",
        lambda: all(table == "swapped" for table, _ in batch.pending(again)),
        PATIENCE,
    )
    end_snapshot(batch)
    again.wait_for(SnapshotChanged, state="lost")
    gate.open()
    again.ended(65)
    assert outcomes(again) == {"item": "done", "made": "done", "swapped": "failed"}
    batch.check_done(batch.start())


def test_the_batch_continues_without_the_snapshot(batch: Batch) -> None:
    with batch.in_mid_batch("--on-snapshot-lost", "accept") as run:
        end_snapshot(batch)
        run.wait_for(SnapshotChanged, state="lost")
    batch.check_done(run)
    states = [event.state for event in run.of(SnapshotChanged)]
    assert (states.count("lost"), states.count("renewed")) == (2, 2)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_batch_survives_a_restart_of_the_target(
    fragile_batch: Batch, restartable: Servers, mode: str
) -> None:
    with fragile_batch.in_mid_batch() as run:
        restartable[1].restart("fast" if mode == "fast" else "immediate")
    fragile_batch.check_done(run)


EMPTIED = "unlogged = true"


def test_a_crash_empties_unlogged_tables(fragile_batch: Batch, restartable: Servers) -> None:
    with fragile_batch.in_mid_batch(modes=UNLOGGED, extra=EMPTIED) as run:
        restartable[1].kill()
        restartable[1].start()
    fragile_batch.check_done(run)
    assert len([event for event in run.of(Warned) if "started over" in event.message]) == 3


def test_a_crash_between_two_executions_restarts_the_unlogged_tables(
    fragile_batch: Batch, restartable: Servers
) -> None:
    with fragile_batch.in_mid_batch(modes=UNLOGGED, extra=EMPTIED) as run:
        run.kill()
    fragile_batch.pair.check_nothing_left()
    restartable[1].kill()
    restartable[1].start()
    again = fragile_batch.start(modes=UNLOGGED, extra=EMPTIED)
    fragile_batch.check_done(again)
    assert len(again.of(Opened)) == 3 * PARTITIONS


@pytest.mark.parametrize("killed", [False, True])
def test_a_crash_between_the_load_and_its_final_steps(
    fragile_batch: Batch, restartable: Servers, killed: bool
) -> None:
    """Every partition of every table is committed, and one table is not logged yet."""
    execute(fragile_batch.pair.target, "DROP TABLE IF EXISTS made")
    gate = fragile_batch.pair.gate_at(b'"made" SET LOGGED')
    run = fragile_batch.start(modes=UNLOGGED, extra=EMPTIED)
    gate.reached()
    # The other tables' steps complete in between, at least those of one thread.
    run.wait_for(StepChanged, state="done")
    if killed:
        run.kill()
    restartable[1].kill()
    restartable[1].start()
    gate.open()
    if killed:
        fragile_batch.pair.check_nothing_left()
        run = fragile_batch.start(modes=UNLOGGED, extra=EMPTIED)
    fragile_batch.check_done(run)
    again = [event for event in run.of(Opened) if event.partition_id == "p0001"]
    names = {table.run_id: table.table for table in run.wait_for(BatchStarted).tables}
    assert "public.made" in {names[event.run_id] for event in again}


@CANCELS
def test_a_batch_is_cancelled_during_a_step(batch: Batch, cancel: Callable[[Run], None]) -> None:
    gate = batch.pair.gate_at(b'CREATE UNIQUE INDEX "made_pkey__penstock_')
    run = batch.start()
    gate.reached()
    since = time.monotonic()
    cancel(run)
    gate.open()
    run.ended(130)
    assert time.monotonic() - since < promised()
    batch.pair.check_nothing_left()
    again = batch.start()
    batch.check_done(again)
    assert opened(again) == []


def test_a_batch_needs_few_connections(pair: Pair, limited: str) -> None:
    gates = [pair.gate(1500), pair.gate(4500)]
    run = pair.copy_all(
        *("--tables", "public.item", "--strategy", "ctid", "--partitions", "8"), degree=4
    )
    run.wait_for(DegreeChanged, count=2)
    for gate in gates:
        gate.open()
    run.ended(0)
    assert [event.degree for event in run.of(DegreeChanged)] == [LIMIT, LIMIT - 1]
    assert ended(run).status == "done"
    pair.check_content()


@pytest.mark.parametrize("limited", ["target"], indirect=True)
def test_the_steps_of_a_batch_need_few_connections(pair: Pair, limited: Side) -> None:
    user = pair.users[limited].partition(":")[0]
    execute(pair.target, f"GRANT CREATE ON SCHEMA public TO {user}", "DROP TABLE item")
    execute(pair.source, *(f"CREATE INDEX item_{n} ON item (at, amount)" for n in range(5)))
    gate = pair.gate_at(b'CREATE INDEX "item_0"')
    # A stream connects only if there are partitions; only the steps need many connections.
    run = pair.copy_all(
        *("--tables", "public.item", "--mode", "recreate", "--partitions", "1"),
        *("--attempts", "1"),
        degree=4,
    )
    gate.reached()
    run.wait_for(StepChanged, state="retrying")
    gate.open()
    run.ended(0)
    pair.check_content()


@pytest.mark.parametrize("on_error", ["continue", "stop"])
@pytest.mark.parametrize("on_table_error", ["continue", "stop"])
def test_a_rejected_row_fails_only_its_table(
    batch: Batch, on_error: str, on_table_error: str
) -> None:
    execute(
        batch.pair.target,
        f"ALTER TABLE item ADD CONSTRAINT not_this CHECK (id <> {row('item', 2)})",
    )
    policies = ("--on-error", on_error, "--on-table-error", on_table_error)
    run = batch.start(*policies, degree=1)
    run.ended(65)
    (failure,) = [failure for event in run.of(Finished) for failure in event.failures]
    assert failure.error["constraint"] == "not_this"
    assert failure.partition_id == "p0002"
    others = partitions("made") + partitions("swapped") if on_table_error == "continue" else []
    tried = [found for found in opened(run) if found[0] == "item"]
    assert [found for found in opened(run) if found[0] != "item"] == others
    if (on_error, on_table_error) == ("continue", "continue"):
        assert tried == partitions("item")
    else:
        # The largest table was copied first.
        assert run.of(Opened, run_id=run.of(Opened)[0].run_id)[-1].partition_id == "p0002"
        assert len(tried) < PARTITIONS
    assert outcomes(run) == {
        "item": "failed",
        **dict.fromkeys(("made", "swapped"), "done" if others else "failed"),
    }
    if not others:
        messages = [t.error["message"] for t in ended(run).tables if t.error]
        assert len([message for message in messages if "--on-table-error stop" in message]) == 2
    execute(batch.pair.target, "ALTER TABLE item DROP CONSTRAINT not_this")
    batch.check_done(batch.start())


@pytest.mark.parametrize("on_table_error", ["continue", "stop"])
def test_a_table_that_cannot_be_planned_fails_alone(batch: Batch, on_table_error: str) -> None:
    execute(batch.pair.target, "DROP TABLE item; CREATE TABLE item (other int)")
    run = batch.start("--on-table-error", on_table_error)
    run.ended(65)
    others = "done" if on_table_error == "continue" else "failed"
    assert outcomes(run) == {"item": "failed", "made": others, "swapped": others}
    (error,) = [table.error for table in ended(run).tables if table.table == "public.item"]
    assert error is not None
    assert "other" in error["message"]
    execute(batch.pair.target, "DROP TABLE item", DEFINITION)
    batch.check_done(batch.start())


def test_a_done_table_may_be_dropped(batch: Batch) -> None:
    """A dropped table that is not done fails alone."""
    with batch.in_mid_batch() as run:
        run.kill()
    batch.pair.check_nothing_left()
    execute(batch.pair.source, "DROP TABLE item", "DROP TABLE made")
    again = batch.start()
    again.ended(65)
    assert outcomes(again) == {"item": "done", "made": "failed", "swapped": "done"}


MANY = 200


def test_many_small_tables_leak_no_resources(empty_pair: Pair) -> None:
    pair = empty_pair
    for url in (pair.source, pair.target):
        execute(url, *(f"CREATE TABLE t{n} (id int PRIMARY KEY)" for n in range(MANY)))
    execute(pair.source, *(f"INSERT INTO t{n} VALUES (1), (2)" for n in range(MANY)))
    run = pair.copy_all("--tables", "public.*")
    process = psutil.Process(run.pid)
    run.wait_for(Committed)
    sessions: list[int] = []
    descriptors: list[int] = []
    while not run.of(BatchFinished) and run.popen.poll() is None:
        try:
            descriptors.append(process.num_fds())
        except psutil.Error:
            break
        sessions.append(len(pair.backends()))
        time.sleep(0.1)
    run.ended(0)
    assert ended(run).rows == 2 * MANY
    assert len(descriptors) > 3
    # Two streams with two sessions each, the snapshot's, the control tables', two that watch the
    # others, the journal's, and one that is ending.
    assert max(sessions) <= 11
    assert max(descriptors) - min(descriptors) <= 16
    pair.check_nothing_left()


def test_a_batch_may_have_more_tables_than_the_server_has_locks(tmp_path: Path) -> None:
    few = {"max_locks_per_transaction": "10", "max_connections": "10"}
    tables = 2000
    with ExitStack() as stack:
        source = stack.enter_context(PostgresServer(fsync=False, settings=few))
        target = stack.enter_context(PostgresServer(fsync=False))
        pair = stack.enter_context(closing(Pair(source.url, target.url)))
        for n in range(0, tables, 100):
            execute(pair.source, *(f"CREATE TABLE t{n + i} ()" for i in range(100)))
        execute(pair.source, "CREATE TABLE whole ()")
        run = pair.copy_all("--tables", "public.*")
        run.ended(0)
        assert ended(run).status == "done"
        assert len(ended(run).tables) == tables + 1
        pair.check_nothing_left()
        # The parts of one table are read together.
        for n in range(0, tables, 100):
            execute(pair.source, *(f"ALTER TABLE t{n + i} INHERIT whole" for i in range(100)))
        run = pair.copy("--table", "public.whole")
        run.ended(65)
        assert "raise max_locks_per_transaction on the source" in run.errors
        assert "the table and its partitions" in run.errors
        pair.check_nothing_left()


class TestBadInput:
    def refused(self, pair: Pair, *words: str) -> str:
        run = pair.copy_all(*words)
        run.ended(64)
        assert not run.events
        assert ask(pair.target, "SELECT to_regclass('penstock.run')::text") is None
        return run.errors

    def file(self, folder: Path, text: str) -> str:
        path = folder / "batch.toml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    def test_a_pattern_without_a_match_is_rejected(self, batch: Batch) -> None:
        errors = self.refused(batch.pair, "--tables", "public.made", "publik.*")
        assert "'publik.*' matches no table of the source" in errors

    def test_excluding_every_table_is_rejected(self, batch: Batch) -> None:
        errors = self.refused(batch.pair, "--tables", "public.*", "--exclude", "public.*")
        assert "leaves out every table" in errors

    def test_a_batch_without_tables_is_rejected(self, batch: Batch) -> None:
        assert "expected tables" in self.refused(batch.pair)

    def test_two_tables_into_one_are_rejected(self, batch: Batch, tmp_path: Path) -> None:
        sections = (
            '[[table]]\ntable = "public.item"\n'
            '[[table]]\ntable = "public.made"\ntarget-table = "public.item"\n'
        )
        errors = self.refused(batch.pair, self.file(tmp_path, sections))
        assert "two tables would be copied to public.item" in errors
        assert "public.made" in errors

    def test_two_schemas_into_one_are_rejected(self, batch: Batch) -> None:
        execute(batch.pair.source, "CREATE SCHEMA other", "CREATE TABLE other.made ()")
        tables = ("--tables", "public.*", "other.*", "--target-schema", "public")
        errors = self.refused(batch.pair, *tables)
        assert "two tables would be copied to public.made" in errors
        assert "other.made" in errors

    def test_an_unknown_option_of_a_table_is_rejected(self, batch: Batch, tmp_path: Path) -> None:
        file = self.file(tmp_path, '[[table]]\ntable = "public.item"\nmoode = "append"\n')
        errors = self.refused(batch.pair, file)
        assert f"{file}: [[table]] public.item: unknown option 'moode'" in errors

    def test_a_wrong_value_of_a_table_is_rejected(self, batch: Batch, tmp_path: Path) -> None:
        file = self.file(tmp_path, '[[table]]\ntable = "public.item"\nmode = "append-ish"\n')
        errors = self.refused(batch.pair, file)
        assert "[[table]] public.item: --mode" in errors

    @pytest.mark.parametrize("option", ["degree = 3", 'run-id = "x"', 'target-schema = "x"'])
    def test_an_option_of_the_batch_is_rejected_in_a_table(
        self, batch: Batch, tmp_path: Path, option: str
    ) -> None:
        file = self.file(tmp_path, f'[[table]]\ntable = "public.item"\n{option}\n')
        assert "applies to the whole batch" in self.refused(batch.pair, file)

    def test_a_run_id_that_is_too_long_is_rejected(self, batch: Batch) -> None:
        errors = self.refused(batch.pair, "--tables", "public.*", "--run-id", "x" * 30)
        assert "--run-id: expected" in errors
        assert "found 30" in errors


def test_one_table_may_have_other_options(batch: Batch) -> None:
    batch.check_done(batch.start())
    again = batch.start(modes={**MODES, "item": "truncate"})
    again.ended(65)
    assert outcomes(again) == {"item": "failed", "made": "done", "swapped": "done"}
    (error,) = [table.error for table in ended(again).tables if table.error]
    assert error["error"] == "SpecMismatch"
    assert "--mode: the run has 'append', found 'truncate'" in error["message"]
    batch.check_done(batch.start())
