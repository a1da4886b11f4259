"""DDL of other sessions that waits for the snapshot, and queues later readers behind it.

Penstock never waits for itself that way. It names the session that waits; then it continues, or
gives way.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
import pytest

from penstock.events import BatchFinished, Planned, SnapshotChanged, Verified, Warned

from .cli import PATIENCE, Run, eventually
from .gate import Gate
from .pair import Pair, ask, connect, execute

ALTER = "ALTER TABLE item ALTER COLUMN pad SET DEFAULT 'hidden'"
# The session, the kind of statement, and the time it began to wait; no values.
NAMED = re.compile(
    r"session \d+ of user \w+ \(migration\): (ALTER|DROP) TABLE, waiting since "
    r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\dZ \(\d+ s\)"
)


class Migration(threading.Thread):
    """A statement in a session of its own."""

    def __init__(self, url: str, statement: str = ALTER) -> None:
        super().__init__(daemon=True)
        self._connection = connect(url, application_name="migration")
        self._statement = statement
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            with closing(self._connection) as connection:
                connection.execute(self._statement)
        except Exception as error:
            self.error = error

    def done(self) -> None:
        """Wait for the end of the statement, which has to succeed."""
        self.join(PATIENCE)
        assert not self.is_alive()
        assert self.error is None

    def give_up(self) -> None:
        if self.is_alive():
            with contextlib.suppress(psycopg.Error):
                self._connection.cancel_safe()
            self.join(PATIENCE)


@contextmanager
def migrating(pair: Pair, statement: str = ALTER) -> Iterator[Migration]:
    """Yield a migration that waits for the run's snapshot."""
    migration = Migration(pair.source, statement)
    try:
        pair.waiting_for_lock("source", 1)
        yield migration
    finally:
        migration.give_up()


def queue_when(pair: Pair, needle: bytes) -> tuple[Gate, list[Migration]]:
    """Hold a run's statement to its source until a migration waits for the snapshot."""
    started: list[Migration] = []

    def begin() -> None:
        started.append(Migration(pair.source))
        pair.waiting_for_lock("source", 1)

    gate = Gate(pair.proxy("source"), needle, "to_server", begin)
    pair._gates.append(gate)
    return gate, started


def check_named(text: str) -> None:
    assert NAMED.search(text), text
    assert "hidden" not in text


def verified(run: Run) -> Verified:
    (found,) = run.of(Verified)
    return found


@pytest.mark.parametrize("how", ["counts", "checksums"])
def test_verification_continues_in_the_session_that_holds_the_snapshot(
    pair: Pair, how: str
) -> None:
    gates = pair.gates(3, 4)
    run = pair.copy("--verify", how)
    for gate in gates:
        gate.reached()
    with migrating(pair) as migration:
        for gate in gates:
            gate.open()
        run.ended(0)
        migration.done()
    assert verified(run).ok
    pair.check_nothing_left()


def test_the_run_names_the_waiting_session(pair: Pair) -> None:
    (gate,) = pair.gates(3)
    run = pair.copy("--verify", "counts")
    gate.reached()
    with migrating(pair) as migration:
        warned = run.wait_for(Warned)
        gate.open()
        run.ended(0)
        migration.done()
    check_named(warned.message)
    assert "--give-way-after" in warned.message


def test_the_run_gives_way_if_requested(pair: Pair) -> None:
    (gate,) = pair.gates(3)
    run = pair.copy("--give-way-after", "1s")
    gate.reached()
    with migrating(pair) as migration:
        run.ended(75)
        gate.open()  # the server would have noticed this later by itself
        migration.done()
    check_named(run.errors)
    assert "gave way" in run.errors
    pair.check_resumes("--on-snapshot-lost", "accept", "--give-way-after", "1h", recount=False)


def test_the_run_gives_way_while_it_verifies(pair: Pair) -> None:
    execute(
        pair.source,
        "CREATE FUNCTION slow(bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN"
        " IF pg_catalog.current_setting('application_name') = 'penstock:snapshot'"
        " THEN PERFORM pg_catalog.pg_sleep(300); END IF; RETURN true; END $$",
    )
    words = ("--give-way-after", "1s", "--verify", "counts", "--where", "id > 1 OR public.slow(id)")
    run = pair.copy(*words, strategy="whole", partitions=1)
    reading = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    eventually("it verifies", lambda: ask(pair.source, reading) > 0, PATIENCE)
    with migrating(pair) as migration:
        run.ended(75)
        migration.done()
    check_named(run.errors)


def test_ddl_between_snapshot_and_plan_makes_the_run_take_a_new_snapshot(pair: Pair) -> None:
    # Before there is a plan, only the planner imports the snapshot.
    gate, started = queue_when(pair, b"SET TRANSACTION SNAPSHOT")
    run = pair.copy()
    gate.reached()
    gate.open()
    run.ended(0)
    (migration,) = started
    migration.done()
    assert len(run.of(SnapshotChanged, state="taken")) == 1


