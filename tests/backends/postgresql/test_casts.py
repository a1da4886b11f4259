"""Columns that the source casts: which ones, and what arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from penstock import PlanningError
from penstock.backends.postgresql.catalog.casting import castable
from penstock.backends.postgresql.catalog.columns import data_type, read_columns
from penstock.backends.postgresql.connection import connect
from penstock.model.tables import TableRef

from .type_values import BY_NAME, CONTRIB, NEWER, OWN_TYPES, SYSTEM, known_values

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

OF_ONES_OWN = (
    "here.mood", "here.positive", "here.tiny", "here.pair", "here.pairs", "here.moods",
    "here.multimoods", "here.mood[]", "here.pair[]", "here.tiny[]",
)  # fmt: skip
EXTENSIONS = ("citext", "hstore", "cube", "earthdistance", "lo", "isn")


def test_casts_follow_the_servers_own_assignment_rules(pair: Pair) -> None:
    """Every type into every other: allowed where the server's own INSERT allows it."""
    side = pair.source
    side.run(
        *OWN_TYPES,
        *(f"CREATE EXTENSION {name}" for name in EXTENSIONS),
        "CREATE CAST (here.mood AS int) WITH INOUT AS ASSIGNMENT",
        "CREATE CAST (text AS here.mood) WITH INOUT",
    )
    types = [
        *(
            name
            for name in known_values(SYSTEM | BY_NAME, pair.version)
            if side.value(f"SELECT to_regtype('{name}')")
        ),
        *(name for extension in EXTENSIONS for name in CONTRIB[extension]),
        *OF_ONES_OWN,
    ]
    declared = ", ".join(f"c{number} {name}" for number, name in enumerate(types))
    side.run(f"CREATE TABLE t ({declared})")
    connection = connect(side.url, "source", "test")
    columns = read_columns(connection, TableRef("public", "t"), "source")
    pairs = [
        (source, target) for source in columns for target in columns if source.type != target.type
    ]
    expected = [(source.name, data_type(target).bare.text) for source, target in pairs]
    ours = castable(connection, columns, expected)
    connection.close()
    assert any(ours)
    assert not all(ours)
    wrong = [
        (source.type, target.type, allowed)
        for (source, target), allowed in zip(pairs, ours, strict=True)
        if allowed != _insertable(pair, source.name, target.name)
    ]
    assert wrong == []


def _insertable(pair: Pair, source: str, target: str) -> bool:
    try:
        pair.source.run(f"EXPLAIN INSERT INTO t ({target}) SELECT {source} FROM t")
    except psycopg.errors.DatatypeMismatch:
        return False
    return True


def test_a_cast_value_equals_what_the_server_would_assign(pair: Pair) -> None:
    pair.both("SET TIME ZONE UTC")
    casts = pair.source.rows(
        "SELECT format_type(s.oid, -1), format_type(t.oid, -1), s.typname, t.typname FROM pg_cast"
        " JOIN pg_type AS s ON s.oid = castsource JOIN pg_type AS t ON t.oid = casttarget"
        " WHERE castcontext IN ('a', 'i') AND castsource <> casttarget"
    )
    names = {name.strip('"') for name in (*SYSTEM, *BY_NAME)} - {"xml"}
    columns: list[tuple[str, str, list[str]]] = []
    for source, target, short_source, short_target in casts:
        values = (SYSTEM | BY_NAME).get(short_source, (SYSTEM | BY_NAME).get(source, []))
        # An object id denotes another object in the target.
        if not {short_source, short_target} <= names or short_source in BY_NAME:
            continue
        good = [
            value
            for value in (*values, "1", "0.5", "pg_class")
            if _casts(pair, value, source, target)
        ]
        if good:
            columns.append((source, target, good))
    columns += [
        ("int4[]", "int8[]", ["{1,NULL}", "[3:3]={7}"]),
        ("timestamp", "timestamptz", ["2026-06-01 12:00"]),
        ("numeric", "numeric(5,1)", ["1.25", "-0.05"]),
        ("float8", "numeric(9,2)", ["1.005"]),
        ("timestamp", "timestamp(0)", ["2026-06-01 12:00:00.5"]),
        ("interval", "interval year to month", ["1 year 3 days"]),
        ("text", "varchar(3)", ["äöü"]),
        ("bpchar", "char(3)", ["ab    "]),
        ("int4range", "text", ["[1,2)"]),
        ("json[]", "jsonb[]", ['{"{\\"a\\": 1, \\"a\\": 2}"}']),
    ]
    assert len(columns) > 100
    for side, place in ((pair.source, 0), (pair.target, 1)):
        declared = ", ".join(f"c{n} {column[place]}" for n, column in enumerate(columns))
        side.run(f"CREATE TABLE t (id int, {declared})")
    pair.source.run(
        "CREATE TABLE assigned (id int, "
        + ", ".join(f"c{n} {target}" for n, (_, target, _) in enumerate(columns))
        + ")"
    )
    for row in range(max(len(values) for *_, values in columns)):
        row_values = [
            (f"c{n}", "'" + values[row].replace("'", "''") + f"'::{source}")
            for n, (source, _, values) in enumerate(columns)
            if row < len(values)
        ]
        pair.source.run(
            f"INSERT INTO t (id, {', '.join(name for name, _ in row_values)})"
            f" VALUES ({row}, {', '.join(value for _, value in row_values)})"
        )
    pair.source.run("INSERT INTO t (id) VALUES (NULL)", "INSERT INTO assigned SELECT * FROM t")
    pair.copy()
    expected = pair.source.contents("assigned", "true", "t.*")
    assert pair.target.contents("t", "true", "t.*") == expected


