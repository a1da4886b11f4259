"""More tables than the source has room to lock: each window's are locked under one snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from penstock import BatchSpec, RunFailed, RunFailedTransiently, copy_all
from penstock.engine.windows import WINDOW
from penstock.events import BatchFinished, Committed, Event, SnapshotChanged
from penstock_testkit import PostgresServer, Server

from ..conftest import Pair

FEW = {"max_locks_per_transaction": "10", "max_connections": "25"}
ROOM = 250
TABLES = ROOM + 50


@pytest.fixture(scope="module")
def source_server() -> Iterator[Server]:
    with PostgresServer(fsync=False, settings=FEW) as server:
        yield server


@pytest.fixture
def tables(pair: Pair) -> Pair:
    """As many tables as need three windows."""
    for first in range(0, TABLES, 50):
        numbers = range(first, first + 50)
        pair.source.run(
            *(
                f"CREATE TABLE t{n:03} (id int PRIMARY KEY, word text);"
                f"INSERT INTO t{n:03} VALUES (1, 'one'), (2, 'two')"
                for n in numbers
            )
        )
    return pair


def spec(pair: Pair, **options: Any) -> BatchSpec:
    arguments = {
        "source": pair.source.url,
        "target": pair.target.url,
        "mode": "recreate",
        "tables": ["public.*"],
        "run_id": "night",
        **options,
    }
    return BatchSpec.from_mapping(arguments, "test")


def locks(pair: Pair) -> int:
    """Return the number of tables that sessions of Penstock have locked in the source."""
    query = (
        "SELECT count(DISTINCT l.relation) FROM pg_locks AS l JOIN pg_class AS c "
        "ON c.oid = l.relation AND c.relkind = 'r' AND c.oid >= 16384 "
        "WHERE l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    return int(pair.source.value(query))


def until_first_commit(pair: Pair, events: list[Event], **options: Any) -> Iterator[Event]:
    """Run a batch until its first window has committed a table."""
    running = copy_all(spec(pair, **options))
    for event in running:
        events.append(event)
        if isinstance(event, Committed):
            return running
    raise AssertionError("nothing was committed")


def failed(events: Sequence[Event]) -> dict[str, str]:
    """Return the errors of the tables that have failed."""
    end = events[-1]
    assert isinstance(end, BatchFinished)
    return {
        table.table.removeprefix("public."): str((table.error or {}).get("message"))
        for table in end.tables
        if table.status != "done"
    }


def test_every_table_is_read_as_of_one_moment(tables: Pair) -> None:
    events: list[Event] = []
    running = until_first_commit(tables, events)
    assert 0 < locks(tables) <= WINDOW
    # The last window sees what the first has seen.
    tables.source.run(
        f"UPDATE t{TABLES - 1:03} SET word = 'late'", f"INSERT INTO t{TABLES - 1:03} VALUES (3)"
    )
    most = 0
    for event in running:
        events.append(event)
        if isinstance(event, Committed):
            most = max(most, locks(tables))
    assert failed(events) == {}
    assert most <= 2 * WINDOW
    assert locks(tables) == 0
    assert len({e.taken_at for e in events if isinstance(e, SnapshotChanged)}) == 1
    assert tables.target.rows(f"SELECT * FROM t{TABLES - 1:03} ORDER BY 1") == [
        (1, "one"),
        (2, "two"),
    ]
    for n in range(TABLES - 1):
        assert tables.target.count(f"t{n:03}") == 2


CHANGES = {
    "rewritten": ("t290", "ALTER TABLE t290 ALTER id TYPE bigint"),
    "moved": ("t290", "VACUUM FULL t290"),
    "emptied": ("t290", "TRUNCATE t290"),
    "emptied part": ("t290", "TRUNCATE t290_part"),
    "altered": ("t290", "ALTER TABLE t290 RENAME word TO text"),
    "column with a default": ("t290", "ALTER TABLE t290 ADD more int DEFAULT 7"),
    "dropped": ("t290", "DROP TABLE t290 CASCADE"),
    "recreated": ("t290", "ALTER TABLE t290 RENAME TO gone; CREATE TABLE t290 (LIKE gone)"),
    "other names": (
        "t290",
        "ALTER TABLE t290 RENAME id TO i; ALTER TABLE t290 RENAME word TO id;"
        "ALTER TABLE t290 RENAME i TO word",
    ),
    "detached": ("t290", "ALTER TABLE t290_part NO INHERIT t290"),
    "attached": ("t290", "ALTER TABLE older INHERIT t290"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_table_changed_before_it_is_locked_fails_alone(tables: Pair, change: str) -> None:
    table, statement = CHANGES[change]
    tables.source.run(
        "CREATE TABLE t290_part () INHERITS (t290)",
        "INSERT INTO t290_part VALUES (7, 'seven')",
        "CREATE TABLE older (id int NOT NULL, word text)",
    )
    options = {"exclude": ["public.older", "public.gone", "public.t290_part"]}
    events: list[Event] = []
    running = until_first_commit(tables, events, **options)
    tables.source.run(statement)
    # Nothing brings a dropped table back.
    expected_error = RunFailed if change == "dropped" else RunFailedTransiently
    with pytest.raises(expected_error, match="1 of 300 tables are not done"):
        events.extend(running)
    assert failed(events).keys() == {table}
    message = failed(events)[table]
    assert "public.t290" in message
    assert "altered, rewritten, emptied, dropped" in message or "does not exist" in message
    assert tables.target.value("SELECT to_regclass('t290')") is None
    if change == "dropped":
        return
    # The next execution reads it with a new snapshot, and nothing else.
    again = list(copy_all(spec(tables, **options)))
    assert failed(again) == {}
    assert len([event for event in again if isinstance(event, Committed)]) >= 1
    expected = tables.source.rows("SELECT * FROM t290 ORDER BY 1")
    assert tables.target.rows("SELECT * FROM t290 ORDER BY 1") == expected


def test_new_partitions_and_rows_change_nothing(tables: Pair) -> None:
    """Rows of a table that is younger than the snapshot are younger, too."""
    events: list[Event] = []
    running = until_first_commit(tables, events)
    tables.source.run(
        "CREATE TABLE t290_new () INHERITS (t290)",
        "INSERT INTO t290_new VALUES (3, 'three')",
        "VACUUM ANALYZE t291",
    )
    events.extend(running)
    assert failed(events) == {}
    assert tables.target.count("t290") == 2


def test_a_blocked_table_fails_alone(tables: Pair) -> None:
    events: list[Event] = []
    running = until_first_commit(tables, events)
    tables.source.run("BEGIN", "LOCK TABLE t290")
    try:
        with pytest.raises(RunFailedTransiently):
            events.extend(running)
    finally:
        tables.source.run("COMMIT")
    assert failed(events).keys() == {"t290"}
    assert "expected a reader's lock within" in failed(events)["t290"]


def test_a_lost_snapshot_is_replaced_for_the_tables_that_are_left(tables: Pair) -> None:
    events: list[Event] = []
    running = until_first_commit(tables, events, on_snapshot_lost="restart")
    tables.source.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name LIKE 'penstock:snapshot%' AND datname = current_database()"
    )
    try:
        events.extend(running)
    except (RunFailed, RunFailedTransiently) as error:
        raise AssertionError(failed(events)) from error
    assert failed(events) == {}
    for n in range(TABLES):
        assert tables.target.count(f"t{n:03}") == 2


def test_queries_and_views_are_compared_by_what_they_read(tables: Pair) -> None:
    tables.source.run("CREATE VIEW seen AS SELECT * FROM t295")
    names = [f"public.t{n:03}" for n in range(TABLES)]
    sections = [
        *({"table": name} for name in names if name not in ("public.t295", "public.t296")),
        {"table": "public.seen"},
        {"query": "SELECT id FROM t296", "target_table": "public.asked"},
        {"query": "SELECT id FROM t297", "target_table": "public.spared"},
    ]
    for change, table in (("TRUNCATE t295", "seen"), ("TRUNCATE t296", "query")):
        events: list[Event] = []
        running = until_first_commit(
            tables, events, table=sections, tables=[], run_id=f"of_{table}"
        )
        tables.source.run(change)
        with pytest.raises(RunFailedTransiently):
            events.extend(running)
        assert len(failed(events)) == 1, failed(events)
        (message,) = failed(events).values()
        assert table in message
