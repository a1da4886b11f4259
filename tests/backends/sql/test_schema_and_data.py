"""Tables without rows, rows without tables, and statements that are only printed."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.cli import run_cli
from tests.conftest import fresh_database, fresh_mysql

from penstock_testkit import AnyMysqlServer, Server

from ..mysql.mysql_pair import execute, rows

# Each refers to itself or to the other one, contrary to the order of their names.
TABLES = (
    "CREATE TABLE author (id int AUTO_INCREMENT PRIMARY KEY, name varchar(40) NOT NULL,"
    " mentor int, KEY by_mentor (mentor),"
    " CONSTRAINT mentored FOREIGN KEY (mentor) REFERENCES author (id)) ENGINE = InnoDB",
    "CREATE TABLE article (id int AUTO_INCREMENT PRIMARY KEY, author int NOT NULL,"
    " words int NOT NULL DEFAULT 7, CONSTRAINT written FOREIGN KEY (author)"
    " REFERENCES author (id) ON DELETE CASCADE) ENGINE = InnoDB COMMENT = 'what is read'",
    "INSERT INTO author VALUES (1, 'Ada', NULL), (2, 'Bob', 1)",
    "UPDATE author SET mentor = 2 WHERE id = 1",
    "INSERT INTO article VALUES (10, 2, 5), (11, 1, 6)",
)
KEYS = (
    "SELECT conname, confdeltype::text, convalidated FROM pg_constraint WHERE contype = 'f'"
    " AND connamespace = 'public'::regnamespace ORDER BY conname"
)
LINKED = [("mentored", "a", True), ("written", "c", True)]


@pytest.fixture
def shop(mysql_server: AnyMysqlServer) -> Iterator[str]:
    with fresh_mysql(mysql_server) as url:
        execute(url, *TABLES)
        yield url


def request(source: str, target: str, schema: str = "public") -> list[str]:
    tables = f"{source.partition('?')[0].rpartition('/')[2]}.*"
    if source.startswith("postgresql"):
        tables = "public.*"
    return [
        *("--source", source, "--target", target, "--tables", tables),
        *("--target-schema", schema, "--degree", "2"),
    ]


def ask(url: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchall()


def copy_all(*arguments: str, code: int = 0) -> str:
    done = run_cli("copy-all", *arguments)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_a_printed_schema_can_be_executed(shop: str, target_url: str) -> None:
    done = run_cli("schema", *request(shop, target_url))
    assert done.returncode == 0, done.stderr
    assert ask(target_url, "SELECT 1 FROM pg_class WHERE relname = 'author'") == []
    assert ask(target_url, "SELECT 1 FROM pg_namespace WHERE nspname = 'penstock'") == []
    with psycopg.connect(target_url, autocommit=True) as connection:
        connection.execute(done.stdout)
    assert ask(target_url, KEYS) == LINKED
    assert ask(target_url, "SELECT count(*) FROM article") == [(0,)]


def test_a_schema_is_printed_as_json(shop: str, target_url: str) -> None:
    done = run_cli("schema", *request(shop, target_url), "--json")
    first, second, end = map(json.loads, done.stdout.splitlines())
    assert [found["target_table"] for found in (first, second)] == [
        "public.article",
        "public.author",
    ]
    assert any("CREATE TABLE" in text for text in first["statements"])
    assert any("written" in text for text in first["links"])
    assert (end["tables"], end["failed"]) == (2, 0)


def test_tables_first_and_rows_later(shop: str, target_url: str) -> None:
    output = copy_all(*request(shop, target_url), "--schema-only")
    assert "the table, without rows" in output
    assert ask(target_url, KEYS) == LINKED
    assert ask(target_url, "SELECT count(*) FROM author") == [(0,)]
    again = copy_all(*request(shop, target_url), "--schema-only", code=65)
    assert "author already exists; drop it, or use --mode recreate" in again
    # Twice: foreign keys exist each time.
    for _ in range(2):
        copy_all(*request(shop, target_url), "--data-only", "--mode", "truncate")
        assert ask(target_url, KEYS) == LINKED
        found = ask(target_url, "SELECT a.id, a.name, a.mentor FROM author AS a ORDER BY 1")
        assert found == [(1, "Ada", 2), (2, "Bob", 1)]
    added = "INSERT INTO article (author) VALUES (1) RETURNING id, words"
    with psycopg.connect(target_url) as connection:
        assert connection.execute(added).fetchall() == [(12, 7)]


def test_rows_without_tables_are_refused(shop: str, target_url: str) -> None:
    output = copy_all(*request(shop, target_url), "--data-only", code=65)
    assert "author does not exist" in output
    assert ask(target_url, "SELECT 1 FROM pg_class WHERE relname = 'author'") == []


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--schema-only", "--data-only"), "found both; pass either"),
        (("--schema-only", "--mode", "upsert"), "copies no rows"),
        (("--data-only", "--mode", "recreate"), "creates no tables"),
    ],
)
def test_contradictory_options_are_refused(
    shop: str, target_url: str, flags: tuple[str, ...], why: str
) -> None:
    assert why in copy_all(*request(shop, target_url), *flags, code=64)


PAGE = Path(__file__).parents[3] / "docs/moving-a-database.md"


def test_the_commands_of_the_page_work(
    mysql_server: AnyMysqlServer, target_url: str, source_url: str
) -> None:
    commands = re.findall(r"^penstock (.*)$", PAGE.read_text(), re.MULTILINE)
    assert len(commands) == 11
    with fresh_mysql(mysql_server) as url:
        execute(url, "DROP DATABASE IF EXISTS shop", "CREATE DATABASE shop")
        try:
            head, _, options = url.partition("?")
            shop = f"{head.rpartition('/')[0]}/shop{'?' * bool(options)}{options}"
            execute(shop, *TABLES)
            env = {**os.environ, "SHOP": shop, "WAREHOUSE": target_url, "NEW": source_url}
            for command in commands:
                done = run_cli(*shlex.split(command), env=env)
                assert done.returncode == 0, (command, done.stderr)
        finally:
            execute(url, "DROP DATABASE shop")
    for url in (target_url, source_url):
        found = ask(url, "SELECT id, author, words FROM shop.article ORDER BY id")
        assert found == [(10, 2, 5), (11, 1, 6)]
        assert ask(url, KEYS.replace("'public'", "'shop'")) == LINKED


def test_into_mysql_and_back(
    shop: str, source_server: Server, mysql_server: AnyMysqlServer
) -> None:
    with fresh_database(source_server) as middle, fresh_mysql(mysql_server) as back:
        copy_all(*request(shop, middle), "--mode", "recreate")
        schema = back.partition("?")[0].rpartition("/")[2]
        copy_all(*request(middle, back, schema), "--schema-only")
        for _ in range(2):
            copy_all(*request(middle, back, schema), "--data-only", "--mode", "truncate")
            for table in ("author", "article"):
                query = f"SELECT * FROM {table} ORDER BY id"
                assert rows(back, query) == rows(shop, query)
        keys = (
            "SELECT constraint_name, delete_rule FROM information_schema.referential_constraints"
            f" WHERE constraint_schema = '{schema}' ORDER BY 1"
        )
        assert sorted(rule for _, rule in rows(back, keys)) in (
            ["CASCADE", "NO ACTION"],
            ["CASCADE", "RESTRICT"],
        )
