"""Nights from PostgreSQL into DuckDB and MySQL: changes merged in one transaction."""

from __future__ import annotations

import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import psycopg
import pytest
from tests.cli import run_script
from tests.one_copy import OneCopy

import penstock
from penstock import CopySpec
from penstock.errors import Overtaken
from penstock.events import Committed, Event
from penstock.spec.modes import ModeName
from penstock_testkit.mysql import connect_mysql

if TYPE_CHECKING:
    from tests.conftest import Connection

ALL = "SELECT id, word FROM items ORDER BY id"
GONE = "SELECT id FROM items WHERE deleted_at IS NOT NULL ORDER BY id"


@dataclass
class Target(ABC):
    url: str
    table: str

    @abstractmethod
    def _opened(self) -> Any: ...

    def run(self, *statements: str) -> None:
        with closing(self._opened()) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with closing(self._opened()) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            return [tuple(row) for row in cursor.fetchall()]

    def stages(self) -> list[tuple[Any, ...]]:
        """Return the tables other than the target's own."""
        return self.rows(
            "SELECT table_name FROM information_schema.tables"
            " WHERE table_name LIKE 'items~%' OR table_name LIKE 'items-%'"
        )


class DuckTarget(Target):
    def _opened(self) -> Any:
        deadline = time.monotonic() + 30
        while True:
            try:
                return duckdb.connect(self.url.removeprefix("duckdb:///"))
            except duckdb.Error:  # a thread of a copy in this process has not closed it yet
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.1)


class MysqlTarget(Target):
    def _opened(self) -> Any:
        return connect_mysql(self.url)


@dataclass
class Ends:
    source_url: str
    source: Connection
    target: Target

    def night(self, **options: Any) -> OneCopy:
        arguments = {
            "mode": "upsert",
            "incremental": "xmin",
            "table": "public.items",
            "target_table": self.target.table,
            "degree": 1,
            **options,
        }
        return OneCopy(source=self.source_url, target=self.target.url, **arguments)

    def resume(self, run_id: str) -> None:
        for _ in penstock.resume(
            run_id, source=self.source_url, target=self.target.url, on_snapshot_lost="accept"
        ):
            pass

    def change(self, *statements: str) -> None:
        for statement in statements:
            self.source.execute(statement.encode())

    def check_same(self, query: str = ALL) -> None:
        assert self.target.rows(query) == self.source.execute(query.encode()).fetchall()


@pytest.fixture(params=["duckdb", "mysql"])
def ends(
    request: pytest.FixtureRequest, source_url: str, source: Connection, tmp_path: Path
) -> Ends:
    if request.param == "duckdb":
        target: Target = DuckTarget(f"duckdb:///{tmp_path}/t.duckdb", "main.items")
    else:
        url = request.getfixturevalue("mysql_url")
        target = MysqlTarget(url, f"{url.rpartition('/')[2].partition('?')[0]}.items")
    return Ends(source_url, source, target)


@pytest.fixture
def items(ends: Ends) -> Ends:
    ends.change(
        "CREATE TABLE items (id int PRIMARY KEY, word text, at timestamptz DEFAULT now())",
        "INSERT INTO items SELECT i, 'w' || i FROM generate_series(1, 1000) AS i",
    )
    return ends


def test_a_second_night_reads_what_has_changed(items: Ends) -> None:
    assert items.night(partitions=3).done().rows == 1000
    items.check_same()
    items.change(
        "UPDATE items SET word = 'x' WHERE id % 100 = 0",
        "UPDATE items SET word = NULL WHERE id = 1",
        "INSERT INTO items VALUES (2000, 'new')",
    )
    assert items.night().done().rows == 12
    items.check_same()
    assert items.night().done().rows == 0
    assert items.target.stages() == []


@pytest.mark.parametrize("mode", ["truncate", "recreate", "swap"])
@pytest.mark.parametrize("incremental", ["xmin", None])
def test_a_night_after_a_full_load_reads_what_has_changed(
    items: Ends, mode: ModeName, incremental: str | None
) -> None:
    if incremental:
        items.night(mode="recreate", incremental=None).done()
    else:
        items.night().done()
    items.night(mode=mode, incremental=incremental).done()
    items.change("UPDATE items SET word = 'x' WHERE id < 4", "DELETE FROM items WHERE id = 9")
    assert items.night(deletes="hard").done().rows == 3
    items.check_same()
    (name,) = {mark.name for mark in penstock.watermarks(target=items.target.url)}
    history = penstock.watermark_history(name, target=items.target.url)
    assert len(history) == (2 if incremental else 3)
    assert history[1].full == f"--mode {mode} reloads the table"


