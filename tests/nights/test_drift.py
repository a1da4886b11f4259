"""Columns that are added, changed, renamed and dropped in the source between nights."""

from __future__ import annotations

from typing import Any

import pytest
from tests.backends.conftest import Pair

import penstock
from penstock import CopySpec, Drifted
from penstock.events import Planned, StepChanged

from .test_rules import check_same, copy_options, full, items, night, pair

__all__ = ["items", "pair"]

ALL = "add,widen,rename"
COLUMNS = (
    "SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute"
    " WHERE attrelid = 'items'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attname"
)


def drifted(pair: Pair, **options: Any) -> str:
    """Return the message of a night that is rejected and changes nothing."""
    before = pair.target.rows(COLUMNS)
    with pytest.raises(Drifted) as caught:
        list(penstock.copy(CopySpec(**copy_options(pair, **options))))
    assert caught.value.exit_code == 76
    assert not caught.value.transient
    assert pair.target.rows(COLUMNS) == before
    return caught.value.message


def test_a_new_column_is_rejected_with_the_statement_that_adds_it(items: Pair) -> None:
    night(items).done()
    items.source.run("ALTER TABLE items ADD note varchar(10) NOT NULL DEFAULT 'none'")
    message = drifted(items)
    assert 'ALTER TABLE "public"."items" ADD COLUMN IF NOT EXISTS "note"' in message
    assert "--on-drift add to make all of these changes" in message
    drifted(items, on_drift="widen,rename")


def test_a_new_column_is_added_with_the_values_of_all_rows(items: Pair) -> None:
    night(items).done()
    # Changes values without new row versions.
    items.source.run("ALTER TABLE items ADD note varchar(10) NOT NULL DEFAULT 'none'")
    found = night(items, on_drift="add")
    assert (
        full(found) == "columns of the source have changed (add column note character varying(10))"
    )
    check_same(items)
    assert full(night(items)) == ""


def test_a_column_is_widened(items: Pair) -> None:
    night(items).done()
    items.source.run(
        "ALTER TABLE items ADD price numeric(6,2), ADD short varchar(3), ADD seen timestamp(0)",
    )
    items.target.run(
        "ALTER TABLE items ADD price numeric(6,2), ADD short varchar(3), ADD seen timestamp(0)",
    )
    night(items).done()
    items.source.run(
        "ALTER TABLE items ALTER id TYPE bigint, ALTER price TYPE numeric(9,2),"
        " ALTER short TYPE varchar(9), ALTER seen TYPE timestamp(6)",
        "INSERT INTO items VALUES (3000000000, 'much', 1234567.89, 'sixsix', now())",
        "DELETE FROM items WHERE id = 7",
    )
    message = drifted(items, deletes="hard")
    assert "(rewrites the table, " in message
    assert message.count("rewrites the table") == 1
    night(items, on_drift="widen", deletes="hard").done()
    check_same(items)
    assert items.target.rows(COLUMNS) == items.source.rows(COLUMNS)


def test_a_column_that_becomes_nullable_becomes_so_in_the_target(items: Pair) -> None:
    items.source.run("ALTER TABLE items ALTER word SET NOT NULL")
    items.target.run("ALTER TABLE items ALTER word SET NOT NULL")
    night(items).done()
    items.source.run("ALTER TABLE items ALTER word DROP NOT NULL", "UPDATE items SET word = NULL")
    assert "widen column word, and allow NULL" in drifted(items)
    night(items, on_drift="widen").done()
    check_same(items)


def test_a_renamed_column_is_renamed(items: Pair) -> None:
    night(items).done()
    items.target.run("CREATE VIEW words AS SELECT word FROM items")
    items.source.run("ALTER TABLE items RENAME word TO term", "UPDATE items SET term = 't'")
    assert 'RENAME COLUMN "word" TO "term"' in drifted(items, on_drift="add")
    night(items, on_drift="rename", deletes="hard").done()
    check_same(items)
    assert items.target.rows("SELECT DISTINCT word FROM words") == [("t",)]


def test_a_dropped_column_stays_and_is_null_in_new_rows(items: Pair) -> None:
    night(items).done()
    items.source.run("ALTER TABLE items DROP word", "INSERT INTO items VALUES (999)")
    assert "column word is no longer in the source: it stays" in drifted(items)
    night(items, on_drift="add").done()
    assert items.target.rows("SELECT count(*), count(word) FROM items") == [(201, 200)]


def test_a_dropped_column_that_needs_a_value_is_rejected(items: Pair) -> None:
    items.target.run("ALTER TABLE items ALTER word SET NOT NULL")
    night(items).done()
    items.source.run("ALTER TABLE items DROP word")
    assert "NOT NULL and has no default" in drifted(items, on_drift="add")


def test_drift_may_be_ignored(items: Pair) -> None:
    night(items).done()
    items.source.run("ALTER TABLE items ADD note text", "INSERT INTO items VALUES (999, 'w', 'n')")
    found = night(items, on_drift="ignore")
    found.done()
    (planned,) = (event for event in found.events if isinstance(event, Planned))
    assert any("drift: add column note text: it is not copied" in w for w in planned.warnings)
    assert items.target.rows("SELECT count(*) FROM items") == [(201,)]
    assert full(night(items, on_drift="ignore")) == ""
    night(items, on_drift="add").done()
    check_same(items)


