"""Text COPY is as exact as binary, whatever the sessions' settings, encodings and sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from penstock.backends.postgresql.session.statements import BINARY, TEXT
from penstock.errors import PlanningError
from penstock_testkit import Server

from .test_memory import MIB, peaks

if TYPE_CHECKING:
    from tests.backends.conftest import Pair
    from tests.conftest import Connection

    MakePair = Callable[[str, str, Connection, Connection], Pair]

pytestmark = pytest.mark.usefixtures("both_paths")

# A column of this type makes the stream a text stream.
TEXT_ONLY = "int2vector"


def test_every_character_and_a_line_that_looks_like_the_end(pair: Pair) -> None:
    pair.both(f"CREATE TABLE t (a text, vec {TEXT_ONLY})")
    values = [
        "\\.", "\\N", "\\", "", "\n", "\r\n", "\t", "\v\b\f", "a\\.\n\\.\nb", "null", "é🐘",
        *(chr(code) for code in range(1, 256)),
    ]  # fmt: skip
    for value in values:
        pair.source.connection.execute(b"INSERT INTO t (a) VALUES (%s)", [value])
    pair.source.run("INSERT INTO t VALUES (NULL)")
    assert pair.plan().format == TEXT
    assert pair.copy(strategy="ctid", partitions=2).rows == len(values) + 1
    pair.assert_same()


def test_a_single_column_of_every_character(pair: Pair) -> None:
    pair.source.run("CREATE TABLE t (a text)", r"INSERT INTO t VALUES ('\.'), (''), (NULL)")
    pair.target.run("CREATE TABLE t (a text, other aclitem)")
    assert pair.plan(columns=("a",)).format == TEXT
    pair.copy(columns=("a",))
    pair.assert_same(columns="a")


def test_rows_and_blocks_are_counted(pair: Pair) -> None:
    pair.both(f"CREATE TABLE t (id int, a text, vec {TEXT_ONLY})")
    pair.source.run(
        "INSERT INTO t SELECT n, repeat(E'\\\\\\n', n % 50), '1 2'"
        " FROM generate_series(1, 50000) AS n"
    )
    report = pair.copy(strategy="ctid", partitions=3)
    assert report.rows == 50_000
    pair.assert_same()


def test_settings_of_roles_and_databases_do_not_matter(pair: Pair) -> None:
    for side, settings in (
        (pair.source, {"datestyle": "German", "intervalstyle": "sql_standard",
                       "timezone": "Asia/Tokyo", "extra_float_digits": "-15",
                       "bytea_output": "escape", "xmloption": "document", "search_path": "nowhere",
                       "client_encoding": "LATIN1", "standard_conforming_strings": "off"}),
        (pair.target, {"datestyle": "SQL, DMY", "intervalstyle": "iso_8601", "timezone": "UTC-3",
                       "lc_monetary": "C.UTF-8", "array_nulls": "off",
                       "client_encoding": "SQL_ASCII"}),
    ):  # fmt: skip
        # New sessions get these settings; the test's own session keeps its old ones.
        for name, value in settings.items():
            side.connection.execute(
                sql.SQL("ALTER DATABASE {} SET {} = {}").format(
                    sql.Identifier(side.connection.info.dbname),
                    sql.Identifier(name),
                    sql.SQL(value) if name in {"datestyle", "search_path"} else sql.Literal(value),
                )
            )
    pair.both(
        "CREATE TABLE t (d date, i interval, ts timestamptz, f float8, r float4, b bytea, m money,"
        f" a text[], nested timestamptz[], vec {TEXT_ONLY})"
    )
    pair.source.run(
        "INSERT INTO t VALUES ('2026-02-01', '-1 mon +2 days -03:04:05.6', '2026-02-01 03:04+05',"
        " 0.1::float8 + 0.2::float8, 1.1e-7, '\\x00ff5c', '-1234567.89',"
        " '{NULL,\"NULL\",a}', '{2026-02-01 03:04+05}', '1 2')"
    )
    assert pair.plan().format == TEXT
    pair.copy()
    pair.assert_same()


@pytest.fixture
def encoded(
    source_server: Server, target_server: Server, make_pair: MakePair
) -> Iterator[Callable[[str, str], Pair]]:
    """Return a function that creates databases with given encodings."""
    with ExitStack() as stack:

        def database(server: Server, name: str, encoding: str) -> tuple[str, Connection]:
            admin = stack.enter_context(psycopg.connect(server.url, autocommit=True))
            identifier = sql.Identifier(f"encoded_{name}")
            admin.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE template0 LOCALE 'C' ENCODING {}").format(
                    identifier, sql.Literal(encoding)
                )
            )
            drop = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(identifier)
            stack.callback(admin.execute, drop)
            url = server.url_for(db=f"encoded_{name}")
            connection = stack.enter_context(psycopg.connect(url, autocommit=True))
            return url, connection

        def make(source: str, target: str) -> Pair:
            mine = database(source_server, "source", source)
            theirs = database(target_server, "target", target)
            return make_pair(mine[0], theirs[0], mine[1], theirs[1])

        yield make


FORMS = pytest.mark.parametrize(("form", "only"), [(BINARY, "int"), (TEXT, TEXT_ONLY)])


@FORMS
@pytest.mark.parametrize(("mine", "theirs"), [("LATIN1", "UTF8"), ("UTF8", "LATIN1")])
def test_encodings_are_converted(
    encoded: Callable[[str, str], Pair], form: str, only: str, mine: str, theirs: str
) -> None:
    pair = encoded(mine, theirs)
    pair.both("SET client_encoding = 'UTF8'", f"CREATE TABLE t (a text, b jsonb, vec {only})")
    pair.source.run("""INSERT INTO t VALUES ('Größe', '{"ä": "ö"}', NULL)""")
    plan = pair.plan()
    assert (plan.format, plan.warnings) == (form, ())
    pair.copy()
    assert pair.target.rows("SELECT a, b->>'ä', length(a) FROM t") == [("Größe", "ö", 5)]


@FORMS
def test_a_character_that_the_targets_encoding_lacks_is_an_error(
    encoded: Callable[[str, str], Pair], form: str, only: str
) -> None:
    pair = encoded("UTF8", "LATIN1")
    pair.both(f"CREATE TABLE t (a text, vec {only})")
    pair.source.run("INSERT INTO t VALUES ('🐘', NULL)")
    assert pair.plan().format == form
    done = pair.cli("copy", *pair.ends, "--table", "public.t")
    assert 'has no equivalent in encoding "LATIN1"' in done.stdout + done.stderr
    assert pair.target.count() == 0


@FORMS
@pytest.mark.parametrize("theirs", ["UTF8", "SQL_ASCII"])
def test_sql_ascii_contains_utf8_or_is_an_error(
    encoded: Callable[[str, str], Pair], form: str, only: str, theirs: str
) -> None:
    pair = encoded("SQL_ASCII", theirs)
    pair.both(f"CREATE TABLE t (n int, a text, b text, vec {only})")
    pair.source.run("INSERT INTO t VALUES (1, convert_from('\\x4772c3b6', 'SQL_ASCII'), 'x', NULL)")
    plan = pair.plan()
    assert plan.format == form
    (warning,) = plan.warnings
    assert warning.startswith("a (text into text): the source database declares no encoding")
    pair.copy()
    assert pair.target.value("SELECT convert_to(a, 'SQL_ASCII') FROM t") == b"Gr\xc3\xb6"
    pair.source.run("UPDATE t SET a = convert_from('\\x4772f6', 'SQL_ASCII')")
    done = pair.cli("copy", *pair.ends, "--table", "public.t")
    assert 'invalid byte sequence for encoding "UTF8"' in done.stdout + done.stderr
    assert pair.target.count() == 1


def test_values_of_100_mb_arrive(pair: Pair) -> None:
    size = 100 * MIB
    pair.both(
        f"CREATE TABLE t (id int, data bytea, word text, vec {TEXT_ONLY})",
        "ALTER TABLE t ALTER data SET STORAGE EXTERNAL, ALTER word SET STORAGE EXTERNAL",
    )
    pair.source.run(
        f"INSERT INTO t (id, data) SELECT 1, convert_to(repeat('x', {size}), 'UTF8')",
        f"INSERT INTO t (id, word) SELECT 2, repeat(E'\\\\', {size})",
    )
    digests = "SELECT id, md5(data), md5(word) FROM t ORDER BY id"
    expected = pair.source.rows(digests)
    # As text, the largest row takes twice its size.
    for columns, factor in ((("id", "data", "word"), 1), (None, 2)):
        assert max(peaks(pair, columns=columns)) <= 100 * MIB + 6 * factor * size
        assert pair.target.rows(digests) == expected


@pytest.mark.parametrize("sides", [("LATIN1", "UTF8"), ("UTF8", "LATIN1")])
def test_checksums_across_encodings_are_refused_before_any_copy(
    encoded: Callable[[str, str], Pair], sides: tuple[str, str]
) -> None:
    pair = encoded(*sides)
    pair.both("CREATE TABLE t (v text)")
    pair.source.run("INSERT INTO t VALUES ('a')")
    with pytest.raises(PlanningError, match="with encoding UTF8, found LATIN1"):
        pair.copy(verify="checksums")
    assert not pair.has_control_schema()
    assert pair.target.count() == 0