@pytest.mark.parametrize("mode", ["truncate", "swap"])
def test_a_full_load_whose_watermark_was_reset_sets_none(items: Ends, mode: ModeName) -> None:
    items.night(watermark="w").done()
    spec = CopySpec(
        source=items.source_url,
        target=items.target.url,
        table="public.items",
        target_table=items.target.table,
        mode=mode,
        incremental="xmin",
        watermark="w",
        run_id="late",
    )
    penstock.create(spec)
    penstock.reset_watermark("w", target=items.target.url)
    with pytest.raises(Overtaken):
        items.resume("late")
    assert len(penstock.watermark_history("w", target=items.target.url)) == 2
    items.night(watermark="w").done()
    items.check_same()


def test_all_partitions_are_replaced_in_one_transaction(items: Ends) -> None:
    options: dict[str, Any] = {"mode": "replace", "atomic": "table", "key": "id"}
    items.night(mode="recreate", incremental=None).done()
    items.change(
        "UPDATE items SET word = 'new'",
        "DELETE FROM items WHERE id % 7 = 0",
        "INSERT INTO items VALUES (0, 'first'), (9999, 'last')",
    )
    before, seen = items.target.rows(ALL), []
    spec = CopySpec(
        source=items.source_url,
        target=items.target.url,
        table="public.items",
        target_table=items.target.table,
        partitions=3,
        run_id="replaced",
        **options,
    )
    for event in penstock.copy(spec):
        # DuckDB allows one process at a time.
        if isinstance(event, Committed) and isinstance(items.target, MysqlTarget):
            seen.append(items.target.rows(ALL) == before)
    assert all(seen)
    items.check_same()
    assert items.target.stages() == []
    items.change("UPDATE items SET word = 'low' WHERE id < 100")
    items.night(**options, incremental=None, where="id < 100").done()
    items.check_same()
    ends: dict[str, Any] = {"source": items.source_url, "target": items.target.url}
    assert penstock.verify("replaced", **ends, checksum=True).ok


def test_the_watermark_records_the_result_of_a_night(items: Ends) -> None:
    items.night(watermark="w").done()
    items.change("UPDATE items SET word = 'x' WHERE id < 4", "DELETE FROM items WHERE id = 9")
    items.night(watermark="w", deletes="hard").done()
    last, first = penstock.watermark_history("w", target=items.target.url)
    assert (first.read, first.inserted, first.updated, first.rows) == (1000, 1000, 0, 1000)
    assert (last.read, last.inserted, last.updated, last.deleted, last.rows) == (3, 0, 3, 1, 999)
    assert last.made_at > first.made_at > ""


def test_a_transaction_that_commits_late_is_not_lost(items: Ends) -> None:
    with psycopg.connect(items.source_url) as late:
        late.execute("UPDATE items SET word = 'late' WHERE id = 1")
        items.night().done()
        items.change("UPDATE items SET word = 'early' WHERE id = 2")
        items.night().done()
        late.commit()
    items.night().done()
    items.check_same()


def test_rows_deleted_in_the_source_are_deleted(items: Ends) -> None:
    items.night(deletes="hard").done()
    items.change(
        "DELETE FROM items WHERE id % 7 = 0",
        "UPDATE items SET id = id + 5000 WHERE id % 10 = 1",
        "INSERT INTO items VALUES (14, 'back')",
    )
    items.night(deletes="hard").done()
    items.check_same()
    items.change("DELETE FROM items WHERE id = 500")
    items.night(deletes="hard").done()
    items.check_same()
    assert items.target.stages() == []


def test_rows_deleted_in_the_source_are_marked_until_they_return(items: Ends) -> None:
    items.night(deletes="soft").done()
    items.change("DELETE FROM items WHERE id IN (3, 4, 5)")
    items.night(deletes="soft").done()
    assert items.target.rows(GONE) == [(3,), (4,), (5,)]
    items.change("INSERT INTO items (id, word) VALUES (4, 'w4')")
    items.night(deletes="soft").done()
    assert items.target.rows(GONE) == [(3,), (5,)]
    items.change("DELETE FROM items WHERE id = 6")
    items.night(deletes="soft").done()
    assert items.target.rows(GONE) == [(3,), (5,), (6,)]


def test_too_many_deletes_change_nothing(items: Ends) -> None:
    items.night(deletes="hard").done()
    before = items.target.rows(ALL)
    items.change("DELETE FROM items", "INSERT INTO items VALUES (1, 'only')")
    refused = items.night(deletes="hard,10%,5")
    assert refused.code == 65
    assert "would lose 999 of 1,000" in refused.message
    assert items.target.rows(ALL) == before
    items.night(deletes="hard,100%").done()
    items.check_same()


