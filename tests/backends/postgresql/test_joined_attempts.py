"""Small tables of a batch are copied in groups: one transaction for many of them."""

from __future__ import annotations

import os
import signal
from typing import Any

import psycopg
import pytest

from penstock import BatchSpec, RunFailed, copy_all
from penstock.events import BatchFinished, Committed, Event, Failed, Opened

from ..conftest import Pair
from .small_tables import make_small_tables

TABLES = 24


@pytest.fixture
def tables(pair: Pair) -> Pair:
    return make_small_tables(pair, TABLES)


def spec(pair: Pair, **options: Any) -> BatchSpec:
    arguments = {"source": pair.source.url, "target": pair.target.url, "degree": 1, **options}
    return BatchSpec.from_mapping({"mode": "append", "tables": ["public.t*"], **arguments}, "test")


def transactions(pair: Pair, run_ids: str = "%") -> int:
    """Return the number of transactions in which partitions were committed."""
    query = (
        "SELECT count(DISTINCT transaction) FROM penstock.commit_record "
        f"WHERE run_id LIKE '{run_ids}'"
    )
    return int(pair.target.value(query))


def assert_all_same(pair: Pair) -> None:
    for number in range(TABLES):
        pair.assert_same(f"public.t{number}")


@pytest.mark.parametrize("mode", ["append", "truncate", "recreate", "swap"])
def test_many_tables_are_committed_in_few_transactions(tables: Pair, mode: str) -> None:
    events = list(copy_all(spec(tables, mode=mode)))
    end = events[-1]
    assert isinstance(end, BatchFinished)
    assert (end.status, end.rows) == ("done", 5 * TABLES)
    assert transactions(tables) <= TABLES // 4
    assert_all_same(tables)
    committed = [event for event in events if isinstance(event, Committed)]
    assert sorted(event.rows for event in committed) == [5] * TABLES
    assert all(event.bytes > 0 for event in committed)
    assert len([event for event in events if isinstance(event, Opened)]) == TABLES


def test_a_table_that_rejects_a_row_fails_alone(tables: Pair) -> None:
    tables.target.run("ALTER TABLE t7 ADD CHECK (id < 5)")
    seen: list[Event] = []
    with pytest.raises(RunFailed, match=f"1 of {TABLES} tables are not done"):
        seen.extend(copy_all(spec(tables)))
    assert tables.target.value("SELECT count(*) FROM t7") == 0
    for number in set(range(TABLES)) - {7}:
        tables.assert_same(f"public.t{number}")
    # Its own attempt says why.
    (failed,) = (event for event in seen if isinstance(event, Failed))
    assert failed.error["constraint"] == "t7_id_check"
    assert transactions(tables) < TABLES


def test_a_deferred_constraint_that_fails_at_the_commit(tables: Pair) -> None:
    tables.target.run(
        "ALTER TABLE t3 ADD FOREIGN KEY (id) REFERENCES t3 (id) DEFERRABLE INITIALLY DEFERRED",
        "CREATE TABLE parent (id int PRIMARY KEY)",
        "ALTER TABLE t9 ADD FOREIGN KEY (id) REFERENCES parent DEFERRABLE INITIALLY DEFERRED",
    )
    with pytest.raises(RunFailed, match=f"1 of {TABLES} tables are not done"):
        list(copy_all(spec(tables)))
    assert tables.target.value("SELECT count(*) FROM t9") == 0
    for number in set(range(TABLES)) - {9}:
        tables.assert_same(f"public.t{number}")


def test_a_locked_table_is_waited_for_alone(tables: Pair) -> None:
    """The other tables are committed while one is locked."""
    with psycopg.connect(tables.target.url) as other:
        other.execute("LOCK TABLE t5 IN SHARE MODE")
        committed = 0
        for event in copy_all(spec(tables, degree=2)):
            committed += isinstance(event, Committed)
            if committed == TABLES - 1:
                other.rollback()
    assert_all_same(tables)


def test_a_killed_worker_loses_its_group_and_no_more(tables: Pair) -> None:
    killed = False
    seen: list[Event] = []
    with psycopg.connect(tables.target.url) as other:
        other.execute("LOCK TABLE t5 IN SHARE MODE")
        for event in copy_all(spec(tables)):
            seen.append(event)
            if isinstance(event, Opened) and not killed and len(seen) > 40:
                os.kill(event.pid, signal.SIGKILL)
                killed = True
                other.rollback()
    assert killed
    end = seen[-1]
    assert isinstance(end, BatchFinished)
    assert end.status == "done"
    lost = [event for event in seen if isinstance(event, Failed)]
    assert 1 <= len(lost) <= 20
    assert all(event.error["error"] == "WorkerLost" for event in lost)
    assert_all_same(tables)


def test_a_second_execution_copies_nothing_again(tables: Pair) -> None:
    list(copy_all(spec(tables, run_id="joined")))
    events = list(copy_all(spec(tables, run_id="joined")))
    assert not [event for event in events if isinstance(event, Opened | Failed)]
    assert_all_same(tables)


def test_a_night_in_which_little_changed_costs_few_transactions(tables: Pair) -> None:
    night = {"mode": "upsert", "incremental": "xmin"}
    list(copy_all(spec(tables, **night)))
    tables.source.run("UPDATE t7 SET word = 'newer' WHERE id = 3", "INSERT INTO t8 VALUES (9)")
    before = transactions(tables)
    events = list(copy_all(spec(tables, **night)))
    end = events[-1]
    assert isinstance(end, BatchFinished)
    assert (end.status, end.rows) == ("done", 2)
    assert transactions(tables) - before <= TABLES // 4
    assert_all_same(tables)
