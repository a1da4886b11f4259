"""Nights by a column from PostgreSQL, one rule at a time."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from tests.backends.conftest import Pair, Side
from tests.nights.by_column import by_column, merged
from tests.one_copy import OneCopy

import penstock
from penstock import CopySpec
from penstock.events import Planned
from penstock.model.nights import Cursor, Watermark

BY_CHANGED = {
    "table": "public.items",
    "mode": "upsert",
    "incremental": "changed",
    "lookback": "0",
}
ALL = "SELECT id, word, changed::text FROM items ORDER BY id"


@pytest.fixture
def pair(source_url: str, target_url: str, source: psycopg.Connection[Any], target: Any) -> Pair:
    return Pair(Side(source_url, source), Side(target_url, target))


@pytest.fixture
def items(pair: Pair) -> Pair:
    pair.source.run(
        "CREATE TABLE items (id int PRIMARY KEY, word text, changed timestamptz)",
        "INSERT INTO items SELECT i, 'w' || i, timestamptz '2026-01-01 00:00:00.123456+00'"
        " + i * interval '1 min' FROM generate_series(1, 200) AS i",
        "CREATE INDEX ON items (changed)",
    )
    return pair


def night(pair: Pair, **options: Any) -> OneCopy:
    return by_column(pair.source.url, pair.target.url, **options)


def check_same(pair: Pair) -> None:
    assert pair.target.rows(ALL) == pair.source.rows(ALL)


def test_only_changed_rows_are_read(items: Pair) -> None:
    first = merged(night(items))
    assert (first.full, first.rows) == ("this is the first night", 200)
    items.source.run("UPDATE items SET word = 'new', changed = now() WHERE id = 5")
    second = merged(night(items))
    # The row with the greatest value of the last night is read again.
    assert (second.full, second.rows, second.updated) == ("", 2, 1)
    check_same(items)


def watermark(pair: Pair) -> Watermark:
    """Return the watermark that the last night set."""
    (found,) = penstock.watermarks(target=pair.target.url)
    return found


def cursor(pair: Pair) -> Cursor:
    found = watermark(pair).cursor
    assert found is not None
    return found


def refusal(pair: Pair, **options: Any) -> str:
    found = night(pair, **options)
    assert found.code == 65, found.message
    return found.message


def test_the_bound_has_every_digit_and_is_in_utc(items: Pair) -> None:
    items.source.run(
        f"ALTER DATABASE {items.source.connection.info.dbname} SET timezone = 'America/New_York'"
    )
    merged(night(items))
    assert cursor(items).text == "2026-01-01 03:20:00.123456+00"
    items.source.run(
        "UPDATE items SET word = 'above', changed = '2026-01-01 03:20:00.123457+00' WHERE id = 1",
        "UPDATE items SET word = 'below', changed = '2026-01-01 03:20:00.123455+00' WHERE id = 2",
    )
    assert merged(night(items)).updated == 1
    assert items.target.rows("SELECT word FROM items WHERE id < 3 ORDER BY id") == [
        ("above",),
        ("w2",),
    ]
    # A lookback that reaches one microsecond further.
    merged(night(items, lookback="1s"))
    check_same(items)


def commit_late(pair: Pair, **options: Any) -> None:
    """Commit a row after a night, in a transaction that began before it."""
    pair.source.run("UPDATE items SET changed = now() WHERE id = 200")
    merged(night(pair, **options))
    with psycopg.connect(pair.source.url) as late:
        late.execute("UPDATE items SET word = 'late', changed = now() WHERE id = 1")
        late.execute("INSERT INTO items VALUES (1001, 'late', now())")
        pair.source.run("UPDATE items SET word = 'early', changed = clock_timestamp() WHERE id = 2")
        merged(night(pair, **options))


def test_late_commits_are_missed_without_a_lookback(items: Pair) -> None:
    commit_late(items, deletes="hard")
    found = merged(night(items, deletes="hard"))
    assert items.target.count("items", "word = 'late'") == 0
    assert "trigger" in found.unproven
    # Both sides have the same number of rows: one was deleted, one was lost.
    items.source.run("DELETE FROM items WHERE id = 7")
    assert merged(night(items, deletes="hard")).deleted == 1
    assert items.target.count("items", "id = 7") == 0
    # A night that reads all rows finds them.
    assert "--full-every" in merged(night(items, deletes="hard", full_every="0s")).full
    check_same(items)


def test_a_long_enough_lookback_finds_late_commits(items: Pair) -> None:
    commit_late(items, lookback="1h")
    merged(night(items, lookback="1h"))
    check_same(items)


SETS = (
    "CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql AS"
    " 'BEGIN NEW.changed := now(); RETURN NEW; END'",
    "CREATE TRIGGER note_change BEFORE INSERT OR UPDATE ON items"
    " FOR EACH ROW EXECUTE FUNCTION note_change()",
)


def test_a_column_set_by_a_trigger_is_proven(items: Pair) -> None:
    items.source.run(*SETS)
    commit_late(items, deletes="hard")
    items.source.run("DELETE FROM items WHERE id = 7")
    found = merged(night(items, deletes="hard"))
    assert (found.unproven, found.full, found.deleted) == ("", "", 1)
    # Not all rows, because the bound is recent.
    assert found.rows < 200
    check_same(items)


def proof(pair: Pair, source: str = "") -> str:
    """Return the part of a plan that says whether rows can be missed."""
    plan = penstock.plan(
        CopySpec(
            source=source or pair.source.url,
            target=pair.target.url,
            table="public.items",
            mode="upsert",
            incremental="changed",
            lookback="0",
        )
    )
    (proof_text,) = (each for each in plan.reasons if each.startswith("nights by changed: "))
    return proof_text.removeprefix("nights by changed: ")


def test_the_proof_needs_a_suitable_trigger(items: Pair) -> None:
    run = items.source.run
    assert "items has no row trigger that runs last BEFORE INSERT" in proof(items)
    run(*SETS)
    assert proof(items).startswith("proven")
    run("ALTER TABLE items DISABLE TRIGGER note_change")
    assert proof(items).startswith("not proven")
    run("ALTER TABLE items ENABLE TRIGGER note_change")
    run(
        "CREATE TRIGGER z BEFORE UPDATE ON items FOR EACH ROW"
        " EXECUTE FUNCTION suppress_redundant_updates_trigger()"
    )
    assert "items has no row trigger that runs last BEFORE UPDATE" in proof(items)
    run("DROP TRIGGER z ON items", "ALTER TABLE items ALTER changed TYPE timestamptz(0)")
    assert "microseconds" in proof(items)


STALE = "UPDATE items SET word = 'stale' WHERE id = 3"
NOTES = "CREATE OR REPLACE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql AS "
NOTHING = f"{NOTES} 'BEGIN RETURN NEW; END'"
LATER = (
    "CREATE FUNCTION keep_time() RETURNS trigger LANGUAGE plpgsql AS"
    " 'BEGIN NEW.changed := OLD.changed; RETURN NEW; END'",
    "CREATE TRIGGER zz BEFORE UPDATE ON items FOR EACH ROW EXECUTE FUNCTION keep_time()",
)


@pytest.mark.parametrize(
    "statements",
    [
        ("DROP TRIGGER note_change ON items", STALE, SETS[1]),
        (NOTHING, STALE, SETS[0].replace("CREATE", "CREATE OR REPLACE")),
        (*LATER, STALE, "DROP TRIGGER zz ON items"),
        (*LATER, STALE, "DROP FUNCTION keep_time CASCADE"),
        (*LATER, STALE, "ALTER TABLE items DISABLE TRIGGER zz"),
        (
            "ALTER TABLE items DISABLE TRIGGER note_change",
            STALE,
            "ALTER TABLE items ENABLE TRIGGER note_change",
        ),
        (
            "ALTER TABLE items DISABLE TRIGGER ALL",
            STALE,
            "ALTER TABLE items ENABLE TRIGGER ALL",
        ),
        (
            "ALTER TABLE items ENABLE REPLICA TRIGGER note_change",
            STALE,
            "ALTER TABLE items ENABLE TRIGGER note_change",
        ),
        (
            "ALTER FUNCTION note_change RENAME TO other",
            NOTHING,
            "DROP TRIGGER note_change ON items",
            SETS[1],
            STALE,
            "DROP FUNCTION note_change CASCADE",
            "ALTER FUNCTION other RENAME TO note_change",
            SETS[1],
        ),
        ("ALTER TABLE items ALTER word TYPE text USING word || '!'",),
    ],
)
def test_rows_written_while_the_trigger_was_away_are_read(
    items: Pair, statements: tuple[str, ...]
) -> None:
    items.source.run(*SETS, "UPDATE items SET word = word WHERE id = 200")
    merged(night(items))
    assert merged(night(items)).full == ""
    with psycopg.connect(items.source.url, autocommit=True) as other:
        for each in statements:
            other.execute(each)
    found = merged(night(items, deletes="hard"))
    assert "since the last night" in found.full
    check_same(items)
    assert (found.unproven, merged(night(items)).full) == ("", "")


def test_a_proof_that_ends_is_named_and_all_rows_are_read(items: Pair) -> None:
    items.source.run(*SETS, "UPDATE items SET word = word WHERE id = 200")
    merged(night(items))
    items.source.run("DROP TRIGGER note_change ON items", STALE)
    found = merged(night(items, deletes="hard"))
    assert "the trigger that sets changed" in found.full
    assert "no row trigger" in found.unproven
    check_same(items)
    assert merged(night(items)).full == ""


def test_rows_of_a_transaction_older_than_the_function_are_read(items: Pair) -> None:
    """Replacing a function waits for nobody, so its earlier version may have written the row."""
    items.source.run(NOTHING, SETS[1])
    with psycopg.connect(items.source.url) as late:
        late.execute(STALE)
        items.source.run(
            SETS[0].replace("CREATE", "CREATE OR REPLACE"),
            "UPDATE items SET word = word WHERE id = 200",
        )
        merged(night(items))
    assert "or while transactions were open" in merged(night(items)).full
    check_same(items)
    assert merged(night(items)).full == ""


def test_other_changes_of_the_catalog_keep_the_proof(items: Pair) -> None:
    run = items.source.run
    run(*SETS, "UPDATE items SET word = word WHERE id = 200")
    run("CREATE TABLE other (id int PRIMARY KEY)", "CREATE TABLE child (id int REFERENCES other)")
    with psycopg.connect(items.source.url, autocommit=True) as other:
        merged(night(items))
        for each in (
            "ANALYZE items",
            "VACUUM (FREEZE) items",
            *(f"VACUUM (FULL, FREEZE) {each}" for each in ("pg_trigger", "pg_proc", "items")),
            "VACUUM FREEZE pg_attribute",
            "CREATE INDEX ON items (word)",
            "DROP TABLE child",
            "CREATE TABLE next (id int REFERENCES other)",
        ):
            other.execute(each)
    assert merged(night(items)).full == ""
    assert proof(items).startswith("proven")


def test_the_proof_needs_now_to_be_the_server_s(items: Pair) -> None:
    items.source.run(*SETS)
    assert proof(items).startswith("proven")
    items.source.run(
        "CREATE FUNCTION now() RETURNS timestamptz LANGUAGE sql AS 'SELECT NULL::timestamptz'"
    )
    assert "expected pg_catalog.now()" in proof(items)
    items.source.run(f"{NOTES} 'BEGIN NEW.changed := pg_catalog.now(); RETURN NEW; END'")
    assert proof(items).startswith("proven")


def test_a_trigger_that_always_fires_needs_no_assumption(items: Pair) -> None:
    items.source.run(*SETS)
    assert "as long as no session sets session_replication_role" in proof(items)
    items.source.run("ALTER TABLE items ENABLE ALWAYS TRIGGER note_change")
    assert "as long as" not in proof(items)


def test_the_proof_needs_the_privilege_to_see_all_transactions(items: Pair) -> None:
    run, role = items.source.run, f"reader_{items.source.connection.info.dbname}"
    run(*SETS, f"CREATE ROLE {role} LOGIN", f"GRANT SELECT ON items TO {role}")
    parts = urlsplit(items.source.url)
    url = parts._replace(netloc=f"{role}@{parts.netloc.rpartition('@')[2]}").geturl()
    try:
        assert "pg_read_all_stats" in proof(items, url)
        run(f"GRANT pg_read_all_stats TO {role}")
        assert proof(items, url).startswith("proven")
    finally:
        run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_rows_without_a_value_are_rejected_or_always_read(items: Pair) -> None:
    items.source.run("INSERT INTO items VALUES (300, 'none', NULL), (301, 'none', NULL)")
    assert "2 rows without a value (NULL)" in refusal(items)
    merged(night(items, null_cursor="include"))
    items.source.run("UPDATE items SET word = 'still' WHERE id = 300")
    assert merged(night(items, null_cursor="include")).rows == 3
    check_same(items)


def test_nights_by_two_columns(items: Pair) -> None:
    items.source.run(
        "ALTER TABLE items ADD made timestamptz",
        "UPDATE items SET made = changed, changed = NULL WHERE id > 150",
    )
    merged(night(items, incremental="changed,made"))
    items.source.run(
        "INSERT INTO items VALUES (400, 'made', NULL, '2026-02-01')",
        "UPDATE items SET word = 'changed', changed = '2026-02-02' WHERE id = 160",
        "UPDATE items SET word = 'old', changed = '2020-01-01', made = '2026-03-01' WHERE id = 161",
    )
    found = merged(night(items, incremental="changed,made"))
    assert (found.full, found.updated, found.inserted) == ("", 1, 1)
    assert cursor(items).text.startswith("2026-02-02")
    assert (
        "read by changed, made, not by changed" in merged(night(items, null_cursor="include")).full
    )
    check_same(items)


def test_a_value_far_in_the_future_is_rejected_or_ignored(items: Pair) -> None:
    merged(night(items))
    items.source.run("UPDATE items SET changed = now() + interval '3 days' WHERE id = 17")
    assert "in the row id = 17: correct it" in refusal(items)
    merged(night(items, max_ahead="0s"))
    # It is not used as a bound, which would hide everything before it.
    items.source.run("UPDATE items SET word = 'now', changed = now() WHERE id = 3")
    assert merged(night(items, max_ahead="0s")).full == ""
    check_same(items)
    items.source.run("UPDATE items SET changed = 'infinity' WHERE id = 18")
    assert "found infinity" in refusal(items, max_ahead="0s")


def test_a_run_planned_before_a_later_night_merges_nothing(items: Pair) -> None:
    merged(night(items))
    items.source.run("UPDATE items SET word = 'old', changed = now() WHERE id = 1")
    ends: dict[str, Any] = {"source": items.source.url, "target": items.target.url}
    copy_options: dict[str, Any] = {**ends, **BY_CHANGED}
    penstock.create(CopySpec(**copy_options, run_id="late"))
    items.source.run("UPDATE items SET word = 'new', changed = clock_timestamp() WHERE id = 1")
    merged(night(items))
    with pytest.raises(penstock.PenstockError, match="moved it to epoch 2") as caught:
        list(penstock.resume("late", **ends))
    assert caught.value.exit_code == 75
    check_same(items)


def test_a_run_keeps_its_bounds(items: Pair) -> None:
    merged(night(items))
    items.source.run("UPDATE items SET word = 'one', changed = '2026-02-01' WHERE id = 1")
    ends: dict[str, Any] = {"source": items.source.url, "target": items.target.url}
    copy_options: dict[str, Any] = {**ends, **BY_CHANGED}
    penstock.create(CopySpec(**copy_options, run_id="planned"))
    items.source.run("UPDATE items SET word = 'two', changed = '2026-02-02' WHERE id = 2")
    list(penstock.resume("planned", **ends))
    check_same(items)
    # The run has read rows above its bound; they are read again.
    assert cursor(items).text.startswith("2026-02-01")
    assert merged(night(items)).rows == 2


def test_nights_by_a_number(items: Pair) -> None:
    items.source.run(
        "ALTER TABLE items ADD version numeric",
        "UPDATE items SET version = id + 9007199254740993.25",
    )
    merged(night(items, incremental="version"))
    assert cursor(items).text == "9007199254741193.25"
    items.source.run("UPDATE items SET word = 'x', version = 9007199254741193.26 WHERE id = 1")
    assert merged(night(items, incremental="version")).rows == 2
    assert merged(night(items, incremental="version", lookback="10.01")).rows == 12
    assert "expected a number" in refusal(items, incremental="version", lookback="1h")
    assert "expected a duration" in refusal(items, lookback="5")
    check_same(items)


def test_wrong_options_are_rejected(items: Pair) -> None:
    assert "no such column in public.items: 'chnaged'" in refusal(items, incremental="chnaged")
    assert "expected word to be of type date, " in refusal(items, incremental="word")
    for options, words in (
        ({"lookback": None}, "expected --lookback: a row whose transaction"),
        ({"lookback": "soon"}, "expected a duration"),
        ({"mode": "append"}, "expected --mode upsert"),
        ({"incremental": "xmin"}, "--lookback: expected --incremental COLUMN"),
        ({"incremental": "changed,changed"}, "distinct columns"),
    ):
        found = night(items, **options)
        assert (found.code, words in found.message) == (64, True), found.message


def test_changing_the_kind_of_increment_reads_all_rows(items: Pair) -> None:
    merged(night(items, incremental="xmin", lookback=None))
    assert "read by row versions, not by changed" in merged(night(items)).full
    again = merged(night(items, incremental="xmin", lookback=None))
    assert again.full == "the last night was read by changed, not by row versions"


@pytest.mark.parametrize("mode", ["truncate", "recreate"])
def test_a_load_of_all_rows_sets_the_watermark(items: Pair, mode: str) -> None:
    merged(night(items))
    items.source.run("UPDATE items SET word = 'new' WHERE id < 10")
    # With the option, and without it if there is one.
    for copy_options in ({}, {"incremental": None, "lookback": None}):
        night(items, mode=mode, **copy_options).done()
        items.source.run("UPDATE items SET word = word || '+', changed = now() WHERE id = 5")
        found = merged(night(items))
        assert (found.full, found.updated) == ("", 1)
        check_same(items)


def test_an_attached_partition_is_read_whole(pair: Pair) -> None:
    columns = "(id int PRIMARY KEY, word text, changed timestamptz)"
    pair.source.run(
        f"CREATE TABLE items {columns} PARTITION BY RANGE (id)",
        "CREATE TABLE items_1 PARTITION OF items FOR VALUES FROM (0) TO (100)",
        f"CREATE TABLE items_2 {columns}",
        "INSERT INTO items VALUES (1, 'a', '2026-01-02')",
        "INSERT INTO items_2 VALUES (101, 'old', '2020-01-01')",
    )
    pair.target.run(f"CREATE TABLE items {columns}")
    merged(night(pair))
    pair.source.run("ALTER TABLE items ATTACH PARTITION items_2 FOR VALUES FROM (100) TO (200)")
    assert merged(night(pair)).full == ""
    check_same(pair)


def test_nights_from_a_view(items: Pair) -> None:
    items.source.run("CREATE VIEW even AS SELECT * FROM items WHERE id % 2 = 0")
    items.target.run("CREATE TABLE items (id int PRIMARY KEY, word text, changed timestamptz)")
    copy_options = {
        "table": "public.even",
        "target_table": "public.items",
        "conflict_columns": ("id",),
    }
    assert merged(night(items, **copy_options)).rows == 100
    items.source.run("UPDATE items SET word = 'new', changed = now() WHERE id = 4")
    found = merged(night(items, **copy_options))
    assert (found.full, found.updated) == ("", 1)
    items.source.run("CREATE OR REPLACE VIEW even AS SELECT * FROM items WHERE id % 4 = 0")
    assert merged(night(items, **copy_options)).full == "the source has changed: another view"


def test_an_index_finds_the_rows_of_a_large_table(items: Pair) -> None:
    items.source.run(
        "ALTER TABLE items ADD big text",
        "INSERT INTO items SELECT i, 'w', timestamptz '2025-01-01' + i * interval '1 min',"
        " repeat('x', 1000) FROM generate_series(1001, 21000) AS i",
        "ANALYZE items",
    )
    first = night(items)
    merged(first)
    found = night(items)
    assert merged(found).rows == 1
    (planned,) = (event for event in found.events if isinstance(event, Planned))
    assert planned.strategy == "whole"
    assert any("an index finds the rows to read" in each for each in planned.reasons)