def test_keys_of_several_columns_and_types(ends: Ends) -> None:
    ends.change(
        "CREATE TABLE items (word varchar(20) NOT NULL, id int, day date, PRIMARY KEY (day, id))",
        "INSERT INTO items SELECT 'w', i, date '2026-01-01' + i % 3"
        " FROM generate_series(1, 300) AS i",
    )
    query = "SELECT id, day, word FROM items ORDER BY id, day"
    ends.night(deletes="hard").done()
    ends.check_same(query)
    ends.change("DELETE FROM items WHERE id % 50 = 0", "UPDATE items SET word = 'x' WHERE id < 5")
    ends.night(deletes="hard").done()
    ends.check_same(query)


def test_texts_that_differ_in_spelling_are_different_keys(ends: Ends) -> None:
    ends.change(
        "CREATE TABLE items (word varchar(20) PRIMARY KEY, id int)",
        "INSERT INTO items VALUES ('a', 1), ('A', 2), ('ä', 3), ('b', 4), ('b ', 5), ('', 6)",
    )
    ends.night(deletes="hard").done()
    ends.check_same()
    ends.change(
        "DELETE FROM items WHERE word IN ('A', 'b')", "UPDATE items SET id = 7 WHERE id = 5"
    )
    ends.night(deletes="hard").done()
    ends.check_same()


def test_a_row_whose_key_has_changed_does_not_collide(ends: Ends) -> None:
    ends.change(
        "CREATE TABLE items (id int PRIMARY KEY, word varchar(20) NOT NULL UNIQUE)",
        "INSERT INTO items SELECT i, 'w' || i FROM generate_series(1, 100) AS i",
    )
    ends.target.run("CREATE TABLE items (id int PRIMARY KEY, word varchar(20) NOT NULL UNIQUE)")
    ends.night(deletes="hard").done()
    ends.change("UPDATE items SET id = id + 1000 WHERE id <= 5")
    ends.night(deletes="hard").done()
    ends.check_same()


def test_values_of_many_types_and_null(ends: Ends) -> None:
    ends.change(
        "CREATE TABLE items (id bigint PRIMARY KEY, word text, n numeric(12, 2), day date,"
        " at timestamp, f float8, yes boolean, raw bytea)",
        "INSERT INTO items SELECT i, 'ä' || i, i / 100.0, date '2026-01-01' + i,"
        " timestamp '2026-01-01 12:00:00.25' + i * interval '1 s', i / 4.0, i % 2 = 0,"
        " sha256(i::text::bytea) FROM generate_series(1, 100) AS i",
        "INSERT INTO items (id) VALUES (0)",
    )
    query = "SELECT id, word, n, day, at, f, raw FROM items ORDER BY id"
    query = query.replace("at,", "items.at,")  # a reserved word in DuckDB
    ends.night(verify="checksums").done()
    ends.check_same(query)
    ends.change(
        "UPDATE items SET word = NULL, n = NULL, day = NULL, at = NULL, raw = NULL WHERE id < 10",
        "UPDATE items SET word = 'back', n = -1.5, f = 0, yes = false, raw = '' WHERE id = 0",
        "UPDATE items SET raw = word::bytea WHERE id = 50",
    )
    assert ends.night(verify="checksums").done().rows == 11
    ends.check_same(query)


def test_rows_outside_the_condition_are_kept(items: Ends) -> None:
    where = {"where": "id <= 500", "deletes": "hard"}
    items.night(**where).done()
    items.target.run("INSERT INTO items (id, word) VALUES (900, 'own')")
    items.change("DELETE FROM items WHERE id IN (10, 20)")
    items.night(**where).done()
    assert items.target.rows("SELECT id FROM items WHERE id IN (10, 20, 900)") == [(900,)]


def test_a_target_changed_by_another_user_is_reloaded(items: Ends) -> None:
    items.night().done()
    items.target.run("DELETE FROM items WHERE id < 100")
    assert items.night().done().rows == 1000
    items.check_same()
    assert items.night().done().rows == 0


def test_a_recreated_target_is_reloaded(items: Ends) -> None:
    items.night().done()
    items.target.run("DROP TABLE items")
    assert items.night().done().rows == 1000
    items.check_same()


def test_a_key_that_is_null_changes_nothing(ends: Ends) -> None:
    ends.change(
        "CREATE TABLE items (id int UNIQUE, word text)", "INSERT INTO items VALUES (1, 'a')"
    )
    ends.night(conflict_columns=["id"]).done()
    ends.change("INSERT INTO items VALUES (NULL, 'b'), (2, 'c')")
    refused = ends.night(conflict_columns=["id"])
    assert refused.code == 65
    assert "NULL" in refused.message
    assert ends.target.rows(ALL) == [(1, "a")]


def test_leftovers_of_a_failed_night_are_dropped_by_the_next(items: Ends) -> None:
    items.change("ALTER TABLE items DROP at", "INSERT INTO items VALUES (0, 'bad')")
    items.target.run(
        "CREATE TABLE items (id int PRIMARY KEY, word varchar(100), CHECK (word <> 'bad'))"
    )
    assert items.night(deletes="hard").code == 65
    assert len(items.target.stages()) == 2
    assert items.target.rows(ALL) == []
    items.change("UPDATE items SET word = 'good' WHERE id = 0")
    items.night(deletes="hard").done()
    assert items.target.stages() == []
    items.check_same()


