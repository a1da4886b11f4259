"""Whether a table was written to, told by the server's counters, and by what nights have read."""

from __future__ import annotations

import psycopg
import pytest
from tests.backends.conftest import Pair
from tests.nights.test_rules import items, night, pair

import penstock
from penstock import PlanningError, SourceWrites, UsageError
from penstock_testkit.statistics import settle_statistics

__all__ = ["items", "pair"]

TABLE = "public.items"


def look(pair: Pair, since: str = "", table: str = TABLE, **options: str) -> SourceWrites:
    """Look once the server has counted everything."""
    settle_statistics(pair.source.connection)
    return penstock.source_writes(pair.source.url, table=table, since=since, **options)


def look_beside(pair: Pair, **options: str) -> SourceWrites:
    """Look for what no night has read."""
    return look(pair, target=pair.target.url, **options)


def test_nothing_is_new_without_a_write(items: Pair) -> None:
    first = look(items)
    assert first.is_new
    assert first.text == "200 inserted, 0 updated, 0 deleted"
    items.source.run("CREATE TABLE other (id int)", "INSERT INTO other VALUES (1)")
    items.source.rows("SELECT * FROM items")
    again = look(items, first.mark)
    assert (again.mark, again.is_new) == (first.mark, False)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO items VALUES (999, 'w')",
        "UPDATE items SET word = 'w' WHERE id = 1",
        "DELETE FROM items WHERE id = 1",
        "TRUNCATE items",
        "COPY items (id) FROM PROGRAM 'echo 999'",
    ],
)
def test_every_kind_of_write_is_noticed(items: Pair, statement: str) -> None:
    first = look(items)
    items.source.run(statement)
    again = look(items, first.mark)
    assert again.is_new
    assert again.mark != first.mark


def test_a_write_to_a_partition_is_one_to_the_table(pair: Pair) -> None:
    pair.source.run(
        "CREATE TABLE items (id int) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF items FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE high PARTITION OF items FOR VALUES FROM (10) TO (20)",
    )
    first = look(pair)
    pair.source.run("INSERT INTO high VALUES (11)")
    second = look(pair, first.mark)
    assert second.is_new
    pair.source.run("ALTER TABLE items DETACH PARTITION low")
    assert look(pair, second.mark).is_new


def test_what_the_last_night_has_read_is_not_new(items: Pair) -> None:
    assert look_beside(items).is_new
    night(items).done()
    after = look_beside(items)
    assert (after.is_new, after.epoch) == (False, 1)
    items.source.run("UPDATE items SET word = 'w' WHERE id = 1")
    changed = look_beside(items, since=after.mark)
    assert (changed.is_new, changed.epoch) == (True, 1)
    night(items).done()
    assert not look_beside(items).is_new


def test_a_write_during_the_night_is_new(items: Pair) -> None:
    with psycopg.connect(items.source.url, autocommit=True) as writer:
        writer.execute("BEGIN")
        writer.execute("INSERT INTO items VALUES (999, 'not committed yet')")
        night(items).done()
        writer.execute("COMMIT")
    assert items.target.rows("SELECT count(*) FROM items") == [(200,)]
    assert look_beside(items).is_new


def test_a_night_is_not_trusted_if_a_transaction_was_open(items: Pair) -> None:
    # Which of the counted writes such a night has read cannot be told from its horizon.
    with psycopg.connect(items.source.url, autocommit=True) as other:
        other.execute("BEGIN")
        other.execute("SELECT pg_current_xact_id()")
        items.source.run("CREATE TABLE later (id int)")
        night(items).done()
    assert look_beside(items).is_new


def test_a_watermark_moved_by_hand_is_new(items: Pair) -> None:
    night(items).done()
    penstock.reset_watermark(TABLE, target=items.target.url)
    assert look_beside(items).is_new


def test_another_name_of_the_watermark(items: Pair) -> None:
    night(items, watermark="things").done()
    assert look_beside(items).is_new
    assert not look_beside(items, watermark="things").is_new


def test_counters_that_are_reset_are_new(items: Pair) -> None:
    items.source.run("TRUNCATE items", "SELECT pg_stat_reset()")
    first = look(items)
    items.source.run("INSERT INTO items VALUES (1)", "TRUNCATE items", "SELECT pg_stat_reset()")
    assert look(items, first.mark).is_new


@pytest.mark.parametrize(
    ("table", "kind"), [("words", "a view"), ("far", "a foreign table")], ids=["view", "foreign"]
)
def test_what_is_not_counted_is_refused(items: Pair, table: str, kind: str) -> None:
    items.source.run(
        "CREATE VIEW words AS SELECT word FROM items",
        "CREATE EXTENSION IF NOT EXISTS file_fdw",
        "CREATE SERVER files FOREIGN DATA WRAPPER file_fdw",
        "CREATE FOREIGN TABLE far (id int) SERVER files OPTIONS (filename '/dev/null')",
    )
    with pytest.raises(PlanningError, match=f"found {kind}"):
        look(items, table=f"public.{table}")


def test_a_missing_table_is_named(items: Pair) -> None:
    with pytest.raises(PlanningError, match="nothing"):
        look(items, table="public.nothing")
    with pytest.raises(UsageError, match="expected --table"):
        penstock.source_writes(items.source.url)


def test_a_table_without_a_schema_is_found(items: Pair) -> None:
    assert look(items, table="items").mark == look(items).mark