def _casts(pair: Pair, value: str, source: str, target: str) -> bool:
    if (source, value) == ('"char"', "\\377"):  # the server would produce an invalid text
        return False
    # Before PostgreSQL 15, the server would produce a part of a character.
    if target == '"char"' and not value.isascii() and pair.version < 15:
        return False
    # From 16384, a number may be the id of an object that only one of the two databases has.
    if target in BY_NAME and value.isdigit() and int(value) >= 16384:
        return False
    if NEWER.get((source, value), 0) > pair.source.connection.info.server_version:
        return False
    try:
        pair.source.connection.execute(f"SELECT %s::{source}::{target}".encode(), [value])
    except (psycopg.DataError, psycopg.ProgrammingError, psycopg.NotSupportedError):
        return False
    return True


def test_a_text_that_is_too_long_is_an_error_and_not_truncated(pair: Pair) -> None:
    pair.source.run("CREATE TABLE t (a text)", "INSERT INTO t VALUES ('abcd')")
    pair.target.run("CREATE TABLE t (a varchar(3))")
    assert pair.plan().pairs[0].cast == "character varying"
    done = pair.cli("copy", *pair.ends, "--table", "public.t")
    assert done.returncode != 0
    assert "value too long for type character varying(3)" in done.stdout + done.stderr
    assert pair.target.count() == 0


def test_plan_lists_casts_and_possible_losses(pair: Pair) -> None:
    pair.source.run("CREATE TABLE t (a numeric, b int, c regtype)")
    pair.target.run("CREATE TABLE t (a int, b int, c regtype)")
    done = pair.cli("plan", *pair.ends, "--table", "public.t")
    output = done.stdout + done.stderr
    assert done.returncode == 0
    assert "cast by the source: a::integer" in output
    assert "a (numeric into integer): digits after the decimal point are rounded away" in output
    assert "postgresql-text streams, because of c" in output


def test_types_of_the_same_name_in_another_schema_are_cast(pair: Pair) -> None:
    statements = (
        "CREATE TYPE {0}.mood AS ENUM ('sad', 'glad')",
        "CREATE TYPE {0}.pair AS (a int, m {0}.mood)",
        "CREATE DOMAIN {0}.few AS {0}.pair[] CHECK (cardinality(VALUE) < 3)",
        "CREATE TYPE {0}.moods AS RANGE (subtype = {0}.mood)",
        "CREATE TABLE t (a {0}.mood, b {0}.pair, c {0}.few, d {0}.moods, e {0}.mood[])",
    )
    pair.source.run("CREATE SCHEMA app", *(line.format("app") for line in statements))
    pair.target.run('CREATE SCHEMA "Dw h"', *(line.format('"Dw h"') for line in statements))
    pair.source.run(
        "INSERT INTO t VALUES ('sad', '(1,glad)', '{\"(2,sad)\"}', '[sad,glad]', '{glad}')"
    )
    pair.copy()
    pair.assert_same()


def test_domains_are_treated_as_their_base_types(pair: Pair) -> None:
    pair.both(
        "CREATE DOMAIN small AS int CHECK (VALUE < 10)",
        "CREATE DOMAIN smaller AS small NOT NULL CHECK (VALUE < 5)",
    )
    pair.source.run(
        "CREATE TABLE t (a int, b smaller, c smaller, d int[], e bigint)",
        "INSERT INTO t VALUES (1, 2, 3, '{4}', 4)",
    )
    pair.target.run("CREATE TABLE t (a smaller, b int, c small, d smaller[], e smaller)")
    assert [pair_.cast for pair_ in pair.plan().pairs] == ["", "", "", "", "integer"]
    pair.copy()
    pair.assert_same()
    pair.source.run("INSERT INTO t VALUES (7, 2, 3, '{4}', 5)")
    done = pair.cli("copy", *pair.ends, "--table", "public.t")
    assert "violates check constraint" in done.stdout + done.stderr
    assert pair.target.count() == 1


def test_a_missing_enum_label_is_announced_and_fails_at_its_row(pair: Pair) -> None:
    pair.source.run(
        "CREATE TYPE mood AS ENUM ('sad', 'so so', 'glad')",
        "CREATE TABLE t (a mood[])",
        "INSERT INTO t VALUES ('{sad}')",
    )
    pair.target.run("CREATE TYPE mood AS ENUM ('glad', 'sad')", "CREATE TABLE t (a mood[])")
    assert any("the target lacks the label 'so so'" in line for line in pair.plan().warnings)
    assert pair.copy().rows == 1
    pair.source.run("INSERT INTO t VALUES ('{so so}')")
    done = pair.cli("copy", *pair.ends, "--table", "public.t")
    assert 'invalid input value for enum mood: "so so"' in done.stdout + done.stderr


def test_a_type_unknown_to_the_source_is_not_cast(pair: Pair) -> None:
    pair.source.run("CREATE TABLE t (a text)")
    pair.target.run("CREATE EXTENSION citext", "CREATE TABLE t (a citext)")
    with pytest.raises(PlanningError, match="no assignment cast"):
        pair.plan()
    pair.source.run("CREATE EXTENSION citext", "INSERT INTO t VALUES ('Aa')")
    pair.copy()
    assert pair.target.rows("SELECT a = 'aA' FROM t") == [(True,)]
