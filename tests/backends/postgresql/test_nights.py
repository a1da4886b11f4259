"""Repeated loads: each night reads the changes since the previous one, and loses none."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.one_copy import OneCopy

import penstock
from penstock import BatchSpec, PenstockError, copy_all
from penstock.backends.postgresql.compare import deleted_keys
from penstock.errors import Overtaken, UsageError
from penstock.events import BatchFinished, Committed, Finished, Merged

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

ALL = "SELECT * FROM items ORDER BY id"


def night(pair: Pair, **options: Any) -> OneCopy:
    arguments = {"mode": "upsert", "incremental": "xmin", "table": "public.items", **options}
    return OneCopy(source=pair.source.url, target=pair.target.url, **arguments)


@pytest.fixture
def items(pair: Pair) -> Pair:
    pair.source.run(
        "CREATE TABLE items (id int PRIMARY KEY, word text, at timestamptz DEFAULT now())",
        "INSERT INTO items SELECT i, 'w' || i FROM generate_series(1, 1000) AS i",
    )
    return pair


def test_a_second_night_reads_what_has_changed(items: Pair) -> None:
    first = night(items).done()
    assert first.rows == 1000
    assert items.target.rows(ALL) == items.source.rows(ALL)
    items.source.run(
        "UPDATE items SET word = 'x' WHERE id % 100 = 0", "INSERT INTO items VALUES (2000, 'new')"
    )
    second = night(items).done()
    assert second.rows == 11
    assert items.target.rows(ALL) == items.source.rows(ALL)
    third = night(items).done()
    assert third.rows == 0


def test_a_transaction_that_commits_late_is_not_lost(items: Pair) -> None:
    with psycopg.connect(items.source.url) as late:
        late.execute("UPDATE items SET word = 'late' WHERE id = 1")
        night(items).done()
        items.source.run("UPDATE items SET word = 'early' WHERE id = 2")
        night(items).done()
        late.commit()
    night(items).done()
    assert items.target.rows(ALL) == items.source.rows(ALL)


def test_rows_deleted_in_the_source_are_deleted(items: Pair) -> None:
    night(items, deletes="hard").done()
    items.source.run(
        "DELETE FROM items WHERE id % 7 = 0",
        "UPDATE items SET id = id + 5000 WHERE id % 10 = 1",
        "INSERT INTO items VALUES (14, 'back')",
    )
    night(items, deletes="hard").done()
    assert items.target.rows(ALL) == items.source.rows(ALL)


def test_rows_deleted_in_the_source_are_marked_until_they_return(items: Pair) -> None:
    night(items, deletes="soft").done()
    items.source.run("DELETE FROM items WHERE id IN (3, 4, 5)")
    night(items, deletes="soft").done()
    deleted = "SELECT id FROM items WHERE deleted_at IS NOT NULL ORDER BY id"
    assert items.target.rows(deleted) == [(3,), (4,), (5,)]
    items.source.run("INSERT INTO items (id, word) VALUES (4, 'w4')")
    night(items, deletes="soft").done()
    assert items.target.rows(deleted) == [(3,), (5,)]


def test_too_many_deletes_change_nothing(items: Pair) -> None:
    night(items, deletes="hard").done()
    before = items.target.rows(ALL)
    items.source.run("DELETE FROM items", "INSERT INTO items VALUES (1, 'only')")
    refused = night(items, deletes="hard,10%,5")
    assert refused.code == 65
    assert "would lose 999 of 1,000" in refused.message
    assert items.target.rows(ALL) == before
    night(items, deletes="hard,100%").done()
    assert items.target.rows(ALL) == items.source.rows(ALL)


def test_a_night_that_would_delete_too_much_is_resumed_with_another_limit(items: Pair) -> None:
    night(items, deletes="hard").done()
    items.source.run("DELETE FROM items", "INSERT INTO items VALUES (1, 'only')")
    refused = night(items, deletes="hard,10%,5", run_id="much")
    assert "allow more: --deletes hard,100%" in refused.message
    ends: dict[str, Any] = {"source": items.source.url, "target": items.target.url}
    with pytest.raises(UsageError, match="--deletes ignore: the run has hard,10%,5, and only the"):
        list(penstock.resume("much", **ends, deletes="ignore"))
    *_, last = penstock.resume("much", **ends, deletes="hard,100%")
    assert isinstance(last, Finished)
    assert items.target.rows(ALL) == items.source.rows(ALL)


def test_leftovers_of_a_failed_night_are_dropped_by_the_next(items: Pair) -> None:
    items.target.run("CREATE TABLE items (id int PRIMARY KEY, word text, at timestamptz)")
    items.target.run("ALTER TABLE items ADD CHECK (word <> 'bad')")
    items.source.run("INSERT INTO items VALUES (0, 'bad')")
    assert night(items, deletes="hard").code == 65
    stages = "SELECT relname FROM pg_class WHERE relname LIKE '%penstock%' AND relkind = 'r'"
    assert len(items.target.rows(stages)) == 2
    items.source.run("UPDATE items SET word = 'good' WHERE id = 0")
    night(items, deletes="hard").done()
    assert items.target.rows(stages) == []
    assert items.target.rows(ALL) == items.source.rows(ALL)


def test_tables_of_a_batch_are_merged_together_or_not_at_all(pair: Pair) -> None:
    definition = (
        "CREATE TABLE owners (id int PRIMARY KEY, word text)",
        "CREATE TABLE pets (id int PRIMARY KEY, owner int NOT NULL REFERENCES owners, word text"
        " CHECK (word <> 'bad'))",
    )
    pair.both(*definition)
    pair.source.run(
        "ALTER TABLE pets DROP CONSTRAINT pets_word_check",
        "INSERT INTO owners SELECT i, 'o' FROM generate_series(1, 100) AS i",
        "INSERT INTO pets SELECT i, i, 'p' FROM generate_series(1, 100) AS i",
    )

    def nights(**options: Any) -> list[str]:
        arguments = {"source": pair.source.url, "target": pair.target.url, "tables": ["public.*"]}
        arguments |= {"mode": "upsert", "incremental": "xmin", "deletes": "hard", "atomic": "batch"}
        try:
            events = list(copy_all(BatchSpec.from_mapping({**arguments, **options}, "test")))
        except PenstockError as error:
            return [str(error)]
        return [event.name for event in events if isinstance(event, Merged)]

    assert nights() == ["merged", "merged"]
    pair.source.run(
        "INSERT INTO owners SELECT i, 'o' FROM generate_series(101, 120) AS i",
        "UPDATE pets SET owner = 110 WHERE id < 50",
        "DELETE FROM owners WHERE id < 50",
    )
    assert nights() == ["merged", "merged"]
    pair.assert_same("public.owners")
    pair.assert_same("public.pets")
    pair.source.run(
        "INSERT INTO owners VALUES (200, 'o')", "INSERT INTO pets VALUES (200, 200, 'bad')"
    )
    assert "merged" not in nights()
    assert pair.target.count("public.owners") == 71
    pair.source.run("UPDATE pets SET word = 'good' WHERE id = 200")
    assert nights() == ["merged", "merged"]
    pair.assert_same("public.owners")
    pair.assert_same("public.pets")


@pytest.mark.parametrize(
    ("mine", "theirs", "key", "values"),
    [
        ("a int, b bigint", "a int, b bigint", "b, a", "i, i % 7"),
        ("a smallint, b text", "b text, a int", "a, b", "i, 'x' || i % 3"),
        ("a int, b text", "a numeric(12, 0), b text", "a", "i, 'x'"),
        ("a text, b int", "a text, b int", "a", "repeat('long', 100) || i, i"),
        ("a uuid, b int", "a uuid, b int", "a", "md5(i::text)::uuid, i"),
        ("a numeric, b date", "a numeric, b date", "a, b", "i / 10.0, date '2026-01-01' + i"),
    ],
)
def test_deleted_keys_of_all_types_are_found(
    pair: Pair, mine: str, theirs: str, key: str, values: str
) -> None:
    pair.source.run(
        f"CREATE TABLE items ({mine}, n int, PRIMARY KEY ({key}))",
        f"INSERT INTO items SELECT {values}, i FROM generate_series(1, 3000) AS i",
    )
    pair.target.run(f"CREATE TABLE items ({theirs}, n int, PRIMARY KEY ({key}))")
    night(pair, deletes="hard").done()
    for condition in ("n = 77", "n % 3 = 0", "n BETWEEN 1000 AND 1100"):
        pair.source.run(f"DELETE FROM items WHERE {condition}")
        night(pair, deletes="hard,90%").done()
        found = "SELECT a::text, b::text, n FROM items ORDER BY n"
        assert pair.target.rows(found) == pair.source.rows(found)


def test_parts_of_a_table_have_separate_watermarks(items: Pair) -> None:
    parts = [
        {"where": where, "watermark": where, "deletes": "hard"}
        for where in ("id <= 500", "id > 500")
    ]
    for part in parts:
        night(items, **part).done()
    items.source.run(
        "UPDATE items SET word = 'x' WHERE id IN (1, 900)", "DELETE FROM items WHERE id = 2"
    )
    assert [night(items, **part).done().rows for part in parts] == [1, 1]


def test_a_run_that_wakes_after_the_next_night_merges_nothing(items: Pair) -> None:
    night(items).done()
    items.source.run("UPDATE items SET word = 'x' WHERE id = 1")
    spec = items.spec("public.items", mode="upsert", incremental="xmin", run_id="stopped")
    with closing(penstock.copy(spec)) as events:
        next(event for event in events if isinstance(event, Committed))
    items.source.run("UPDATE items SET word = 'y' WHERE id = 1")
    night(items).done()
    with pytest.raises(Overtaken):
        list(
            penstock.resume(
                "stopped",
                source=items.source.url,
                target=items.target.url,
                on_snapshot_lost="accept",
            )
        )
    assert items.target.rows(ALL) == items.source.rows(ALL)


@pytest.mark.parametrize(
    ("definition", "key", "row"),
    [
        ("a bigint, b int", "a, b", "i * 3 - 30000, i"),
        ("a smallint, b bigint", "b", "7, i - 10000"),
        ("a int, b text", "a", "i - 10000, 'x'"),
    ],
)
def test_deleted_keys_are_looked_for_only_where_counts_differ(
    pair: Pair, definition: str, key: str, row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a table with many ranges of keys, some below zero, and beside new keys."""
    pair.source.run(
        f"CREATE TABLE items ({definition}, n int, PRIMARY KEY ({key}))",
        f"INSERT INTO items SELECT {row}, i FROM generate_series(1, 60000) AS i",
    )
    night(pair, deletes="hard").done()
    reads: list[int] = []
    original = deleted_keys.read_buckets

    def read_buckets(*args: Any) -> Any:
        found = original(*args)
        reads.append(sum(bucket.count for bucket in found.values()))
        return found

    monkeypatch.setattr(deleted_keys, "read_buckets", read_buckets)
    column = key.split(", ", maxsplit=1)[0]
    for number, condition in enumerate(("n = 77", "n IN (1, 59999)", "n BETWEEN 9000 AND 9100")):
        pair.source.run(
            f"DELETE FROM items WHERE {condition}",
            f"UPDATE items SET {column} = {column} + 200000 WHERE n = {5000 + number}",
            f"INSERT INTO items SELECT {row}, i FROM generate_series(9000, 9003) AS i"
            " ON CONFLICT DO NOTHING",
        )
        night(pair, deletes="hard").done()
        everything = "SELECT t::text FROM items AS t ORDER BY 1"
        assert pair.target.rows(everything) == pair.source.rows(everything)
    assert len(reads) == 6
    assert max(reads) < 15000