def test_changes_are_steps_that_the_merge_records(items: Pair) -> None:
    night(items).done()
    items.source.run("ALTER TABLE items RENAME word TO term", "ALTER TABLE items ADD note text")
    plan = penstock.plan(CopySpec(**copy_options(items, on_drift=ALL)))
    assert sum(reason.startswith("drift: ") for reason in plan.reasons) == 2
    assert len(items.target.rows(COLUMNS)) == 2
    found = night(items, on_drift=ALL)
    run_id = found.done().run_id
    done = [e.step_id for e in found.events if isinstance(e, StepChanged) and e.state == "done"]
    assert done.index("merge") < done.index("rename term")
    assert "add note" in done
    check_same(items)
    recorded = items.target.rows(
        f"SELECT step_id FROM penstock.step_record WHERE run_id = '{run_id}'"
    )
    assert {("merge",), ("rename term",), ("add note",)} <= set(recorded)


def test_a_view_that_depends_on_a_type_is_named(items: Pair) -> None:
    items.source.run("ALTER TABLE items ADD n int")
    items.target.run("ALTER TABLE items ADD n int", "CREATE VIEW numbers AS SELECT n FROM items")
    night(items).done()
    items.source.run("ALTER TABLE items ALTER n TYPE bigint")
    assert "view public.numbers depends on it" in drifted(items, on_drift="widen")
    items.target.run("DROP VIEW numbers")
    night(items, on_drift="widen").done()
    check_same(items)


def test_a_computed_column_that_depends_on_a_type_is_named(items: Pair) -> None:
    items.source.run("ALTER TABLE items ADD n int")
    items.target.run(
        "ALTER TABLE items ADD n int, ADD twice int GENERATED ALWAYS AS (n * 2) STORED"
    )
    night(items).done()
    items.source.run("ALTER TABLE items ALTER n TYPE bigint")
    assert "a computed column depends on it" in drifted(items, on_drift="widen")


def test_a_renamed_key_column_is_left_to_the_user(items: Pair) -> None:
    night(items).done()
    items.source.run("ALTER TABLE items RENAME id TO number")
    message = drifted(items, on_drift="rename", deletes="hard")
    assert "it is part of the key that identifies rows; by hand: ALTER TABLE" in message
    items.target.run("ALTER TABLE items RENAME id TO number")
    night(items, on_drift="rename", deletes="hard").done()


def test_narrower_columns_in_the_target_are_accepted_in_the_first_night(items: Pair) -> None:
    items.source.run("ALTER TABLE items ALTER id TYPE bigint")
    night(items).done()
    check_same(items)
    plain = {"incremental": None, "on_drift": "widen"}
    night(items, **plain).done()
    assert items.target.rows(COLUMNS) == items.source.rows(COLUMNS)


@pytest.mark.parametrize("mode", ["append", "truncate", "replace", "upsert"])
def test_columns_of_a_load_in_place_follow_the_source(items: Pair, mode: str) -> None:
    load = {"mode": mode, "incremental": None, "key": "id" if mode == "replace" else None}
    items.source.run(
        "ALTER TABLE items ADD note text DEFAULT 'none'", "ALTER TABLE items ALTER id TYPE bigint"
    )
    drifted(items, **load)
    night(items, **load, on_drift=ALL).done()
    check_same(items)
    assert items.target.rows(COLUMNS) == items.source.rows(COLUMNS)


@pytest.mark.parametrize("hidden", [{"mask": ("word=hash",)}, {"exclude_columns": ("word",)}])
def test_a_masked_column_stays_masked_when_it_is_renamed(
    items: Pair, hidden: dict[str, Any]
) -> None:
    batch: dict[str, Any] = {
        "source": items.source.url,
        "target": items.target.url,
        "tables": ("public.items",),
    }
    if "exclude_columns" in hidden:
        items.target.run("ALTER TABLE items DROP word")
    options = {"mode": "upsert", "incremental": "xmin", **hidden}
    list(penstock.copy_all(penstock.BatchSpec(**batch, defaults=options)))
    items.source.run("ALTER TABLE items RENAME word TO term")
    options |= {"on_drift": ALL}
    with pytest.raises(penstock.PenstockError):
        list(penstock.copy_all(penstock.BatchSpec(**batch, defaults=options)))
    columns = [name for name, *_ in items.target.rows(COLUMNS)]
    assert columns == (["id"] if "exclude_columns" in hidden else ["id", "word"])


def test_nights_by_a_column_follow_the_source(items: Pair) -> None:
    for side in (items.source, items.target):
        side.run("ALTER TABLE items ADD at timestamptz NOT NULL DEFAULT now()")
    by = {"incremental": "at", "lookback": "0"}
    night(items, **by).done()
    items.source.run(
        "ALTER TABLE items RENAME word TO term", "ALTER TABLE items ADD n int DEFAULT 5"
    )
    drifted(items, **by)
    found = night(items, **by, on_drift=ALL)
    assert full(found).startswith("columns of the source have changed (rename column word to term")
    check_same(items)
    assert full(night(items, **by)) == ""
