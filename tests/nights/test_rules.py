"""The rules that keep nights complete, one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from tests.backends.conftest import Pair, Side
from tests.one_copy import OneCopy

import penstock
from penstock import CopySpec, PenstockError
from penstock.events import Committed, Event, Merged, Planned, StepChanged

ALL = "SELECT * FROM items ORDER BY id"
NAME = "public.items to public.items"


@pytest.fixture
def pair(source_url: str, target_url: str, source: psycopg.Connection[Any], target: Any) -> Pair:
    return Pair(Side(source_url, source), Side(target_url, target))


@pytest.fixture
def items(pair: Pair) -> Pair:
    pair.source.run(
        "CREATE TABLE items (id int PRIMARY KEY, word text)",
        "INSERT INTO items SELECT i, 'w' || i FROM generate_series(1, 200) AS i",
    )
    pair.target.run("CREATE TABLE items (id int PRIMARY KEY, word text)")
    return pair


def copy_options(pair: Pair, **options: Any) -> dict[str, Any]:
    ends = {"source": pair.source.url, "target": pair.target.url}
    usual = {"table": "public.items", "mode": "upsert", "incremental": "xmin", "degree": 1}
    return {**ends, **usual, **options}


def night(pair: Pair, **options: Any) -> OneCopy:
    return OneCopy(**copy_options(pair, **options))


def full(night: OneCopy) -> str:
    """Return the reason why a night has read all rows; empty if it has not."""
    night.done()
    (merged,) = (event for event in night.events if isinstance(event, Merged))
    return merged.full


def check_same(pair: Pair) -> None:
    assert pair.target.rows(ALL) == pair.source.rows(ALL)


def interrupted(
    pair: Pair, when: Callable[[Event], bool], then: Callable[[], object], **options: Any
) -> PenstockError:
    """Return the error of a night that is disturbed by a call at a certain event."""
    pending = [then]

    def copy() -> None:
        for event in penstock.copy(CopySpec(**copy_options(pair, **options))):
            if pending and when(event):
                pending.pop()()

    with pytest.raises(PenstockError) as caught:
        copy()
    assert not pending
    return caught.value


def is_planned(event: Event) -> bool:
    return isinstance(event, Planned)


def is_committed(event: Event) -> bool:
    return isinstance(event, Committed)


def test_options_of_planning_cannot_change_on_resume(items: Pair) -> None:
    penstock.create(CopySpec(**copy_options(items, run_id="planned", full_every="7d")))
    ends: dict[str, Any] = {"source": items.source.url, "target": items.target.url}
    with pytest.raises(penstock.UsageError, match="full_every cannot change"):
        list(penstock.resume("planned", **ends, full_every=1.0))
    list(penstock.resume("planned", **ends))
    check_same(items)


# The fence


def test_a_run_resumed_after_a_later_night_writes_nothing(items: Pair) -> None:
    night(items).done()
    items.source.run("UPDATE items SET word = 'old' WHERE id = 1")
    penstock.create(CopySpec(**copy_options(items, run_id="late")))
    items.source.run("UPDATE items SET word = 'new' WHERE id = 1")
    by = night(items).done().run_id
    before = items.target.rows(ALL)
    with pytest.raises(PenstockError, match=f"run {by} has moved it to epoch 2") as caught:
        list(penstock.resume("late", source=items.source.url, target=items.target.url))
    assert caught.value.exit_code == 75
    assert items.target.rows(ALL) == before


def test_a_run_whose_watermark_moves_during_the_copy_writes_nothing(items: Pair) -> None:
    """This can happen behind a pooler, where no session keeps the other night out."""
    night(items).done()
    items.source.run("UPDATE items SET word = 'new'")
    before = items.target.rows(ALL)

    def move() -> None:
        penstock.reset_watermark(NAME, target=items.target.url)

    error = interrupted(items, is_committed, move, deletes="hard")
    assert error.exit_code == 75
    assert "nothing was merged" in error.message
    assert items.target.rows(ALL) == before
    assert full(night(items)) == "the watermark was reset"
    check_same(items)


# Bounds


def test_changes_during_a_night_belong_to_the_next(items: Pair) -> None:
    night(items).done()
    items.source.run("UPDATE items SET word = 'one' WHERE id = 1")
    for event in penstock.copy(CopySpec(**copy_options(items))):
        if is_planned(event):
            items.source.run("UPDATE items SET word = 'two' WHERE id <= 2")
    assert items.target.rows(f"{ALL} LIMIT 2") == [(1, "one"), (2, "w2")]
    assert night(items).done().rows == 2
    check_same(items)


def test_an_empty_source_has_a_horizon(items: Pair) -> None:
    items.source.run("DELETE FROM items")
    night(items).done()
    items.source.run("INSERT INTO items VALUES (1, 'first')")
    assert full(night(items)) == ""
    check_same(items)


# The snapshot is needed until the last step that reads the source

HOLDER = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name LIKE"


@pytest.mark.parametrize("deletes", ["hard", "soft"])
def test_a_night_that_loses_its_snapshot_before_finding_deletes_merges_nothing(
    items: Pair, deletes: str
) -> None:
    if deletes == "soft":
        items.target.run("ALTER TABLE items ADD deleted_at timestamptz")
    night(items, deletes=deletes).done()
    items.source.run("UPDATE items SET word = 'new'", "DELETE FROM items WHERE id = 7")
    before = items.target.rows(ALL)
    error = interrupted(
        items,
        lambda event: isinstance(event, StepChanged) and event.step_id == "gone",
        lambda: items.source.run(f"{HOLDER} 'penstock:%snapshot%'"),
        deletes=deletes,
        on_snapshot_lost="fail",
    )
    assert "nothing was merged" in error.message
    assert items.target.rows(ALL) == before
    assert full(night(items, deletes=deletes)) == ""
    query = "SELECT id, word FROM items ORDER BY id"
    if deletes == "soft":
        query = query.replace("ORDER", "WHERE deleted_at IS NULL ORDER")
    assert items.target.rows(query) == items.source.rows(ALL)


# All rows are read if row versions cannot show the changes


def test_a_recreated_table_is_read_in_full(items: Pair) -> None:
    items.source.run("CREATE TABLE copy AS SELECT id, word || '!' AS word FROM items")
    night(items).done()
    items.source.run("ALTER TABLE items RENAME TO gone", "ALTER TABLE copy RENAME TO items")
    assert full(night(items)) == "the source's table was recreated"
    check_same(items)


def test_a_column_added_with_a_default_makes_a_night_read_all_rows(items: Pair) -> None:
    night(items).done()
    items.both("ALTER TABLE items ADD more int DEFAULT 5")
    items.target.run("UPDATE items SET more = 0")
    assert full(night(items)) != ""
    check_same(items)


def test_a_renamed_enum_label_makes_a_night_read_all_rows(items: Pair) -> None:
    items.both("CREATE TYPE mood AS ENUM ('sad', 'happy')", "ALTER TABLE items ADD m mood")
    items.source.run("UPDATE items SET m = 'happy'")
    night(items).done()
    items.both("ALTER TYPE mood RENAME VALUE 'sad' TO 'sad2'")
    items.both("ALTER TYPE mood RENAME VALUE 'happy' TO 'sad'")
    items.both("ALTER TYPE mood RENAME VALUE 'sad2' TO 'happy'")
    items.target.run("UPDATE items SET m = 'happy'")
    assert "leaves row versions as they are" in full(night(items))
    check_same(items)


def test_another_expression_of_a_virtual_column_makes_a_night_read_all_rows(items: Pair) -> None:
    items.needs(18, "virtual columns")
    items.source.run("ALTER TABLE items ADD twice int GENERATED ALWAYS AS (id * 2) VIRTUAL")
    items.target.run("ALTER TABLE items ADD twice int")
    night(items).done()
    items.source.run("ALTER TABLE items ALTER twice SET EXPRESSION AS (id * 3)")
    assert "leaves row versions as they are" in full(night(items))
    check_same(items)


def test_another_condition_or_other_columns_make_a_night_read_all_rows(items: Pair) -> None:
    night(items, where="id < 100").done()
    assert "--where" in full(night(items))
    check_same(items)
    assert "columns" in full(night(items, columns=("id",)))
    assert "columns" in full(night(items))


def test_marks_that_were_not_maintained_make_a_night_read_all_rows(items: Pair) -> None:
    """A marked row comes back while nights ignore deletes."""
    items.target.run("ALTER TABLE items ADD deleted_at timestamptz")
    night(items, deletes="soft").done()
    items.source.run("DELETE FROM items WHERE id = 3")
    night(items, deletes="soft").done()
    items.source.run("INSERT INTO items VALUES (3, 'back')")
    night(items, deletes="ignore", columns=("id", "word")).done()
    assert full(night(items, deletes="soft")) != ""
    assert items.target.rows("SELECT id FROM items WHERE deleted_at IS NOT NULL") == []


def test_row_security_is_rejected(items: Pair) -> None:
    """Other rows may be hidden the next night, without new versions."""
    role = f"reader_{items.source.url.rpartition('/')[2]}"
    items.source.run(
        f"CREATE ROLE {role} LOGIN",
        f"GRANT SELECT ON items TO {role}",
        "ALTER TABLE items ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY low ON items USING (id < 100)",
    )
    try:
        refused = night(items, source=items.source.url.replace("postgres@", f"{role}@"))
        assert refused.code == 65
        assert "row security" in refused.message
    finally:
        items.source.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (["TRUNCATE items"], "recreated or rewritten"),
        (["DELETE FROM items WHERE id = 5"], "had 200 rows after the last night, and has 199"),
        (
            [
                "CREATE TABLE new AS TABLE items",
                "DROP TABLE items",
                "ALTER TABLE new RENAME TO items",
                "ALTER TABLE items ADD PRIMARY KEY (id)",
                "UPDATE items SET word = 'x'",
            ],
            "recreated or rewritten",
        ),
    ],
    ids=["truncated", "deleted from", "recreated"],
)
def test_a_target_changed_since_the_last_night_makes_the_next_read_all_rows(
    items: Pair, change: list[str], why: str
) -> None:
    night(items).done()
    items.target.run(*change)
    refused = night(items, on_target_changed="fail")
    assert refused.code == 65
    assert why in refused.message
    assert why in full(night(items))
    check_same(items)


def test_a_reset_watermark_makes_a_night_read_all_rows(items: Pair) -> None:
    night(items).done()
    penstock.reset_watermark(NAME, target=items.target.url)
    assert full(night(items)) == "the watermark was reset"


def test_a_target_emptied_during_a_night_makes_the_next_read_all_rows(items: Pair) -> None:
    """The night merges its changes into an empty table; the next one notices."""
    night(items).done()
    items.source.run("UPDATE items SET word = 'new' WHERE id = 1")
    for event in penstock.copy(CopySpec(**copy_options(items))):
        if is_planned(event):
            items.target.run("DELETE FROM items")
    assert full(night(items)) != ""
    check_same(items)


# More rows may be read, never fewer


@pytest.mark.parametrize(
    ("change", "read"),
    [
        ("VACUUM (FREEZE) items", 0),
        ("VACUUM (FULL, FREEZE) items", 0),
        ("CLUSTER items USING items_pkey", 0),
        ("REINDEX TABLE items", 0),
        ("ALTER TABLE items SET UNLOGGED", 200),
    ],
)
def test_a_rewrite_of_the_storage_loses_no_rows(items: Pair, change: str, read: int) -> None:
    night(items).done()
    items.source.run(change)
    found = night(items)
    assert full(found) == ""
    assert found.done().rows == read
    again = change.replace("UNLOGGED", "LOGGED")
    items.source.run("UPDATE items SET word = 'x' WHERE id = 1", again)
    assert night(items).done().rows == max(read, 1)
    check_same(items)


def test_rows_frozen_by_copy_are_read(items: Pair) -> None:
    night(items, deletes="hard").done()
    with items.source.connection.transaction():
        items.source.run(
            "TRUNCATE items",
            "COPY items FROM PROGRAM 'seq 150 250 | sed s/$/,f/' (FREEZE, FORMAT csv)",
        )
    assert full(night(items, deletes="hard,100%")) == ""
    check_same(items)


def test_committed_subtransactions_are_read(items: Pair) -> None:
    with psycopg.connect(items.source.url) as late:
        for number in range(1, 6):
            late.execute("SAVEPOINT one")
            late.execute("UPDATE items SET word = 'late' WHERE id = %s", [number])
            late.execute("RELEASE one" if number % 2 else "ROLLBACK TO one")
            items.source.run(f"UPDATE items SET word = 'early' WHERE id = {number + 10}")
            night(items).done()
        late.commit()
    night(items).done()
    check_same(items)
    assert items.target.count("items", "word = 'late'") == 3


# Partitions of the source


@pytest.fixture
def parted(pair: Pair) -> Pair:
    pair.source.run(
        "CREATE TABLE items (id int PRIMARY KEY, word text) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF items FOR VALUES FROM (0) TO (100)",
        "CREATE TABLE high PARTITION OF items FOR VALUES FROM (100) TO (300)",
        "INSERT INTO items SELECT i, 'w' || i FROM generate_series(1, 200) AS i",
        "CREATE TABLE old (id int PRIMARY KEY, word text)",
        "INSERT INTO old SELECT i, 'o' || i FROM generate_series(300, 350) AS i",
    )
    pair.target.run("CREATE TABLE items (id int PRIMARY KEY, word text)")
    return pair


ATTACH = "ALTER TABLE items ATTACH PARTITION old FOR VALUES FROM (300) TO (400)"
DETACH = "ALTER TABLE items DETACH PARTITION old"


def test_an_attached_partition_is_read_alone(parted: Pair) -> None:
    night(parted, deletes="hard").done()
    parted.source.run(ATTACH)
    assert night(parted, deletes="hard").done().rows == 51
    check_same(parted)


def test_a_reattached_partition_is_read_again(parted: Pair) -> None:
    parted.source.run(ATTACH)
    night(parted, deletes="hard").done()
    parted.source.run(DETACH)
    night(parted, deletes="hard").done()
    check_same(parted)
    parted.source.run(ATTACH)
    night(parted, deletes="hard").done()
    check_same(parted)
    # No night ran while it was detached, so its rows were never deleted; they are read again even
    # so.
    parted.source.run(DETACH, "UPDATE old SET word = 'x' WHERE id = 310", ATTACH)
    assert night(parted, deletes="hard").done().rows == 51
    check_same(parted)


@pytest.mark.parametrize("deletes", ["ignore", "hard"])
def test_a_partition_attached_during_a_night_fails_it(parted: Pair, deletes: str) -> None:
    night(parted, deletes=deletes).done()
    before = parted.target.rows(ALL)
    parted.source.run("UPDATE items SET word = 'new' WHERE id = 1")
    error = interrupted(
        parted, is_planned, lambda: parted.source.run(ATTACH), deletes=deletes, key="id"
    )
    assert error.exit_code == 75
    assert "tables were attached" in error.message
    assert parted.target.rows(ALL) == before
    night(parted, deletes=deletes).done()
    check_same(parted)


# Rejected


def test_a_null_key_is_rejected(pair: Pair) -> None:
    pair.both("CREATE TABLE items (id int UNIQUE, word text)")
    pair.source.run("INSERT INTO items VALUES (1, 'a'), (NULL, 'b')")
    refused = night(pair, deletes="hard")
    assert refused.code == 65
    assert "NULL" in refused.message
    assert pair.target.count("items") == 0


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"mode": "append"}, "--incremental"),
        ({"table": None, "query": "TABLE items", "target_table": "public.items"}, "--table"),
        ({"table": "public.seen", "target_table": "public.items"}, "a view"),
        ({"table": "public.afar", "target_table": "public.items"}, "a foreign table"),
        ({"target_table": "public.keyless"}, "unique"),
        ({"snapshot": "none"}, "--snapshot"),
    ],
    ids=["append", "a query", "a view", "a foreign table", "no key", "no snapshot"],
)
def test_sources_and_options_without_nights_are_rejected(
    items: Pair, options: dict[str, Any], why: str
) -> None:
    items.source.run(
        "CREATE VIEW seen AS TABLE items",
        "CREATE EXTENSION file_fdw",
        "CREATE SERVER files FOREIGN DATA WRAPPER file_fdw",
        "CREATE FOREIGN TABLE afar (id int, word text) SERVER files"
        " OPTIONS (program 'echo 1,one', format 'csv')",
    )
    items.target.run("CREATE TABLE keyless (id int, word text)")
    refused = night(items, **options)
    assert refused.code in (64, 65)
    assert why in refused.message
    assert items.target.count("items") == 0


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ("id < extract(epoch FROM now())", "now()"),
        ("id > random() * 5", "random()"),
        ("current_date > '2020-01-01'", "current_date"),
        ("'today'::date > '2020-01-01'", "'today'"),
        ("EXISTS (SELECT FROM others AS o WHERE o.id = items.id)", "select"),
        ("mine(id)", "mine()"),
        ("word LIKE 'now() select%' AND id IN (1, 2) AND date_trunc('day', at) < at", None),
        ("lower(word) <> 'x' AND coalesce(id, 1) > 0", None),
    ],
)
def test_a_condition_whose_result_may_change_by_itself_is_rejected(
    items: Pair, where: str, problem: str | None
) -> None:
    items.both("ALTER TABLE items ADD at timestamptz DEFAULT now()")
    items.source.run(
        "CREATE TABLE others (id int)",
        "CREATE FUNCTION mine(int) RETURNS bool STABLE LANGUAGE sql AS"
        " 'SELECT $1 IN (SELECT id FROM others)'",
    )
    tried = night(items, where=where)
    assert tried.code == (65 if problem else 0)
    assert problem is None or f"found {problem}" in tried.message


# A second unique column


@pytest.fixture
def items_with_names(pair: Pair) -> Pair:
    pair.source.run(
        "CREATE TABLE items (id int PRIMARY KEY, name text UNIQUE DEFERRABLE)",
        "INSERT INTO items SELECT i, 'n' || i FROM generate_series(1, 50) AS i",
    )
    return pair


SWAP = "UPDATE items SET name = CASE id WHEN 1 THEN 'n2' ELSE 'n1' END WHERE id IN (1, 2)"


def test_a_unique_value_may_move_to_another_key(items_with_names: Pair) -> None:
    items_with_names.target.run("CREATE TABLE items (id int PRIMARY KEY, name text UNIQUE)")
    night(items_with_names, deletes="hard").done()
    items_with_names.source.run(
        "DELETE FROM items WHERE id = 1", "INSERT INTO items VALUES (0, 'n1')"
    )
    items_with_names.source.run(
        "UPDATE items SET id = 100 WHERE id = 2", "UPDATE items SET name = 'n3a' WHERE id = 3"
    )
    items_with_names.source.run("INSERT INTO items VALUES (101, 'n3')")
    night(items_with_names, deletes="hard").done()
    check_same(items_with_names)


def test_swapping_unique_values_needs_a_deferred_constraint(items_with_names: Pair) -> None:
    """Other tables refer to the rows, so they cannot be deleted to make room."""
    items_with_names.target.run(
        "CREATE TABLE items (id int PRIMARY KEY, name text UNIQUE)",
        "CREATE TABLE pets (item int REFERENCES items)",
    )
    night(items_with_names, deletes="hard").done()
    before = items_with_names.target.rows(ALL)
    items_with_names.source.run(SWAP)
    refused = night(items_with_names, deletes="hard")
    assert refused.code == 65
    assert "DEFERRABLE" in refused.message
    assert items_with_names.target.rows(ALL) == before
    items_with_names.target.run(
        "ALTER TABLE items DROP CONSTRAINT items_name_key",
        "ALTER TABLE items ADD UNIQUE (name) DEFERRABLE INITIALLY DEFERRED",
    )
    night(items_with_names, deletes="hard").done()
    check_same(items_with_names)