@pytest.mark.parametrize("deletes", ["hard", "soft", "ignore"])
def test_values_of_another_unique_key_may_be_exchanged(pair: Pair, deletes: str) -> None:
    marked = ", deleted_at timestamptz" if deletes == "soft" else ""
    definition = "CREATE TABLE items (id int PRIMARY KEY, word text UNIQUE, n int{})"
    pair.source.run(
        definition.format(""),
        "INSERT INTO items SELECT i, 'w' || i, i FROM generate_series(1, 99) AS i",
    )
    pair.target.run(definition.format(marked))
    night(pair, deletes=deletes).done()
    pair.source.run(
        "UPDATE items SET word = 'free' WHERE id = 1",
        "UPDATE items SET word = 'w1' WHERE id = 2",
        "UPDATE items SET word = 'w2' WHERE id = 1",
        "UPDATE items SET n = 0 WHERE id = 50",
        "INSERT INTO items VALUES (200, 'new', 1)",
    )
    found = night(pair, deletes=deletes)
    found.done()
    (merged,) = (event for event in found.events if isinstance(event, Merged))
    everything = "SELECT id, word, n FROM items ORDER BY id"
    assert pair.target.rows(everything) == pair.source.rows(everything)
    assert (merged.inserted, merged.updated) == (1, 3)


