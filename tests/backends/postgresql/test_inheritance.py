"""Tables that inherit from others: each is copied as itself, or the plan says what happens to its
rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock import BatchSpec, CopySpec, PlanningError, RunFailed, copy_all, plan, verify
from penstock.events import BatchFinished, Event

if TYPE_CHECKING:
    from ..conftest import Pair

FAMILY = """
    CREATE TABLE place (id int PRIMARY KEY, name text, CONSTRAINT named CHECK (name <> ''));
    CREATE TABLE city (people int) INHERITS (place);
    CREATE TABLE capital (country text NOT NULL) INHERITS (city);
"""
ROWS = """
    INSERT INTO place SELECT n, 'place ' || n FROM generate_series(1, 500) AS n;
    INSERT INTO city SELECT n, 'city ' || n, n FROM generate_series(1001, 1300) AS n;
    INSERT INTO capital SELECT n, 'capital ' || n, n, 'c' FROM generate_series(2001, 2050) AS n;
    ANALYZE
"""
TABLES = ("place", "city", "capital")


def spec(pair: Pair, **options: Any) -> BatchSpec:
    arguments = {"source": pair.source.url, "target": pair.target.url, "tables": "public.*"}
    return BatchSpec.from_mapping(
        {**arguments, "degree": 2, "verify": "checksums", **options}, "test"
    )


def finish(pair: Pair, **options: Any) -> BatchFinished:
    end = list(copy_all(spec(pair, **options)))[-1]
    assert isinstance(end, BatchFinished)
    return end


def assert_each_is_itself(pair: Pair) -> None:
    for table in TABLES:
        pair.assert_same(f"ONLY {table}")
        pair.assert_same(table)


def test_a_family_recreated_repeatedly_stays_the_same(pair: Pair) -> None:
    pair.source.run(FAMILY, ROWS)
    for _ in range(3):
        end = finish(pair, mode="recreate")
        omitted = {
            item.table: (item.kind, item.name.partition(":")[0])
            for table in end.tables
            for item in table.not_copied
        }
        # PostgreSQL has no statement that would make them the parent's again.
        kind = "parts that only the parent defines"
        assert omitted == {
            "public.city": (kind, "id, name, named"),
            "public.capital": (kind, "id, name, people, named"),
        }
        assert_each_is_itself(pair)
    tree = "SELECT inhrelid::regclass::text, inhparent::regclass::text FROM pg_inherits ORDER BY 1"
    assert pair.target.rows(tree) == pair.source.rows(tree)
    for table in end.tables:
        found = verify(table.run_id, source=pair.source.url, target=pair.target.url, checksum=True)
        assert found.ok


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "append"},
        {"mode": "truncate"},
        {"mode": "replace", "strategy": "range", "key": "id"},
        {"mode": "replace", "strategy": "hash", "key": "id"},
        {"mode": "upsert", "conflict_columns": "id"},
        {"mode": "append", "strategy": "ctid", "partitions": 3},
    ],
    ids=str,
)
def test_a_family_is_copied_into_an_identical_family(pair: Pair, options: dict[str, Any]) -> None:
    pair.both(FAMILY)
    keys = [f"CREATE UNIQUE INDEX ON {table} (id)" for table in ("city", "capital")]
    pair.target.run(*keys)
    pair.source.run(ROWS)
    if options["mode"] in ("truncate", "replace"):
        pair.target.run(
            "INSERT INTO place VALUES (-1, 'old')", "INSERT INTO city VALUES (-2, 'old')"
        )
    finish(pair, **options)
    assert_each_is_itself(pair)


@pytest.mark.parametrize("mode", ["truncate", "replace"])
def test_copying_one_table_leaves_the_others(pair: Pair, mode: str) -> None:
    pair.both(FAMILY)
    pair.source.run(ROWS)
    pair.target.run(
        "INSERT INTO city VALUES (7, 'stays', 1)", "INSERT INTO place VALUES (8, 'goes')"
    )
    cut = {"strategy": "range", "key": "id"} if mode == "replace" else {}
    pair.copy("public.place", mode=mode, descendants="exclude", verify="checksums", **cut)
    pair.assert_same("ONLY place")
    assert pair.target.rows("SELECT id FROM ONLY city") == [(7,)]


def test_rows_of_a_family_are_not_copied_into_one_of_several_tables(pair: Pair) -> None:
    pair.both(FAMILY)
    pair.source.run(ROWS)
    with pytest.raises(PlanningError, match="--descendants exclude"):
        pair.copy("public.place")
    assert pair.target.count("place") == 0


def test_copying_a_family_into_one_table_warns_of_losses(pair: Pair) -> None:
    pair.source.run(FAMILY, ROWS)
    warnings = pair.plan("public.place", mode="recreate").warnings
    assert [("(people)" in w, "(people, country)" in w) for w in warnings] == [
        (False, True), (True, False),
    ]  # fmt: skip
    pair.copy("public.place", mode="recreate")
    pair.assert_same("place")
    assert pair.target.count("ONLY place") == 850


def test_a_part_of_a_family_is_refused(pair: Pair) -> None:
    pair.source.run(FAMILY, ROWS)
    seen: list[Event] = []
    with pytest.raises(RunFailed):
        seen.extend(copy_all(spec(pair, mode="recreate", exclude="public.city")))
    end = seen[-1]
    assert isinstance(end, BatchFinished)
    (place,) = [table for table in end.tables if table.table == "public.place"]
    assert place.error is not None
    assert "public.city missing; copy all or none" in place.error["message"]


def test_members_are_found_by_their_names(pair: Pair) -> None:
    pair.source.run(
        FAMILY,
        ROWS,
        "CREATE TABLE p (id int) PARTITION BY RANGE (id)",
        "CREATE TABLE p_1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "INSERT INTO p VALUES (1), (2)",
        "CREATE MATERIALIZED VIEW m AS SELECT * FROM p",
    )
    end = finish(pair, mode="recreate", tables="public.capital,public.p_1,public.m")
    assert [table.table for table in end.tables] == ["public.capital", "public.m", "public.p_1"]
    for table in ("capital", "p_1", "m"):
        pair.assert_same(table)


def test_another_system_lists_inheritance_as_not_copied(pair: Pair, tmp_path: Path) -> None:
    pair.source.run(FAMILY, ROWS)
    target = f"duckdb:///{tmp_path}/t.duckdb"
    request = CopySpec(
        source=pair.source.url, target=target, table="public.city", target_table="main.city",
        mode="recreate",
    )  # fmt: skip
    not_copied = [(each.kind, each.name) for each in plan(request).load.not_copied]
    assert ("inheritance", "public.place") in not_copied
