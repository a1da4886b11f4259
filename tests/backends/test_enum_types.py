"""Columns of enum types, and types under the source's names, in tables created in another
system."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import duckdb
import psycopg
import pytest
from tests.cli import run_cli

from penstock import CopySpec, PlanningError, RunFailed, UsageError, copy
from penstock.events import Committed, Finished
from penstock_testkit.mysql import connect_mysql

FILM = (
    "CREATE TABLE film (id int AUTO_INCREMENT PRIMARY KEY, title varchar(20) NOT NULL,"
    " rating enum('G', 'PG', 'it''s') DEFAULT 'PG', kind enum('a', 'b') NOT NULL, KEY (rating),"
    " UNIQUE (kind, id), loud varchar(20) AS (concat(kind, '!')) STORED, attrs json,"
    " active tinyint(1) NOT NULL DEFAULT 1, seen bit(1) DEFAULT b'1', stars tinyint(2),"
    " CONSTRAINT rated CHECK (rating LIKE 'P%' OR kind = 'a')) ENGINE = InnoDB"
)
ROWS = (
    "INSERT INTO film (title, rating, kind, attrs, active, seen) VALUES"
    """ ('A', 'it''s', 'a', '{"b": 1,  "a": 2}', 0, b'0'), ('B', NULL, 'a', NULL, 1, NULL)"""
)
TYPES = (
    "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
    " WHERE attrelid = '{}'::regclass AND attnum > 0"
)
LABELS = (
    "SELECT t.typname, array_agg(e.enumlabel::text ORDER BY e.enumsortorder) FROM pg_enum AS e"
    " JOIN pg_type AS t ON t.oid = e.enumtypid GROUP BY 1 ORDER BY 1"
)
MADE = [("film_kind_enum", ["a", "b"]), ("film_rating_enum", ["G", "PG", "it's"])]


@pytest.fixture
def films(mysql_url: str) -> str:
    run(mysql_url, FILM, ROWS)
    return mysql_url


def run(url: str, *statements: str) -> list[tuple[Any, ...]]:
    with closing(connect_mysql(url)) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def ask(url: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(query).fetchall()


def spec(source: str, target: str, **options: Any) -> CopySpec:
    arguments = {
        "mode": "recreate",
        "verify": "checksums",
        "table": "film",
        "target_table": "shop.film",
    }
    return CopySpec(source=source, target=target, **{**arguments, **options})


def not_copied_by_kind(source: str, target: str, **options: Any) -> dict[str, list[str]]:
    """Return what was not copied, by kind."""
    finished = list(copy(spec(source, target, **options)))[-1]
    assert isinstance(finished, Finished)
    assert finished.status == "done"
    found: dict[str, list[str]] = {}
    for item in finished.not_copied:
        found.setdefault(item.kind, []).append(item.name.partition(":")[0])
    return found


def test_an_enum_type_is_created(films: str, target_url: str) -> None:
    for _ in range(2):
        not_copied = not_copied_by_kind(films, target_url, enums="type")
        # In PostgreSQL an enum is not a text: neither LIKE nor concat accepts one.
        assert not_copied == {"check constraints": ["rated"], "generated columns": ["loud"]}
        assert ask(target_url, LABELS) == MADE
    types = dict(ask(target_url, TYPES.format("shop.film")))
    assert types["rating"] == "shop.film_rating_enum"
    assert ask(target_url, "SELECT rating::text, kind::text, loud FROM shop.film ORDER BY id") == [
        ("it's", "a", "a!"),
        (None, "a", "a!"),
    ]
    added = "INSERT INTO shop.film (title, kind) VALUES ('C', 'b') RETURNING id, rating::text"
    assert ask(target_url, added) == [(3, "PG")]
    for refused in ("rating) VALUES ('C', 'a', 'R')", "active) VALUES ('C', 'c', 1)"):
        with pytest.raises(psycopg.errors.InvalidTextRepresentation):
            ask(target_url, f"INSERT INTO shop.film (title, kind, {refused}")
    keys = "SELECT count(*) FROM pg_index WHERE indrelid = 'shop.film'::regclass AND indisvalid"
    assert ask(target_url, keys) == [(3,)]


@pytest.mark.parametrize("mode", ["append", "truncate", "upsert"])
def test_a_mode_that_creates_a_missing_table_creates_the_type(
    films: str, target_url: str, mode: str
) -> None:
    not_copied_by_kind(films, target_url, enums="type", mode=mode, create=True)
    assert ask(target_url, LABELS) == MADE
    assert ask(target_url, "SELECT count(*) FROM shop.film") == [(2,)]


def test_another_type_of_the_same_name(films: str, target_url: str) -> None:
    ask_nothing = (
        "CREATE SCHEMA shop; CREATE TYPE shop.film_rating_enum AS ENUM ('G', 'X');"
        " CREATE TABLE shop.film (id int)"
    )
    with psycopg.connect(target_url, autocommit=True) as connection:
        connection.execute(ask_nothing)
    expected = r"film_rating_enum.*differs.*enum \(G, PG, it's\).*enum \(G, X\).*ALTER TYPE"
    with pytest.raises(PlanningError, match=expected):
        not_copied_by_kind(films, target_url, enums="type")
    assert ask(target_url, TYPES.format("shop.film")) == [("id", "integer")]
    assert [name for name, _ in ask(target_url, LABELS)] == ["film_rating_enum"]


def test_an_interrupted_run_continues(films: str, target_url: str) -> None:
    expected = spec(
        films, target_url, enums="type", run_id="resumed", verify="none",
        on_snapshot_lost="accept",
    )  # fmt: skip
    events = copy(expected)
    while not isinstance(next(events), Committed):
        pass
    events.close()
    finished = list(copy(expected))[-1]
    assert isinstance(finished, Finished)
    assert finished.status == "done"
    assert ask(target_url, LABELS) == MADE


def test_a_table_that_cannot_be_planned_leaves_no_type_behind(films: str, target_url: str) -> None:
    with pytest.raises(PlanningError, match="--types"):
        not_copied_by_kind(films, target_url, enums="type", types=("title=no_such_type",))
    run(films, "DELETE FROM film", f"ALTER TABLE film MODIFY rating enum('G', '{'x' * 64}')")
    with pytest.raises(PlanningError, match="invalid enum label"):
        not_copied_by_kind(films, target_url, enums="type")
    assert ask(target_url, LABELS) == []
    assert ask(target_url, "SELECT 1 FROM pg_namespace WHERE nspname = 'shop'") == []


@pytest.mark.parametrize(("enums", "checked"), [("check", True), ("text", False)])
def test_enums_as_texts(films: str, target_url: str, enums: str, *, checked: bool) -> None:
    not_copied_by_kind(films, target_url, enums=enums)
    assert ask(target_url, LABELS) == []
    assert dict(ask(target_url, TYPES.format("shop.film")))["rating"] == "text"
    tests = ask(
        target_url,
        "SELECT count(*) FROM pg_constraint WHERE conrelid = 'shop.film'::regclass"
        " AND contype = 'c' AND conname <> 'rated' AND conname !~ 'seen'",
    )
    assert tests == [(2 * checked,)]


@pytest.fixture
def rated(source_url: str) -> str:
    with psycopg.connect(source_url, autocommit=True) as connection:
        connection.execute(
            "CREATE TYPE mpaa AS ENUM ('G', 'PG'); CREATE TABLE film (id int PRIMARY KEY,"
            " rating mpaa DEFAULT 'PG', attrs jsonb, tags jsonb);"
            " INSERT INTO film VALUES (1, 'G', '{\"a\": 1}', '[]')"
        )
    return source_url


@pytest.mark.parametrize(
    ("enums", "type_"), [("check", "enum('G','PG')"), ("type", "enum('G','PG')"), ("text", "text")]
)
def test_enums_into_mysql(rated: str, mysql_url: str, enums: str, type_: str) -> None:
    not_copied_by_kind(
        rated, mysql_url, enums=enums, target_table=f"{urlsplit(mysql_url).path[1:]}.film"
    )
    ((_, found, *_),) = run(mysql_url, "SHOW COLUMNS FROM film LIKE 'rating'")
    assert found.removeprefix("long") == type_


@pytest.mark.parametrize(("enums", "type_"), [("type", "ENUM('G', 'PG')"), ("text", "VARCHAR")])
def test_enums_into_duckdb(rated: str, tmp_path: Path, enums: str, type_: str) -> None:
    path = tmp_path / "made.duckdb"
    not_copied_by_kind(rated, f"duckdb:///{path}", enums=enums, target_table="main.film")
    with duckdb.connect(str(path)) as database:
        found = dict(
            database.execute("SELECT column_name, column_type FROM (DESCRIBE film)").fetchall()
        )
        assert found["rating"] == type_
        database.execute("INSERT INTO film (id) VALUES (2)")
        assert database.execute("SELECT rating FROM film WHERE id = 2").fetchall() == [("PG",)]


def test_between_servers_of_one_system_types_are_copied(rated: str, target_url: str) -> None:
    with pytest.raises(UsageError, match="--enums text from PostgreSQL"):
        not_copied_by_kind(rated, target_url, enums="text")


def test_types_are_matched_by_the_sources_names(films: str, target_url: str) -> None:
    """Even if the source calls a type differently: MariaDB's JSON is a `longtext`."""
    rules = ("source:json=json", "source:tinyint(1)=boolean", "source:bit(1)=boolean")
    not_copied_by_kind(films, target_url, types=rules)
    types = dict(ask(target_url, TYPES.format("shop.film")))
    assert {name: types[name] for name in ("attrs", "active", "seen", "stars")} == {
        "attrs": "json", "active": "boolean", "seen": "boolean", "stars": "smallint",
    }  # fmt: skip
    found = ask(target_url, "SELECT attrs::text, active, seen FROM shop.film ORDER BY id")
    # MySQL does not keep the text that was inserted.
    ((attrs,),) = run(films, "SELECT attrs FROM film WHERE attrs IS NOT NULL")
    assert found == [(attrs, False, False), (None, True, None)]
    added = "INSERT INTO shop.film (title, kind) VALUES ('C', 'b') RETURNING active, seen"
    assert ask(target_url, added) == [(True, True)]
    run(films, "UPDATE film SET active = 2 WHERE id = 2")
    seen = copy(spec(films, target_url, types=rules))
    output: list[str] = []
    with pytest.raises(RunFailed):
        output.extend(map(repr, seen))
    assert any("row 2: expected a value that fits into boolean" in each for each in output)


def test_values_that_are_not_compared_are_named(films: str, target_url: str) -> None:
    """JSON, which PostgreSQL rewrites as jsonb."""
    ends = ["--source", films, "--target", target_url]
    table = ["--table", "film", "--target-table", "shop.film", "--mode", "recreate"]
    why = "values of attrs are not compared by checksums"
    done = run_cli("copy", *ends, *table, "--verify", "checksums", "--run-id", "jsonb")
    assert done.returncode == 0, done.stderr
    assert why in done.stderr
    done = run_cli("verify", "jsonb", *ends, "--checksum", "--json")
    assert any(why in note for note in json.loads(done.stdout)["notes"])
    rules = ("--types", "source:json=json")
    done = run_cli("copy", *ends, *table, *rules, "--verify", "checksums", "--json")
    assert done.returncode == 0, done.stderr
    assert "not compared" not in done.stdout
