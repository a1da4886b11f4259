"""Mode replace with `--atomic`: readers see either all of the old rows or all of the new ones."""

from __future__ import annotations

from typing import Any

import pytest
from tests.backends.conftest import Pair
from tests.nights.test_rules import (
    ALL,
    check_same,
    copy_options,
    is_committed,
    items,
    night,
    pair,
    parted,
)

import penstock
from penstock import BatchSpec, CopySpec
from penstock.events import Committed, StepChanged

__all__ = ["items", "pair", "parted"]
USUAL = {"mode": "replace", "incremental": None, "atomic": "table", "key": "id", "partitions": 4}


def replace_rows(pair: Pair, **options: Any) -> Any:
    return night(pair, **{**USUAL, **options})


@pytest.fixture
def loaded(items: Pair) -> Pair:
    replace_rows(items).done()
    check_same(items)
    items.source.run(
        "UPDATE items SET word = 'new'",
        "DELETE FROM items WHERE id % 7 = 0",
        "INSERT INTO items VALUES (0, 'first'), (999, 'last')",
    )
    return items


def test_all_rows_become_visible_at_once(loaded: Pair) -> None:
    before, seen = loaded.target.rows(ALL), []
    for event in penstock.copy(CopySpec(**copy_options(loaded, **USUAL))):
        if is_committed(event) or (
            isinstance(event, StepChanged) and (event.step_id, event.state) == ("merge", "started")
        ):
            seen.append(loaded.target.rows(ALL) == before)
    assert len(seen) == 5
    assert all(seen)
    check_same(loaded)
    assert loaded.target.rows("SELECT relname FROM pg_class WHERE relname LIKE '%~%'") == []


@pytest.mark.parametrize("strategy", ["range", "hash", "values"])
def test_every_strategy_by_a_key_is_supported(items: Pair, strategy: str) -> None:
    key = "id % 5" if strategy == "values" else "id"
    options = {"strategy": strategy, "key": key, "partitions": None}
    replace_rows(items, **options).done()
    items.source.run("UPDATE items SET word = 'new'", "DELETE FROM items WHERE id = 3")
    replace_rows(items, **options).done()
    check_same(items)


def test_rows_that_the_condition_excludes_stay(loaded: Pair) -> None:
    loaded.target.run("UPDATE items SET word = 'mine' WHERE id >= 100")
    replace_rows(loaded, where="id < 100").done()
    low = "SELECT * FROM items WHERE id < 100 ORDER BY id"
    assert loaded.target.rows(low) == loaded.source.rows(low)
    assert loaded.target.count("items", "word = 'mine'") == 101


def test_a_run_stopped_before_the_merge_is_resumed(loaded: Pair) -> None:
    before = loaded.target.rows(ALL)
    events = penstock.copy(CopySpec(**copy_options(loaded, **USUAL, run_id="stopped")))
    for event in events:
        if isinstance(event, StepChanged) and event.step_id == "merge":
            break
    events.close()
    if loaded.target.rows(ALL) == before:
        list(penstock.resume("stopped", source=loaded.source.url, target=loaded.target.url))
    check_same(loaded)


def test_a_partition_in_the_stage_is_copied_again(loaded: Pair) -> None:
    """A worker only adds rows to a stage: those of the first copy are removed beforehand."""
    events = penstock.copy(CopySpec(**copy_options(loaded, **USUAL, run_id="stopped", degree=1)))
    committed = next(event for event in events if isinstance(event, Committed))
    events.close()
    options: dict[str, Any] = {
        "only": [committed.partition_id],
        "recopy": "again",
        "on_snapshot_lost": "accept",
    }
    ends: dict[str, Any] = {"source": loaded.source.url, "target": loaded.target.url}
    copied = [
        event.partition_id
        for event in penstock.resume("stopped", **ends, **options)
        if isinstance(event, Committed) and not event.already
    ]
    assert copied == options["only"]
    list(penstock.resume("stopped", **ends, on_snapshot_lost="accept"))
    check_same(loaded)


def test_a_failed_transaction_changes_nothing(loaded: Pair) -> None:
    loaded.target.run("ALTER TABLE items ADD CHECK (word <> 'last')")
    before = loaded.target.rows(ALL)
    refused = replace_rows(loaded)
    assert refused.code == 65
    assert loaded.target.rows(ALL) == before


@pytest.mark.parametrize(
    ("when", "why"),
    [("DELETE", "rows were not deleted"), ("INSERT", "of 174 rows were inserted")],
)
def test_a_trigger_that_keeps_or_drops_rows_fails_the_run(
    loaded: Pair, when: str, why: str
) -> None:
    loaded.target.run(
        "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        f"CREATE TRIGGER t BEFORE {when} ON items FOR EACH ROW EXECUTE FUNCTION nothing()",
    )
    before = loaded.target.rows(ALL)
    refused = replace_rows(loaded)
    assert refused.code == 65
    assert why in refused.message
    assert loaded.target.rows(ALL) == before


def test_values_are_verified_in_the_stage_and_in_the_table(loaded: Pair) -> None:
    run = replace_rows(loaded, verify="checksums", run_id="verified").done()
    ends: dict[str, Any] = {"source": loaded.source.url, "target": loaded.target.url}
    assert penstock.verify(run.run_id, **ends, checksum=True).ok
    loaded.target.run("UPDATE items SET word = 'other' WHERE id = 999")
    assert not penstock.verify(run.run_id, **ends, checksum=True).ok


def test_identities_and_a_partitioned_target_are_supported(pair: Pair) -> None:
    pair.source.run(
        "CREATE TABLE items (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, word text)",
        "INSERT INTO items (word) SELECT 'w' || i FROM generate_series(1, 200) AS i",
    )
    pair.target.run(
        "CREATE TABLE items (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, word text)"
        " PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF items FOR VALUES FROM (0) TO (100)",
        "CREATE TABLE high PARTITION OF items FOR VALUES FROM (100) TO (300)",
        "INSERT INTO items (word) VALUES ('old')",
    )
    replace_rows(pair).done()
    check_same(pair)


def test_tables_of_a_batch_are_replaced_together(pair: Pair) -> None:
    pair.both(
        "CREATE TABLE owners (id int PRIMARY KEY)",
        "CREATE TABLE items (id int PRIMARY KEY, owner int REFERENCES owners)",
    )
    pair.source.run(
        "INSERT INTO owners SELECT generate_series(1, 5)",
        "INSERT INTO items SELECT i, 1 + i % 5 FROM generate_series(1, 50) AS i",
    )
    pair.target.run(
        "INSERT INTO owners VALUES (1), (9)", "INSERT INTO items VALUES (1, 9), (99, 9)"
    )
    defaults = {"mode": "replace", "atomic": "batch", "key": "id"}
    spec = BatchSpec(
        source=pair.source.url, target=pair.target.url, tables=("public.*",), defaults=defaults
    )
    list(penstock.copy_all(spec))
    check_same(pair)
    assert pair.target.rows("SELECT * FROM owners ORDER BY 1") == [(i,) for i in range(1, 6)]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"deletes": "hard"}, "--deletes hard: expected --mode upsert"),
        ({"mode": "append", "key": None, "partitions": None}, "expected --mode upsert or replace"),
        ({"incremental": "xmin"}, "--incremental: expected --mode upsert"),
        ({"key": None, "partitions": None}, "--key"),
    ],
)
def test_wrong_options_are_rejected(items: Pair, options: dict[str, Any], why: str) -> None:
    refused = replace_rows(items, **options)
    assert refused.code == 64
    assert why in refused.message
