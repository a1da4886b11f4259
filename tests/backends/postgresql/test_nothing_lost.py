"""`pg_dump` of both sides differs only in what the report lists, for each kind of object."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock import BatchSpec, copy_all, plan_all
from penstock.engine.batch_plan import BatchPlan
from penstock.engine.schema import SchemaEnd, schema
from penstock.events import BatchFinished
from penstock_testkit import PostgresServer

if TYPE_CHECKING:
    from penstock.model.tables import NotCopied

    from ..conftest import Pair

SAMPLE = Path(__file__).parent / "samples" / "every_kind.sql"
EXTENSIONS = ("btree_gist", "citext", "hstore", "ltree", "pg_trgm", "postgres_fdw", "vector")
ROLES = ("every_kind_reader", "every_kind_owner")
# What defaults and columns need is created in the target beforehand.
TOOLS = """
    CREATE SCHEMA tools;
    CREATE FUNCTION tools.one(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1';
    CREATE COLLATION tools.german (locale = 'C');
"""
# Objects for which no statement is listed, and the comments on them.
ONLY_LISTED = {
    "AGGREGATE app total(integer)",
    "COMMENT app FOREIGN TABLE afar",
    "FOREIGN TABLE app afar",
    "OPERATOR app ===",
    "SERVER - far",
    "TEXT SEARCH CONFIGURATION app plain",
    "USER MAPPING - USER MAPPING postgres SERVER far",
    # A warning names it: partitions lack it.
    "INDEX app r_only",
    # Children of inheritance: what their parents define becomes their own, too.
    "TABLE app dog",
    "TABLE app duck",
    "TABLE app puppy",
    "DEFAULT app duck name",
    "DEFAULT app puppy name",
}
_HEAD = re.compile(r"-- Name: (.*); Type: (.*); Schema: (.*); Owner: .*")
_NOISE = re.compile(r"--.*|\\.*|SET default_table.*|")


def entries(url: str) -> dict[str, str]:
    """Return the entries of pg_dump, such as `INDEX app plain_u`, with their statements."""
    dumped = subprocess.run(
        [
            str(PostgresServer().bin("pg_dump")),
            *("--schema-only", "--exclude-schema=penstock", url),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, str] = {}
    entry = ""
    for line in dumped.stdout.splitlines():
        if head := _HEAD.fullmatch(line):
            entry = f"{head[2]} {head[3]} {head[1]}"
        elif not _NOISE.fullmatch(line):
            found[entry] = f"{found.get(entry, '')}{line}\n"
    return found


def differences(pair: Pair) -> set[str]:
    mine, theirs = entries(pair.source.url), entries(pair.target.url)
    return {entry for entry in mine.keys() | theirs.keys() if mine.get(entry) != theirs.get(entry)}


def spec(pair: Pair, **options: Any) -> BatchSpec:
    arguments = {"source": pair.source.url, "target": pair.target.url, "tables": "*.*"}
    return BatchSpec.from_mapping({**arguments, "mode": "recreate", **options}, "test")


def finish(pair: Pair, **options: Any) -> BatchFinished:
    end = list(copy_all(spec(pair, **options)))[-1]
    assert isinstance(end, BatchFinished)
    return end


def omitted(end: BatchFinished) -> list[NotCopied]:
    return [*end.not_copied, *(item for table in end.tables for item in table.not_copied)]


@pytest.fixture
def every_kind(pair: Pair) -> Iterator[Pair]:
    pair.needs(18, "virtual columns and constraints that are not enforced")
    available = pair.target.value("SELECT array_agg(name) FROM pg_available_extensions")
    if missing := set(EXTENSIONS) - set(available):
        pytest.skip(f"the server lacks extensions: {', '.join(sorted(missing))}")
    pair.both(*(f"CREATE EXTENSION {name}" for name in EXTENSIONS), TOOLS)
    for role in ROLES:
        # Both databases may be on one server.
        pair.both(
            f"DO $$ BEGIN IF to_regrole('{role}') IS NULL THEN CREATE ROLE {role}; END IF; END $$"
        )
    try:
        pair.source.run(SAMPLE.read_text(encoding="utf-8"))
        yield pair
    finally:
        for side in (pair.source, pair.target):
            side.run(f"DROP OWNED BY {', '.join(ROLES)} CASCADE")
        pair.both(*(f"DROP ROLE IF EXISTS {role}" for role in ROLES))


def test_the_dumps_differ_in_nothing_but_what_is_listed(every_kind: Pair) -> None:
    pair = every_kind
    end = finish(pair, partitioning=True)
    assert end.status == "done"
    items = omitted(end)
    assert differences(pair) > ONLY_LISTED
    # Functions before the triggers that call them.
    for item in items:
        try:
            pair.target.run(item.remedy)
        except psycopg.Error as error:
            error.add_note(item.remedy)
            raise
    assert differences(pair) == ONLY_LISTED
    listed = {(item.kind, item.name) for item in items if not item.remedy}
    assert listed >= {
        ("functions", "app.total"),
        ("foreign tables", "app.afar"),
        ("operators", "app.===(integer,integer)"),
        ("foreign servers", "far"),
        ("text search configurations", "app.plain"),
        ("user mappings", "postgres on server far"),
    }
    children = {item.table for item in items if item.kind == "parts that only the parent defines"}
    assert children == {"app.dog", "app.duck", "app.puppy"}


def test_the_plan_and_the_script_list_the_same(every_kind: Pair) -> None:
    pair = every_kind
    planned: set[tuple[str, str]] = set()
    for item in plan_all(spec(pair, partitioning=True)):
        if isinstance(item, BatchPlan):
            planned |= {(each.kind, each.name) for each in item.not_copied}
        elif item.plan is not None:
            planned |= {(each.kind, each.name) for each in item.plan.load.not_copied}
    scripted: set[tuple[str, str]] = set()
    for part in schema(spec(pair, partitioning=True)):
        scripted |= {(each.kind, each.name) for each in part.not_copied}
        assert isinstance(part, SchemaEnd) or not part.error
    ran = {(item.kind, item.name) for item in omitted(finish(pair, partitioning=True))}
    assert planned == ran
    assert scripted == ran


@pytest.mark.parametrize("mode", ["recreate", "append"])
def test_a_partitioned_table_that_becomes_plain_is_listed(pair: Pair, mode: str) -> None:
    pair.source.run(
        "CREATE TABLE r (id int, at date) PARTITION BY RANGE (at)",
        "CREATE TABLE r1 PARTITION OF r DEFAULT",
        "INSERT INTO r VALUES (1, '2026-01-01')",
    )
    (item,) = pair.plan("public.r", mode=mode).load.not_copied
    assert (item.kind, item.name) == ("partitioning", "PARTITION BY RANGE (at)")
    assert "--mode recreate --partitioning" in item.remedy
    report = pair.copy("public.r", mode=mode)
    assert report.not_copied == (item,)
    kept = pair.copy("public.r", mode="recreate", partitioning=True)
    assert not any(each.kind == "partitioning" for each in kept.not_copied if not each.dropped)


def test_a_disabled_trigger_stays_disabled_when_its_statement_is_run(pair: Pair) -> None:
    pair.both("CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'")
    pair.source.run(
        "CREATE TABLE t (id int)",
        "CREATE TRIGGER off BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
        "ALTER TABLE t DISABLE TRIGGER off",
        "CREATE RULE off AS ON UPDATE TO t DO ALSO NOTHING",
        "ALTER TABLE t DISABLE RULE off",
    )
    report = pair.copy(mode="recreate", target_table="public.u")
    pair.target.run(*(item.remedy for item in report.not_copied))
    enabled = "SELECT tgenabled, ev_enabled FROM pg_trigger, pg_rewrite WHERE tgname = 'off' AND"
    assert pair.target.rows(f"{enabled} rulename = 'off'") == [("D", "D")]
