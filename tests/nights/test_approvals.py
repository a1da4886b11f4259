"""What a person has approved: these very changes of columns or deletes, and no others."""

from __future__ import annotations

import pytest
from tests.backends.conftest import Pair

import penstock
from penstock import CopySpec, Drifted, TooManyDeletes

from .test_rules import check_same, copy_options, items, night, pair

__all__ = ["items", "pair"]

COLUMNS = (
    "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
    " WHERE attrelid = 'items'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attname"
)


def drift(pair: Pair, **options: str) -> Drifted:
    """Return the error of a night whose columns have diverged, which changes nothing."""
    before = pair.target.rows(COLUMNS)
    with pytest.raises(Drifted) as caught:
        penstock.plan(CopySpec(**copy_options(pair, **options)))
    assert pair.target.rows(COLUMNS) == before
    return caught.value


def test_the_approved_changes_are_made(items: Pair) -> None:
    night(items).done()
    items.source.run("ALTER TABLE items ADD note text", "ALTER TABLE items ALTER id TYPE bigint")
    found = drift(items)
    assert [change.partition(":")[0] for change in found.changes] == [
        "widen column id from integer to bigint",
        "add column note text",
    ]
    assert 'ADD COLUMN IF NOT EXISTS "note" text' in found.changes[1]
    night(items, on_drift=found.approval).done()
    assert items.target.rows(COLUMNS) == items.source.rows(COLUMNS)
    check_same(items)


def test_rows_that_arrive_meanwhile_do_not_change_an_approval(items: Pair) -> None:
    night(items).done()
    items.source.run("ALTER TABLE items ALTER id TYPE bigint")
    found = drift(items)
    items.source.run("INSERT INTO items SELECT i, 'w' FROM generate_series(1000, 9000) AS i")
    items.target.run("INSERT INTO items SELECT i, 'w' FROM generate_series(1000, 9000) AS i")
    items.target.run("ANALYZE items")
    assert drift(items).approval == found.approval


@pytest.mark.parametrize(
    ("side", "statement"),
    [
        ("source", "ALTER TABLE items ADD other text"),
        ("source", "ALTER TABLE items ALTER note TYPE varchar(9)"),
        ("target", "ALTER TABLE items ADD note text"),
    ],
    ids=["one more", "another type", "one less"],
)
def test_other_changes_than_the_approved_ones_are_refused(
    items: Pair, side: str, statement: str
) -> None:
    night(items).done()
    items.source.run("ALTER TABLE items ADD note text", "ALTER TABLE items ALTER id TYPE bigint")
    approval = drift(items).approval
    getattr(items, side).run(statement)
    again = drift(items, on_drift=approval)
    assert again.approval != approval
    night(items, on_drift=again.approval).done()
    check_same(items)


def test_changes_permitted_anyway_need_no_approval(items: Pair) -> None:
    night(items).done()
    items.source.run("ALTER TABLE items ADD note text", "ALTER TABLE items ALTER id TYPE bigint")
    found = drift(items, on_drift="add")
    assert found.approval.startswith("add,approved:")
    night(items, on_drift=found.approval).done()
    check_same(items)


def test_what_cannot_be_done_cannot_be_approved(items: Pair) -> None:
    items.target.run("ALTER TABLE items ALTER word SET NOT NULL")
    night(items).done()
    items.source.run("ALTER TABLE items DROP word")
    assert drift(items).approval == ""


def refused(pair: Pair, deletes: str, run_id: str) -> TooManyDeletes:
    """Return the error of a night that would delete too much, and changes nothing."""
    before = pair.target.rows("SELECT count(*) FROM items")
    options = {**copy_options(pair, deletes=deletes), "run_id": run_id}
    with pytest.raises(TooManyDeletes) as caught:
        list(penstock.copy(CopySpec(**options)))
    assert pair.target.rows("SELECT count(*) FROM items") == before
    return caught.value


@pytest.mark.parametrize("condition", ["id <= 90", "true"], ids=["many", "all"])
def test_the_approved_number_of_rows_is_deleted(items: Pair, condition: str) -> None:
    night(items).done()
    items.source.run(f"DELETE FROM items WHERE {condition}")
    left = items.source.rows("SELECT count(*) FROM items")[0][0]
    error = refused(items, "hard,1%", "tuesday")
    assert (error.deleted, error.rows) == (200 - left, 200)
    resumed = penstock.resume(
        "tuesday",
        source=items.source.url,
        target=items.target.url,
        deletes=error.approval,
    )
    list(resumed)
    check_same(items)


def test_another_number_than_the_approved_one_is_refused(items: Pair) -> None:
    night(items).done()
    items.source.run("DELETE FROM items WHERE id <= 90")
    approval = refused(items, "hard,1%", "tuesday").approval
    # Even fewer: these are not the rows that were counted.
    items.source.run("INSERT INTO items VALUES (1, 'back')")
    again = refused(items, approval, "wednesday")
    assert (again.deleted, again.rows) == (89, 200)
    assert "exactly 90 of 200 rows, as approved" in again.message
    assert again.approval == "hard,approved:89/200"
    night(items, deletes=again.approval).done()
    check_same(items)
