"""A batch that recreates existing tables exchanges small ones in one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from penstock import BatchSpec, RunFailed, copy_all
from penstock.events import BatchFinished, Committed, Event, StepChanged

from ..conftest import Pair
from .small_tables import make_small_tables

TABLES = 6


@pytest.fixture
def tables(pair: Pair) -> Pair:
    """Tables t0, t1, ... at both ends; the target's have other rows."""
    make_small_tables(pair, TABLES)
    for number in range(TABLES):
        pair.target.run(f"INSERT INTO t{number} VALUES (100, 'old')")
    return pair


def recreate(pair: Pair, **options: Any) -> Iterator[Event]:
    arguments = {"source": pair.source.url, "target": pair.target.url, "degree": 2, **options}
    tables = {"tables": ["public.t*"], "mode": "recreate"}
    return copy_all(BatchSpec.from_mapping({**arguments, **tables}, "test"))


def transactions(pair: Pair) -> int:
    """Return the number of transactions that gave the tables their names."""
    found = pair.target.value(
        "SELECT count(DISTINCT xmin::text) FROM pg_class "
        "WHERE relkind = 'r' AND relname ~ '^t[0-9]'"
    )
    return int(found)


def test_small_tables_are_exchanged_in_one_transaction(tables: Pair) -> None:
    *_, end = recreate(tables)
    assert isinstance(end, BatchFinished)
    assert (end.status, end.rows) == ("done", 5 * TABLES)
    assert transactions(tables) == 1
    for number in range(TABLES):
        tables.assert_same(f"public.t{number}")
    # Its records know the tables under their names.
    *_, again = recreate(tables)
    assert isinstance(again, BatchFinished)
    assert again.status == "done"


def test_a_reader_delays_its_own_table_alone(tables: Pair) -> None:
    with psycopg.connect(tables.target.url) as reader:
        assert reader.execute("SELECT word FROM t3").fetchall() == [("old",)]
        exchanged = 0
        for event in recreate(tables):
            if isinstance(event, StepChanged) and (event.step_id, event.state) == ("swap", "done"):
                exchanged += 1
            if exchanged == TABLES - 1:
                assert tables.target.value("SELECT word FROM t4 LIMIT 1") == "new"
                reader.rollback()
    assert exchanged == TABLES
    for number in range(TABLES):
        tables.assert_same(f"public.t{number}")


def test_a_table_that_somebody_emptied_fails_alone(tables: Pair) -> None:
    failures: list[str] = []

    def watched() -> None:
        committed = 0
        for event in recreate(tables):
            if isinstance(event, StepChanged) and event.state == "failed":
                failures.append(event.message)
            committed += isinstance(event, Committed)
            if isinstance(event, Committed) and committed == TABLES:
                beside = tables.target.value(
                    "SELECT oid::regclass::text FROM pg_class "
                    "WHERE relkind = 'r' AND relname LIKE 't2~_~_%' ESCAPE '~'"
                )
                tables.target.run(f"TRUNCATE {beside}")

    with pytest.raises(RunFailed, match=f"1 of {TABLES} tables are not done"):
        watched()
    (failure,) = failures
    assert "start a new run" in failure
    assert tables.target.value("SELECT string_agg(word, ' ' ORDER BY id) FROM t2") == "old"
    for number in (0, 1, 3, 4, 5):
        tables.assert_same(f"public.t{number}")
