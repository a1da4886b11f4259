"""Rows that PostgreSQL writes as lines, and MySQL loads unchanged."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, LiteralString

import psycopg
import pytest

import penstock
from penstock import CopySpec
from penstock.errors import PenstockError, RunFailed, TargetChanged
from penstock.events import Failed, Finished, Prepared

from .mysql_pair import execute, rows

# Every character below a space, some of which COPY escapes as letters; and texts that look like
# escapes.
CHARACTERS = "".join(map(chr, range(1, 129))) + "äß€😀"
TEXTS = [
    CHARACTERS,
    "",
    r"\N",
    "\\",
    r"\f",
    "\\\f",
    "\\\\\v",
    "\t",
    "\n\r\n",
    "NULL",
    "' \" ",
    "x\\",
]


def at(source_url: str, *statements: LiteralString) -> None:
    with psycopg.connect(source_url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def spec(source_url: str, mysql_url: str) -> CopySpec:
    return CopySpec(
        source=source_url, target=mysql_url, table="public.t", target_table="t", degree=1,
        strategy="whole", attempts=1, verify="checksums",
    )  # fmt: skip


def failures(request: CopySpec) -> list[Mapping[str, Any]]:
    found = []
    with suppress(RunFailed):
        for event in penstock.copy(request):
            if isinstance(event, Failed):
                found.append(event.error)
    return found


def copied(source_url: str, mysql_url: str) -> str:
    """Copy, and return the format of the streams."""
    request = spec(source_url, mysql_url)
    last = list(penstock.copy(request))[-1]
    assert isinstance(last, Finished), last
    return penstock.plan(request).format


def test_texts_arrive_unchanged(source_url: str, mysql_url: str) -> None:
    at(
        source_url,
        "CREATE TABLE t (id int PRIMARY KEY, a text NOT NULL, b varchar(300), c char(4))",
    )
    with psycopg.connect(source_url) as connection, connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO t VALUES (%s, %s, %s, 'x')", [(n, x, x) for n, x in enumerate(TEXTS)]
        )
    execute(
        mysql_url,
        "CREATE TABLE t (id int PRIMARY KEY, a longtext NOT NULL, b varchar(300), c varchar(4))",
    )
    assert copied(source_url, mysql_url) == "lines"
    assert rows(mysql_url, "SELECT * FROM t ORDER BY id") == [
        (n, x, x, "x") for n, x in enumerate(TEXTS)
    ]


@pytest.mark.usefixtures("both_paths")
def test_blanks_that_pad_values_do_not_arrive(source_url: str, mysql_url: str) -> None:
    """Those at the end of other texts do, wherever the columns are."""
    at(
        source_url,
        "CREATE DOMAIN code AS char(6)",
        "CREATE TABLE t (id int PRIMARY KEY, a char(6), b text, c code, d varchar(9), e char(6))",
        r"INSERT INTO t VALUES (1, 'x', 'x ', ' x', 'x  ', 'x'), (2, '', ' ', NULL, '', ''),"
        r" (3, E'\t', E'\t ', E' \f ', E' \n ', E'\\ '), (4, E'\\', E'\\', 'ä ß', 'ä ', 'ä€😀'),"
        r" (5, NULL, NULL, NULL, NULL, NULL), (6, 'abcdef', '', 'abcdef', '', 'abcde ')",
    )
    execute(
        mysql_url,
        "CREATE TABLE t (id int PRIMARY KEY, a varchar(9), b text, c varchar(9), d varchar(9),"
        " e varchar(9))",
    )
    assert copied(source_url, mysql_url) == "lines"
    assert rows(mysql_url, "SELECT * FROM t ORDER BY id") == [
        (1, "x", "x ", " x", "x  ", "x"),
        (2, "", " ", None, "", ""),
        (3, "\t", "\t ", " \f", " \n ", "\\"),
        (4, "\\", "\\", "ä ß", "ä ", "ä€😀"),
        (5, None, None, None, None, None),
        (6, "abcdef", "", "abcdef", "", "abcde"),
    ]


def test_a_large_row_arrives(source_url: str, mysql_url: str) -> None:
    at(
        source_url,
        "CREATE TABLE t (id int PRIMARY KEY, a text)",
        r"INSERT INTO t VALUES (1, repeat(E'\f\v\\f', 1000000)), (2, 'small')",
    )
    execute(mysql_url, "CREATE TABLE t (id int PRIMARY KEY, a longtext)")
    assert copied(source_url, mysql_url) == "lines"
    assert rows(mysql_url, "SELECT a = repeat('\f\v\\\\f', 1000000) FROM t WHERE id = 1") == [(1,)]


VALUES: list[tuple[LiteralString, str, LiteralString]] = [
    ("smallint", "smallint", "-32768, 0, 32767"),
    ("bigint", "bigint", "-9223372036854775808, 9223372036854775807"),
    ("bigint", "int unsigned", "0, 4294967295"),
    ("integer", "decimal(12, 2)", "-2147483648, 2147483647"),
    ("numeric(30, 10)", "decimal(40, 12)", "-99999999999999999999.9999999999, 0, 0.0000000001"),
    ("double precision", "double", "5e-324, 1.7976931348623157e308, 0.1, 1e15, 123456789012"),
    ("boolean", "tinyint(1)", "true, false"),
    ("boolean", "bigint", "true, false"),
    ("date", "date", "'0001-01-01', '0099-12-31', '1970-01-01', '9999-12-31'"),
    ("timestamp", "datetime(6)", "'0001-01-01', '1969-12-31 23:59:59.999999'"),
    ("timestamptz", "datetime(6)", "'2024-03-31 02:30:00+02', '1900-01-01 00:00:00.000001+05:30'"),
    ("timestamptz", "timestamp(6)", "'2024-03-31 02:30:00+02', '2038-01-19 03:14:07+00'"),
    ("bytea", "varbinary(300)", r"'', '\x00', '\x5c740a5c00ff', '\x4e554c4c'"),
    ("bytea", "longblob", r"'', '\x00'"),
    ("uuid", "char(36)", "'00112233-4455-6677-8899-AABBCCDDEEFF'"),
    ("json", "json", """'{"a": "\\\\ \\" \\n ä"}', '[]'"""),
    ("interval", "varchar(40)", "'1 day -2 hours'"),
    ("inet", "varchar(40)", "'::1', '10.0.0.0/8'"),
]  # fmt: skip


@pytest.mark.parametrize(("mine", "theirs", "values"), VALUES)
def test_values_arrive_unchanged(
    source_url: str, mysql_url: str, mine: LiteralString, theirs: str, values: LiteralString
) -> None:
    at(
        source_url,
        f"CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v {mine})",
        f"INSERT INTO t (v) SELECT unnest(ARRAY[NULL, {values}]::{mine}[])",
    )
    execute(mysql_url, f"CREATE TABLE t (id int PRIMARY KEY, v {theirs})")
    assert copied(source_url, mysql_url) == "lines"
    lines = rows(mysql_url, "SELECT * FROM t ORDER BY id")
    # The same values as with record batches, which other tests cover.
    execute(
        mysql_url, "DROP DATABASE penstock", "TRUNCATE TABLE t", "SET GLOBAL local_infile = OFF"
    )
    try:
        assert copied(source_url, mysql_url) == "arrow"
    finally:
        execute(mysql_url, "SET GLOBAL local_infile = ON")
    assert rows(mysql_url, "SELECT * FROM t ORDER BY id") == lines
    assert lines[0] == (1, None)


REFUSED: list[tuple[LiteralString, str, LiteralString, str]] = [
    ("int", "tinyint", "1000", "Out of range value"),
    ("bigint", "bigint unsigned", "-1", "Out of range value"),
    ("numeric(10, 2)", "decimal(4, 2)", "12345.67", "Out of range value"),
    ("numeric(10, 2)", "decimal(10, 2)", "'NaN'", "Incorrect decimal value|Data truncated"),
    ("double precision", "double", "'Infinity'", "Data truncated|Incorrect (?i:double)"),
    ("double precision", "double", "'NaN'", "Data truncated|Incorrect (?i:double)"),
    ("date", "date", "'infinity'", "Incorrect date value|Data truncated"),
    ("date", "date", "'0044-03-15 BC'", "Incorrect date value|Data truncated"),
    ("date", "date", "'10000-01-01'", "Incorrect date value|Data truncated"),
    ("timestamp", "datetime(6)", "'-infinity'", "Incorrect datetime value|Data truncated"),
    ("timestamp", "datetime(6)", "'0044-03-15 BC'", "Incorrect datetime value|Data truncated"),
    ("timestamp", "datetime(6)", "'12024-01-01 10:00'", "Incorrect datetime value|Data truncated"),
    ("timestamptz", "timestamp(6)", "'1900-01-01'", "Incorrect|Out of range|Data truncated"),
    ("text", "varchar(3)", "'abcd'", "Data too long|Data truncated"),
    ("text", "varchar(3) CHARACTER SET latin1", "'€ą'", "Incorrect string value"),
    ("text", "json", "'no json'", "Invalid JSON|CONSTRAINT"),
    ("bytea", "varbinary(2)", r"'\x010203'", "Data too long|Data truncated"),
]  # fmt: skip


@pytest.mark.parametrize(("mine", "theirs", "value", "message"), REFUSED)
def test_a_value_that_would_change_is_refused(
    source_url: str, mysql_url: str, mine: LiteralString, theirs: str, value: LiteralString,
    message: str,
) -> None:  # fmt: skip
    at(
        source_url,
        f"CREATE TABLE t (id int PRIMARY KEY, v {mine})",
        f"INSERT INTO t VALUES (1, NULL), (2, {value})",
    )
    execute(mysql_url, f"CREATE TABLE t (id int PRIMARY KEY, v {theirs})")
    request = spec(source_url, mysql_url)
    assert penstock.plan(request).format == "lines"
    (error,) = failures(request)
    assert re.search(message, error["message"]), error
    if theirs != "json":  # MariaDB reports it like a constraint
        assert "column 'v', row 2: expected " in error["message"]
    assert rows(mysql_url, "SELECT count(*) FROM t") == [(0,)]


def test_the_server_rewrites_json(source_url: str, mysql_url: str) -> None:
    """The text that arrives differs from the source's."""
    at(
        source_url,
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        """INSERT INTO t VALUES (1, '{"long": 1,  "b": [1,2], "b": 3}')""",
    )
    execute(mysql_url, "CREATE TABLE t (id int PRIMARY KEY, v json)")
    assert copied(source_url, mysql_url) == "lines"
    ((stored,),) = rows(mysql_url, "SELECT v FROM t")
    planned = penstock.plan(spec(source_url, mysql_url))
    assert [pair.target for pair in planned.pairs if not pair.canonical] == (
        [] if "  " in stored else ["v"]
    )
    # From a JSON column the text is the same.
    execute(mysql_url, "CREATE TABLE u LIKE t")
    request = replace(spec(mysql_url, mysql_url), table="t", target_table="u")
    assert isinstance(list(penstock.copy(request))[-1], Finished)
    assert all(pair.canonical for pair in penstock.plan(request).pairs)


