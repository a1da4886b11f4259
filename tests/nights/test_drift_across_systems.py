"""Columns in tables of other systems that follow those of PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.backends.conftest import Side
from tests.conftest import fresh_mysql
from tests.one_copy import OneCopy

import penstock
from penstock import CopySpec, Drifted
from penstock.events import Merged
from penstock_testkit import AnyMysqlServer
from penstock_testkit.mysql import connect_mysql

from .targets import DuckTarget, MariaTarget, Target

ALL = "add,widen,rename"
NIGHT = {"mode": "upsert", "incremental": "xmin", "deletes": "hard", "degree": 1}


@pytest.fixture(params=["duckdb", "mysql"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Target]:
    if request.param == "duckdb":
        yield DuckTarget(f"duckdb:///{tmp_path}/target.duckdb", "hard")
        return
    server: AnyMysqlServer = request.getfixturevalue("mysql_server")
    with fresh_mysql(server) as url:
        yield MariaTarget(url, "hard")


@pytest.fixture
def pair(source_url: str, source: psycopg.Connection[Any], target: Target) -> Side:
    side = Side(source_url, source)
    side.run(
        "CREATE TABLE things (id bigint PRIMARY KEY, n int, word varchar(5), price numeric(6,2))",
        "INSERT INTO things SELECT i, i, 'w' || i, i FROM generate_series(1, 200) AS i",
    )
    return side


def copy_options(pair: Side, target: Target, **options: Any) -> dict[str, Any]:
    ends = {"source": pair.url, "target": target.url, "table": "public.things"}
    return {**ends, "target_table": target.table.replace("items", "things"), **NIGHT, **options}


def night(pair: Side, target: Target, **options: Any) -> OneCopy:
    return OneCopy(**copy_options(pair, target, **options))


def full(night: OneCopy) -> str:
    night.done()
    (merged,) = (event for event in night.events if isinstance(event, Merged))
    return merged.full


def rows(target: Target, columns: str) -> list[tuple[Any, ...]]:
    with target.open() as connection:
        cursor = connection.cursor()
        cursor.execute(f"SELECT {columns} FROM things ORDER BY id")
        return [tuple(row) for row in cursor.fetchall()]


def check_same(pair: Side, target: Target, columns: str) -> None:
    assert rows(target, columns) == pair.rows(f"SELECT {columns} FROM things ORDER BY id")


def test_columns_follow_the_source(pair: Side, target: Target) -> None:
    night(pair, target).done()
    pair.run(
        "ALTER TABLE things ADD note varchar(10) NOT NULL DEFAULT 'none'",
        "ALTER TABLE things RENAME word TO term",
        "ALTER TABLE things ALTER n TYPE bigint, ALTER term TYPE varchar(50),"
        " ALTER price TYPE numeric(9,2)",
        "INSERT INTO things VALUES (300, 3000000000, repeat('x', 40), 1234567.89, 'new')",
        "DELETE FROM things WHERE id = 5",
    )
    with pytest.raises(Drifted) as caught:
        list(penstock.copy(CopySpec(**copy_options(pair, target, on_drift="add"))))
    for change in ("rename column word to term", "add column note", "widen column n from int"):
        assert change in caught.value.message.replace("INT", "int")
    check_columns(target, ["id", "n", "word", "price"])
    assert full(night(pair, target, on_drift=ALL)).startswith("columns of the source have changed")
    check_same(pair, target, "id, n, term, price, note")
    assert full(night(pair, target)) == ""


def check_columns(target: Target, names: list[str]) -> None:
    with target.open() as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT * FROM things LIMIT 0")
        assert [column[0] for column in cursor.description] == names


def test_a_dropped_column_stays(pair: Side, target: Target) -> None:
    night(pair, target).done()
    pair.run("ALTER TABLE things DROP word", "INSERT INTO things VALUES (999, 1, 1)")
    night(pair, target, on_drift="add").done()
    assert rows(target, "id, word")[-1] == (999, None)


def test_columns_of_a_load_in_place_follow_the_source(pair: Side, target: Target) -> None:
    load = {"mode": "truncate", "incremental": None, "deletes": "ignore", "on_drift": ALL}
    night(pair, target).done()
    pair.run(
        "ALTER TABLE things ADD note varchar(10)",
        "ALTER TABLE things ALTER n TYPE bigint",
        "INSERT INTO things VALUES (300, 3000000000, 'x', 1, 'new')",
    )
    night(pair, target, **load).done()
    check_same(pair, target, "id, n, word, price, note")
    night(pair, target, **load).done()


def test_a_key_column_is_widened_if_the_target_can(pair: Side, target: Target) -> None:
    pair.run("ALTER TABLE things ALTER id TYPE int")
    night(pair, target).done()
    pair.run(
        "ALTER TABLE things ALTER id TYPE bigint",
        "INSERT INTO things VALUES (3000000000, 1, 'x', 1)",
        "DELETE FROM things WHERE id = 5",
    )
    found = night(pair, target, on_drift="widen")
    if isinstance(target, DuckTarget):
        assert isinstance(found.error, Drifted)
        assert "DuckDB cannot change the type of a column that a key or check uses" in found.message
        # A mode that recreates the table can continue.
        night(pair, target, mode="recreate", deletes="ignore").done()
        night(pair, target).done()
    else:
        found.done()
    check_same(pair, target, "id, n, word, price")


def test_columns_of_another_system_are_translated(
    mysql_url: str, source_url: str, source: psycopg.Connection[Any]
) -> None:
    """From MySQL, where columns have no identity: a plain load."""
    table = mysql_url.rpartition("/")[2].partition("?")[0] + ".things"
    with closing(connect_mysql(mysql_url)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {table} (id bigint PRIMARY KEY, n int, word varchar(50))")
        cursor.execute(f"INSERT INTO {table} VALUES (1, 1, 'w')")
        cursor.execute(f"ALTER TABLE {table} ADD (seen datetime(6), big bigint unsigned)")
        connection.commit()
    pair = Side(source_url, source)
    pair.run("CREATE TABLE things (id bigint PRIMARY KEY, n int, word varchar(5))")
    ends = {"source": mysql_url, "target": pair.url, "target_table": "public.things"}
    options = {**ends, "table": table, "mode": "upsert"}
    refused = OneCopy(**options)
    assert refused.code == 76
    assert 'ADD COLUMN IF NOT EXISTS "big" numeric(20,0)' in refused.message
    OneCopy(**options, on_drift="add,widen").done()
    assert pair.rows("SELECT id, n, word, big FROM things") == [(1, 1, "w", None)]
    types = pair.rows(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = 'things'::regclass AND attnum > 0 ORDER BY attnum"
    )
    assert types == [
        ("bigint",),
        ("integer",),
        ("character varying(50)",),
        ("timestamp without time zone",),
        ("numeric(20,0)",),
    ]


def test_a_widened_column_keeps_its_other_attributes(
    mysql_url: str, source_url: str, source: psycopg.Connection[Any]
) -> None:
    mine, target = Side(source_url, source), MariaTarget(mysql_url, "hard")
    mine.run(
        "CREATE TABLE things (id int PRIMARY KEY, word varchar(5) NOT NULL)",
        "INSERT INTO things VALUES (1, 'w')",
    )
    target.run(
        "CREATE TABLE things (id int NOT NULL AUTO_INCREMENT COMMENT 'number' PRIMARY KEY,"
        " word varchar(5) COLLATE utf8mb4_bin NOT NULL DEFAULT 'none' COMMENT 'it''s NOT NULL')"
    )
    night(mine, target).done()
    mine.run(
        "ALTER TABLE things ALTER id TYPE bigint, ALTER word TYPE varchar(300)",
        "ALTER TABLE things ALTER word DROP NOT NULL",
        "INSERT INTO things VALUES (3000000000, NULL)",
    )
    night(mine, target, on_drift="widen").done()
    check_same(mine, target, "id, word")
    with closing(target.open()) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW CREATE TABLE things")
        _, ddl = cursor.fetchone()
    assert re.search(r"`id` bigint(\(20\))? NOT NULL AUTO_INCREMENT COMMENT 'number'", ddl), ddl
    assert re.search(
        r"`word` varchar\(300\) .*utf8mb4_bin DEFAULT 'none' COMMENT 'it''s NOT NULL'", ddl
    ), ddl