def test_referenced_rows_are_not_deleted_to_exchange_values(pair: Pair) -> None:
    pair.both("CREATE TABLE items (id int PRIMARY KEY, word text UNIQUE)")
    pair.source.run("INSERT INTO items VALUES (1, 'a'), (2, 'b')")
    night(pair).done()
    pair.target.run(
        "CREATE TABLE pets (item int REFERENCES items ON DELETE CASCADE)",
        "INSERT INTO pets VALUES (1)",
    )
    pair.source.run(
        "UPDATE items SET word = 'free' WHERE id = 1",
        "UPDATE items SET word = 'a' WHERE id = 2",
        "UPDATE items SET word = 'b' WHERE id = 1",
    )
    refused = night(pair)
    assert refused.code == 65
    assert "DEFERRABLE INITIALLY DEFERRED" in refused.message
    assert pair.target.count("public.pets") == 1


@pytest.mark.parametrize("atomic", ["batch", "table"])
def test_foreign_keys_between_tables_that_are_merged_together(pair: Pair, atomic: str) -> None:
    """Merged alone, a table could have rows whose parents are merged later."""
    pair.source.run(
        "CREATE TABLE child (id int PRIMARY KEY, parent int)",
        "CREATE TABLE parent (id int PRIMARY KEY, above int REFERENCES parent)",
        "ALTER TABLE child ADD CONSTRAINT of_parent FOREIGN KEY (parent) REFERENCES parent",
        "INSERT INTO parent VALUES (1, NULL), (2, 1)",
        "INSERT INTO child VALUES (1, 1), (2, 2)",
    )
    arguments = {"source": pair.source.url, "target": pair.target.url, "tables": ["public.*"]}
    arguments |= {"mode": "upsert", "incremental": "xmin", "deletes": "hard,100%", "atomic": atomic}

    def night() -> BatchFinished:
        *_, end = copy_all(BatchSpec.from_mapping(arguments, "test"))
        assert isinstance(end, BatchFinished)
        return end

    first = night()
    keys = "SELECT conname, convalidated FROM pg_constraint WHERE contype = 'f'"
    created = [("of_parent", True)] if atomic == "batch" else []
    assert pair.target.rows(keys) == created
    listed = {item.name for table in first.tables for item in table.not_copied}
    assert ("of_parent" in listed) == (atomic == "table")
    for changes in (
        ["INSERT INTO parent VALUES (3, 2)", "INSERT INTO child VALUES (3, 3)"],
        ["DELETE FROM child WHERE parent = 2", "UPDATE parent SET above = 1 WHERE above = 2"],
        ["DELETE FROM parent WHERE id = 2"],
        ["DELETE FROM child", "DELETE FROM parent", "INSERT INTO parent VALUES (9)"],
    ):
        pair.source.run(*changes)
        night()
        pair.assert_same("public.parent")
        pair.assert_same("public.child")
    assert pair.target.rows(keys) == created