BY_BATCHES: list[tuple[LiteralString, str]] = [
    ("int", "int NOT NULL"),
    ("numeric(10, 3)", "decimal(10, 2)"),
    ("numeric", "decimal(10, 2)"),
    ("double precision", "double(9, 2)"),
    ("double precision", "double(9, 0)"),
    ("timestamp", "datetime"),
    ("text", "enum('a', 'b')"),
    ("text", "int"),
    ("bytea", "binary(4)"),
    ("smallint", "year"),
    ("time", "time(6)"),
]


@pytest.mark.parametrize(("mine", "theirs"), BY_BATCHES)
def test_columns_that_the_server_would_change_silently(
    source_url: str, mysql_url: str, mine: LiteralString, theirs: str
) -> None:
    at(source_url, f"CREATE TABLE t (id int PRIMARY KEY, v {mine})")
    execute(mysql_url, f"CREATE TABLE t (id int PRIMARY KEY, v {theirs})")
    planned = penstock.plan(spec(source_url, mysql_url))
    assert planned.format == "arrow"
    assert "arrow streams, because of v" in planned.reasons


def test_a_column_that_is_altered_before_the_load(source_url: str, mysql_url: str) -> None:
    at(source_url, "CREATE TABLE t (id int PRIMARY KEY, v timestamp)", "INSERT INTO t VALUES (1)")
    execute(mysql_url, "CREATE TABLE t (id int PRIMARY KEY, v datetime(6))")
    message = []

    def copy() -> None:
        for event in penstock.copy(spec(source_url, mysql_url)):
            if isinstance(event, Prepared):
                execute(mysql_url, "ALTER TABLE t MODIFY v datetime")
            elif isinstance(event, Failed):
                message.append(event.error["message"])

    with pytest.raises(PenstockError) as caught:
        copy()
    if isinstance(caught.value, RunFailed):
        assert "column 'v': expected a type as when the run was planned" in message[0]
    else:  # if the server reports when the table was altered
        assert isinstance(caught.value, TargetChanged)