def test_an_upsert_can_be_atomic(items: Ends) -> None:
    arguments = {"incremental": None, "atomic": "table", "partitions": 2, "deletes": "hard"}
    items.night(**arguments).done()
    items.check_same()
    items.change("DELETE FROM items WHERE id > 990", "UPDATE items SET word = 'x' WHERE id < 3")
    items.night(**arguments).done()
    items.check_same()
    assert items.target.stages() == []


def events_of(ends: Ends, **options: Any) -> Generator[Event]:
    arguments = {"mode": "upsert", "incremental": "xmin", "table": "public.items", "degree": 1}
    spec = CopySpec(
        source=ends.source_url,
        target=ends.target.url,
        target_table=ends.target.table,
        **{**arguments, **options},
    )
    yield from penstock.copy(spec)


def until_committed(events: Iterator[Event]) -> None:
    for event in events:
        if isinstance(event, Committed):
            return
    raise AssertionError("expected a partition to be committed")


def test_an_overtaken_night_merges_nothing(items: Ends) -> None:
    items.night(watermark="w").done()
    before = items.target.rows(ALL)
    items.change("UPDATE items SET word = 'x'")
    with closing(events_of(items, watermark="w")) as events:
        until_committed(events)
        penstock.reset_watermark("w", target=items.target.url)
        with pytest.raises(Overtaken) as caught:
            list(events)
    assert caught.value.exit_code == 75
    assert items.target.rows(ALL) == before
    items.night(watermark="w").done()
    items.check_same()
    assert items.target.stages() == []


def test_a_run_that_wakes_after_the_next_night_merges_nothing(items: Ends) -> None:
    items.night(watermark="w").done()
    items.change("UPDATE items SET word = 'x' WHERE id = 1")
    with closing(events_of(items, watermark="w", run_id="stopped")) as events:
        until_committed(events)
    items.change("UPDATE items SET word = 'y' WHERE id = 1")
    items.night(watermark="w").done()
    before = items.target.rows(ALL)
    with pytest.raises(Overtaken):
        items.resume("stopped")
    assert items.target.rows(ALL) == before
    assert items.target.stages() == []


def test_two_nights_at_once_lose_nothing(items: Ends) -> None:
    items.night(watermark="w").done()
    items.change("UPDATE items SET word = 'x' WHERE id = 1")
    with closing(events_of(items, watermark="w", run_id="first")) as events:
        until_committed(events)
        second = items.night(watermark="w")
        assert second.code == 75
        assert "first" in second.message
        list(events)
    items.check_same()


DYING = """
import os, signal, sys
from penstock.backends.sql.loads import merged_nights
from penstock.backends.sql.loads.night import DROP
from penstock.backends.sql.server.load_hooks import ServerLoadHooks
from penstock.cli.main import main
from penstock.engine.state import RunState

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

moment = sys.argv.pop(1)
if moment == "before":
    merge = merged_nights.merge
    merged_nights.merge = lambda *given: (merge(*given), die())
elif moment == "before the stage is dropped":
    do = ServerLoadHooks.do
    ServerLoadHooks.do = lambda runs, run, step: die() if step.id == DROP else do(runs, run, step)
else:
    RunState.merged_event = die
main()
"""


@pytest.mark.parametrize("moment", ["before", "before the stage is dropped", "after"])
def test_a_kill_around_the_commit_of_the_merge(items: Ends, moment: str) -> None:
    if "stage" in moment and isinstance(items.target, DuckTarget):
        pytest.skip("it is dropped in the transaction that merges it")
    items.night(watermark="w", deletes="hard").done()
    before = items.target.rows(ALL)
    items.change("DELETE FROM items WHERE id < 10", "UPDATE items SET word = 'x' WHERE id > 990")
    words = ("--source", items.source_url, "--target", items.target.url)
    chosen = ("--table", "public.items", "--target-table", items.target.table)
    night = ("--mode", "upsert", "--incremental", "xmin", "--watermark", "w", "--deletes", "hard")
    code = run_script(DYING, moment, "copy", *words, *chosen, *night, "--run-id", "r")
    assert code == -signal.SIGKILL
    if moment == "before":
        assert items.target.rows(ALL) == before
    else:
        items.check_same()
    items.resume("r")
    items.check_same()
    assert items.target.stages() == []
    last, _ = penstock.watermark_history("w", target=items.target.url)
    assert (last.run_id, last.updated, last.deleted) == ("r", 10, 9)
    assert items.night(watermark="w", deletes="hard").done().rows == 0
