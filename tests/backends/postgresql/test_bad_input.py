"""Bad input through the real command line: the message, the exit code, and no change."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

REPLACING = ["--mode", "replace", "--strategy", "range", "--key", "id"]
# Errors that the command line alone detects exit with 64; those that need a server, with 65. Each
# case has the arguments after the table, the exit code, and parts of the message.
REFUSED: dict[str, tuple[list[str], int, list[str]]] = {
    "unknown table": (
        ["--table", "public.nowhere"],
        65,
        ["source", "public.nowhere", "does not exist", "database"],
    ),
    "unknown schema": (["--table", "nowhere.t"], 65, ["source", "nowhere.t", "does not exist"]),
    "a table that is nowhere": (
        ["--table", "nowhere"],
        65,
        ["--table nowhere", "no such table in the source's search path", "SCHEMA.nowhere"],
    ),
    "unknown column": (
        ["--columns", "id,nmae"],
        65,
        ["--columns", "public.t has no column 'nmae'", "it has id, name, doc, day"],
    ),
    "unknown strategy": (["--strategy", "magic"], 64, ["--strategy", "'magic'", "ctid"]),
    "unknown mode": (["--mode", "merge"], 64, ["--mode", "'merge'", "replace"]),
    "unknown option": (["--colour", "red"], 64, ["--colour"]),
    "unknown key": (
        ["--strategy", "range", "--key", "nmae"],
        65,
        ["--key nmae", "no such column in public.t", "name"],
    ),
    "a key without an order": (
        ["--strategy", "range", "--key", "doc"],
        65,
        ["--key doc", "expected", "int4", "to partition into ranges; found jsonb"],
    ),
    "no key to range by": (
        ["--strategy", "range"],
        65,
        ["--strategy range", "expected --key COLUMN", "public.t has no primary key"],
    ),
    "replace without a key": (
        ["--mode", "replace"],
        64,
        ["--mode replace", "expected --key", "found none"],
    ),
    "replace with blocks": (
        ["--mode", "replace", "--strategy", "ctid"],
        64,
        ["--mode replace", "--strategy ctid", "expected range"],
    ),
    "no target": (
        ["--target-table", "public.nowhere", "--mode", "swap"],
        65,
        ["target", "public.nowhere", "does not exist", "--mode recreate"],
    ),
    "options of files": (
        ["--compression", "zstd"],
        64,
        ["PostgreSQL as a target does not support --compression", "it supports", "--unlogged"],
    ),
    "deferred indexes with replace": (
        [*REPLACING, "--indexes", "defer"],
        64,
        ["--indexes defer with --mode replace", "it supports"],
    ),
    "types between like systems": (
        ["--mode", "recreate", "--types", "id=bigint"],
        64,
        ["--types from PostgreSQL", "from other systems"],
    ),
    "folders by values": (["--partition-by", "id"], 64, ["not support --partition-by"]),
    "a key without a strategy for it": (["--strategy", "ctid", "--key", "id"], 64, ["--key"]),
    "blocks that move": (
        ["--strategy", "ctid", "--snapshot", "none"],
        64,
        ["--strategy ctid with --snapshot none", "a strategy by a key"],
    ),
    "an interval that is none": (
        ["--strategy", "time", "--key", "day", "--interval", "often"],
        64,
        ["--interval: expected an interval such as '1 day'", "found 'often'"],
    ),
    "no interval": (
        ["--strategy", "time", "--key", "day", "--interval", "0 days"],
        64,
        ["--interval: expected an interval longer than zero"],
    ),
    "two statements": (
        ["--query", "SELECT 1 AS id; SELECT 2 AS id", "--target-table", "public.t"],
        64,
        ["--query: expected one statement, found several"],
    ),
    "no query": (
        ["--query", "SHOW timezone", "--target-table", "public.t"],
        64,
        ["--query: expected a SELECT", "found SHOW"],
    ),
    "a query with parameters": (
        ["--query", "SELECT $1 AS id", "--target-table", "public.t"],
        64,
        ["--query: expected no parameters"],
    ),
    "a control schema of the server's own": (
        ["--control-schema", "pg_foo"],
        64,
        ["--control-schema", "PostgreSQL", "'pg_foo'"],
    ),
    "other columns in the target": (
        ["--target-table", "public.other"],
        65,
        ["public.t does not fit into public.other", "name", "text", "integer", "differ"],
    ),
    "a view as target": (
        ["--target-table", "public.seen"],
        65,
        ["target", "expected public.seen to be a table"],
    ),
    "a condition that is none": (["--where", "id >"], 65, ["--where", "public.t", "syntax error"]),
    "a condition on no column": (["--where", "nmae = 1"], 65, ["--where", '"nmae"']),
    "a run id with signs": (["--run-id", "a:b"], 64, ["run id", "found 'a:b'"]),
    "partitions that are none": (
        ["--partitions", "some"],
        64,
        ["--partitions", "expected a number of partitions", "found 'some'"],
    ),
    "no partitions": (["--partitions", "0"], 64, ["--partitions", "at least 1", "found 0"]),
    "a size that is none": (
        ["--partitions", "big"],
        64,
        ["--partitions", "64MB", "found 'big'"],
    ),
    "an empty list of values": (
        ["--strategy", "values", "--key", "id", "--values-query", "SELECT"],
        65,
        ["--values-query", "expected one column, found 0"],
    ),
}


@pytest.fixture
def tables(pair: Pair) -> Iterator[Pair]:
    pair.both("CREATE TABLE t (id int, name text, doc jsonb, day date)")
    pair.source.run(
        "INSERT INTO t SELECT n, 'x', '{}', '2026-01-01' FROM generate_series(1, 10) AS n"
    )
    pair.target.run(
        "INSERT INTO t VALUES (0, 'mine')",
        "CREATE TABLE other (id int, name int, doc jsonb, day date)",
        "CREATE VIEW seen AS SELECT * FROM t",
    )
    yield pair
    # Whatever the arguments were, nothing was changed.
    assert pair.target.rows("SELECT id, name FROM t") == [(0, "mine")]
    assert pair.target.count("other") == 0
    assert not pair.has_control_schema()


@pytest.mark.parametrize(("arguments", "code", "parts"), REFUSED.values(), ids=REFUSED)
def test_bad_arguments_are_refused(
    tables: Pair, arguments: list[str], code: int, parts: list[str]
) -> None:
    table = [] if {"--table", "--query"} & set(arguments) else ["--table", "public.t"]
    done = tables.cli("copy", *tables.ends, *table, *arguments)
    assert done.returncode == code, done.stderr
    for part in parts:
        assert part in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("command", ["plan", "copy"])
@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("localhost/shop", ["--source", "expected a URL"]),
        ("", ["--source"]),
        ("env:PENSTOCK_NOT_SET", ["--source", "'PENSTOCK_NOT_SET' is not set"]),
        ("oracle://me:secret-word@db/shop", ["--source", "postgresql", "found 'oracle'"]),
        ("postgresql://me:secret-word@db:port/shop", ["--source", "malformed", "port"]),
        ("postgresql://me:secret/word@db/shop", ["--source", "malformed", "%2F"]),
        ("postgresql://me:secret@word@db/shop", ["--source", "malformed", "%40"]),
        ("postgresql://me:secret-word@db/shop?nonsense=1", ["--source", "malformed"]),
        ("postgresql://me:secret-word%zz@db/shop", ["--source", "malformed"]),
    ],
)
def test_a_malformed_url_is_refused_and_not_shown(
    tables: Pair, command: str, url: str, parts: list[str]
) -> None:
    done = tables.cli(
        command, "--source", url, "--target", tables.target.url, "--table", "public.t"
    )
    assert done.returncode == 64, done.stderr
    for part in parts:
        assert part in done.stderr
    assert "secret" not in done.stderr + done.stdout


def with_login(url: str, user: str, database: str | None = None) -> str:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    path = parts.path if database is None else f"/{database}"
    return urlunsplit(parts._replace(netloc=f"{user}@{host}", path=path))


def test_a_missing_database_is_named(tables: Pair) -> None:
    url = with_login(tables.source.url, "postgres", "nowhere")
    done = tables.cli("copy", "--source", url, "--target", tables.target.url, "--table", "public.t")
    assert done.returncode == 65
    assert 'database "nowhere" does not exist' in done.stderr
    assert "source" in done.stderr


@pytest.fixture
def reader(tables: Pair) -> Iterator[str]:
    """A user of the target who may only connect."""
    name = f"reader_{os.getpid()}"
    tables.target.run(f"CREATE ROLE {name} LOGIN")
    try:
        yield name
    finally:
        with psycopg.connect(tables.target.url, autocommit=True) as connection:
            connection.execute(f"DROP OWNED BY {name}".encode())
            connection.execute(f"DROP ROLE {name}".encode())


@pytest.mark.parametrize(
    ("mode", "granted", "missing"),
    [
        ("append", "", "INSERT"),
        ("append", "SELECT", "INSERT"),
        ("truncate", "INSERT", "TRUNCATE"),
        ("replace", "INSERT", "DELETE, SELECT"),
    ],
)
def test_a_missing_privilege_on_the_target_is_named(
    tables: Pair, reader: str, mode: str, granted: str, missing: str
) -> None:
    if granted:
        tables.target.run(f"GRANT {granted} ON t TO {reader}")
    url = with_login(tables.target.url, reader)
    done = tables.cli(
        "copy", "--source", tables.source.url, "--target", url, "--table", "public.t",
        "--mode", mode, *(["--key", "id"] if mode == "replace" else []),
    )  # fmt: skip
    assert done.returncode == 65, done.stderr
    for part in (reader, f"may not {missing} on public.t", "run GRANT"):
        assert part in done.stderr


def test_a_run_id_used_with_other_options_is_refused(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id int, name text)")
    pair.source.run("INSERT INTO t SELECT n, 'x' FROM generate_series(1, 10) AS n")
    pair.copy(run_id="r1", where="id < 5")
    done = pair.cli(
        "copy", *pair.ends, "--table", "public.t", "--run-id", "r1", "--where", "id > 5",
        "--columns", "id",
    )  # fmt: skip
    assert done.returncode == 64
    for part in (
        "run r1 exists with other options",
        "--where: the run has 'id < 5', found 'id > 5'",
        "--columns: the run has None, found ['id']",
    ):
        assert part in done.stderr
    assert pair.target.count() == 4


CONSTRAINTS: dict[str, tuple[str, list[str]]] = {
    "unique": ("UNIQUE (id)", ["23505", "t_id_key", "Key (id)=(7) already exists"]),
    "check": ("CHECK (name <> 'x7')", ["23514", "t_name_check", "x7", "line 7"]),
    "not null": ("CHECK (doc IS NOT NULL)", ["23514", "t_doc_check"]),
    "foreign key": (
        "FOREIGN KEY (id) REFERENCES parent",
        ["23503", "t_id_fkey", "is not present in table"],
    ),
}


@pytest.mark.parametrize(("constraint", "parts"), CONSTRAINTS.values(), ids=CONSTRAINTS)
def test_a_value_that_breaks_a_constraint_is_reported(
    pair: Pair, constraint: str, parts: list[str]
) -> None:
    columns = "id int, name text, doc jsonb"
    pair.source.run(
        f"CREATE TABLE t ({columns})",
        "INSERT INTO t SELECT n, 'x' || n, NULL FROM generate_series(1, 10) AS n",
    )
    pair.target.run(
        "CREATE TABLE parent (id int PRIMARY KEY)",
        f"CREATE TABLE t ({columns}, {constraint})",
    )
    if "UNIQUE" in constraint:
        pair.target.run("INSERT INTO t VALUES (7, 'mine')")
    before = pair.target.count()
    done = pair.cli("copy", *pair.ends, "--table", "public.t", "--strategy", "whole")
    assert done.returncode == 65
    output = " ".join((done.stdout + done.stderr).replace("│", " ").split())
    for part in ("p0001", *parts):
        assert part in output
    assert pair.target.count() == before
    assert pair.target.count("penstock.commit_record") == 0