def test_planning_does_not_block_itself(pair: Pair) -> None:
    gate, started = queue_when(pair, b"pg_stats")
    run = pair.copy("--attempts", "2", strategy="range")
    gate.reached()
    gate.open()
    run.wait_for(Planned)
    run.ended(75)  # workers queue behind it, and give up
    started[0].done()
    check_named(str(run.finished.failures))
    pair.check_nothing_left()


def test_planning_a_batch_does_not_block_itself(pair: Pair) -> None:
    names = [f"t{number:02}" for number in range(12)]
    for url in (pair.source, pair.target):
        execute(url, *(f"CREATE TABLE {name} AS SELECT 1 AS i" for name in names))
    gate = pair.gate_at(b"t05")
    run = pair.copy_all("--tables", "public.t??", "--attempts", "1")
    gate.reached()
    with migrating(pair, "ALTER TABLE t11 ALTER COLUMN i SET DEFAULT 5") as migration:
        gate.open()
        run.wait_for(Planned, count=12)
        run.ended(75)  # one table's worker queues behind it, and gives up
        migration.done()
    tables = {table.table: table for table in run.wait_for(BatchFinished).tables}
    assert [name for name, table in tables.items() if table.status != "done"] == ["public.t11"]
    check_named(str(tables["public.t11"].failures))
    pair.copy_all("--tables", "public.t??", "--attempts", "1").ended(0)


@pytest.mark.parametrize(
    "statement", ["DROP TABLE part_3", "ALTER TABLE part_3 ADD CHECK (id > 0)"]
)
def test_ddl_on_a_child_table_waits_and_the_run_completes(pair: Pair, statement: str) -> None:
    for url in (pair.source, pair.target):
        execute(
            url,
            "CREATE TABLE whole (id bigint, pad text) PARTITION BY RANGE (id)",
            *(
                f"CREATE TABLE part_{n} PARTITION OF whole FOR VALUES FROM ({n}000) TO ({n + 1}000)"
                for n in range(6)
            ),
        )
    execute(
        pair.source,
        "INSERT INTO whole SELECT i, '<' || lpad(i::text, 8, '0') || '>'"
        " FROM generate_series(0, 5999) AS i",
        "ANALYZE whole",
    )
    gate = pair.gate(5500)
    run = pair.copy(
        *("--verify", "counts", "--strategy", "children"), table="public.whole", partitions=6
    )
    gate.reached()
    with migrating(pair, statement) as migration:
        gate.open()
        run.ended(0)
        migration.done()
    assert verified(run).ok


def test_a_run_names_the_session_that_locks_the_table_before_it_starts(pair: Pair) -> None:
    with closing(connect(pair.source, application_name="migration")) as holder:
        holder.execute("BEGIN")
        holder.execute(ALTER)
        run = pair.copy("--stall-timeout", "2s")
        pair.waiting_for_lock("source", 1)
        eventually("it says so", lambda: "(migration): ALTER TABLE" in run.errors, PATIENCE)
        assert "hidden" not in run.errors
        holder.execute("ROLLBACK")
        run.ended(0)


def test_a_holder_gives_way(pair: Pair) -> None:
    pair.create()
    holder = pair.hold("--give-way-after", "1s")
    holder.wait_for(SnapshotChanged)
    with migrating(pair) as migration:
        holder.ended(75)
        migration.done()
    check_named(holder.errors)


def test_waiting_for_locked_control_tables_is_reported(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    pair.copy().ended(0)
    found: list[object] = []
    with closing(connect(pair.target, application_name="migration")) as holder:
        holder.execute("BEGIN")
        holder.execute("LOCK TABLE penstock.run")
        thread = threading.Thread(target=lambda: found.append(pair.status().run.status))
        thread.start()
        eventually("it says so", lambda: "(migration): LOCK TABLE" in caplog.text, PATIENCE)
        holder.execute("ROLLBACK")
        thread.join(PATIENCE)
    assert found == ["done"]


def test_final_steps_do_not_need_the_snapshot(pair: Pair) -> None:
    execute(
        pair.target,
        "CREATE INDEX item_note ON item (note)",
        "CREATE FUNCTION wait() RETURNS event_trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_catalog.pg_advisory_xact_lock(1); END $$",
        "CREATE EVENT TRIGGER wait ON ddl_command_start WHEN TAG IN ('CREATE INDEX')"
        " EXECUTE FUNCTION wait()",
    )
    with closing(connect(pair.target)) as holder:
        holder.execute("SELECT pg_advisory_lock(1)")
        run = pair.copy("--mode", "truncate", "--indexes", "defer")
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        eventually("it builds", lambda: ask(pair.target, waiting) > 0, PATIENCE)
        Migration(pair.source).done()
    run.ended(0)
