"""Whatever a key contains, and however its column compares it, each row is in one partition of the
source, and in mode `replace` in the same partition of the target.

Generated keys go through the conditions that reader and writer use; a few real copies follow.
PENSTOCK_KEY_EXAMPLES sets the number of generated examples.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock import CopySpec, PartitionPlan, PlanningError, copy, plan
from penstock.backends.mysql.catalog.bounds import dive
from penstock.backends.mysql.catalog.session_settings import SQL_MODE
from penstock.backends.mysql.dialect import BY_BYTES, MYSQL
from penstock.backends.sql.rows.conditions import condition
from penstock.events import Committed
from penstock.spec.strategies import StrategyName
from penstock_testkit import AnyMysqlServer, Server
from penstock_testkit.mysql import connect_mysql

from ...conftest import fresh_database
from .mysql_pair import execute, rows

EXAMPLES = int(os.environ.get("PENSTOCK_KEY_EXAMPLES", "12"))
COLLATIONS = (
    "latin1_swedish_ci",
    "latin1_german2_ci",
    "latin1_bin",
    "utf8mb4_general_ci",
    "utf8mb4_unicode_ci",
    "utf8mb4_unicode_520_ci",
    "utf8mb4_bin",
    # The following exist in MariaDB only, or in MySQL only.
    "utf8mb4_uca1400_ai_ci",
    "utf8mb4_uca1400_nopad_as_cs",
    "utf8mb4_nopad_bin",
    "utf8mb4_unicode_nopad_ci",
    "utf8mb4_0900_ai_ci",
    "utf8mb4_0900_as_cs",
    "cp932_japanese_ci",
    "ucs2_general_ci",
)
# Case, accents, ligatures, decomposed and ignorable characters, trailing blanks, quotes.
LETTERS = "aAbBsSßzZéÉeE\u0301åÅäöñœ \t\0\x01\u200b\u00ad0-_'\\%アｱ\U0001f600"
TEXTS = st.one_of(
    st.text(LETTERS, max_size=4),
    st.sampled_from(("ss", "ß", "SS", "é", "e\u0301", "a", "a ", "A", "a\x01", "", " ", "\u200b")),
    st.sampled_from(("berlin", "Berlin", "Paris", "paris", "rome", "Rome ")),
)
STRATEGIES = ("range", "ntile", "values", "hash")
TABLE = "CREATE TABLE {} (id int PRIMARY KEY, k {}, INDEX (k)) {}"


@pytest.fixture(scope="module")
def ends(mysql_server: AnyMysqlServer) -> Iterator[tuple[str, str]]:
    with mysql_server.new_database() as source, mysql_server.new_database() as target:
        yield source, target
    mysql_server.drop_database("penstock")


@pytest.fixture(scope="module")
def collations(ends: tuple[str, str]) -> list[str]:
    """The tested collations that the server supports."""
    source, _ = ends
    known = {
        name
        for (name,) in rows(
            source,
            "SELECT collation_name FROM information_schema.collation_character_set_applicability",
        )
    }
    with_short = known | {name for (name,) in rows(source, _FULL)} if _has_full(source) else known
    return [name for name in COLLATIONS if name in with_short]


_FULL = "SELECT full_collation_name FROM information_schema.collation_character_set_applicability"


def _has_full(url: str) -> bool:
    query = (
        "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'information_schema'"
        " AND column_name = 'FULL_COLLATION_NAME'"
    )
    return bool(rows(url, query)[0][0])


def column(collation: str, type_: str = "varchar(20)") -> str:
    return f"{type_} CHARACTER SET {collation.partition('_')[0]} COLLATE {collation}"


def qualified_name(url: str, table: str = "item") -> str:
    return f"{url.rpartition('/')[2]}.{table}"


def spec_of(ends: tuple[str, str], **options: Any) -> CopySpec:
    source, target = ends
    options = {"mode": "append", "partitions": 5, "degree": 2, "key": "k", **options}
    return CopySpec(
        source=source,
        target=target,
        table=qualified_name(source),
        target_table=qualified_name(target),
        **options,
    )


def fill(ends: tuple[str, str], mine: str, theirs: str, values: list[Any]) -> None:
    """Insert rows into the source's table, and the same into the target's."""
    source, target = ends
    with closing(connect_mysql(source)) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")  # truncates what does not fit
        for table, type_ in ((qualified_name(source), mine), (qualified_name(target), theirs)):
            cursor.execute(f"DROP TABLE IF EXISTS {table}")
            cursor.execute(TABLE.format(table, type_, "ENGINE = InnoDB"))
        numbered = list(enumerate([*values, None]))
        cursor.executemany(f"INSERT INTO {qualified_name(source)} VALUES (%s, %s)", numbered)
        cursor.execute(
            f"INSERT INTO {qualified_name(target)} SELECT * FROM {qualified_name(source)}"
        )
        connection.commit()
        cursor.execute(f"ANALYZE TABLE {qualified_name(source)}")


def selected(url: str, table: str, dialect: Any, planned: PartitionPlan) -> dict[int, list[str]]:
    """Return, for each row, the partitions whose conditions select it."""
    found: dict[int, list[str]] = {}
    # A reader's mode: by default, MySQL does not compare dates with zeros.
    session = connect_mysql(url, sql_mode=SQL_MODE)
    with closing(session) as connection, connection.cursor() as cursor:
        for each in planned.partitions:
            chosen = condition(dialect, None, each.extent)
            cursor.execute(f"SELECT id FROM {table} WHERE {chosen}".replace("%", "%%"), ())
            for (row,) in cursor.fetchall():
                found.setdefault(row, []).append(each.id)
    return found


def check_once(
    ends: tuple[str, str], planned: PartitionPlan, count: int, *, replaces: bool
) -> None:
    source, target = ends
    found = selected(source, qualified_name(source), MYSQL, planned)
    assert {row: len(ids) for row, ids in found.items()} == dict.fromkeys(range(count), 1)
    if replaces:
        assert selected(target, qualified_name(target), BY_BYTES, planned) == found


@pytest.mark.timeout(300 + 10 * EXAMPLES)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_each_row_is_in_one_partition_by_texts(
    ends: tuple[str, str], collations: list[str], data: st.DataObject
) -> None:
    mine = data.draw(st.sampled_from(collations))
    theirs = data.draw(st.sampled_from([mine, "utf8mb4_bin", "utf8mb4_general_ci"]))
    if not theirs.startswith("utf8mb4") and mine != theirs:
        theirs = mine
    type_ = data.draw(st.sampled_from(["varchar(20)", "char(20)", "varchar(20)"]))
    values = data.draw(st.lists(TEXTS, min_size=1, max_size=60))
    fill(ends, column(mine, type_), column(theirs, type_), values)
    strategy = data.draw(st.sampled_from(STRATEGIES))
    for mode in ("append", "replace"):
        spec = spec_of(ends, strategy=strategy, mode=mode)
        try:
            planned = plan(spec)
        except PlanningError:
            if (strategy, mode) == ("hash", "replace"):
                continue  # of types with a different text form
            raise
        check_once(ends, planned, len(values) + 1, replaces=mode == "replace")


KINDS: dict[str, tuple[str, list[Any]]] = {
    # Enums are ordered by their numbers, and compared by their texts.
    "enum": ("enum('z', 'a', 'M', 'b', '')", ["z", "a", "M", "b", "", "nope"]),
    "set": ("set('b', 'a', 'C')", ["b", "a", "a,b", "C", "", "b,a,C"]),
    "year": ("year", [0, 1901, 1970, 2000, 2026, 2155]),
    "time": ("time(6)", ["-838:59:59", "-00:00:01", "00:00:00", "23:59:59.999999", "838:59:59"]),
    "float": ("float", [0.1, 0.10000001, 16777216, 16777218, -0.0, 0.0, 1e-40, 3.4e38]),
    "double": ("double", [0.1, 0.30000000000000004, 0.3, -0.0, 0.0, 5e-324, 1.7e308]),
    "decimal": ("decimal(38, 10)", ["0", "-0.0000000001", "1.0", "12345678901234567890.5"]),
    "bigint": ("bigint unsigned", [0, 1, 9223372036854775808, 18446744073709551615]),
    "bit": ("bit(5)", [b"\x00", b"\x01", b"\x1f"]),
    "date": ("date", ["0000-00-00", "2026-00-00", "2026-02-30", "0001-01-01", "9999-12-31"]),
    "datetime": ("datetime(6)", ["0000-00-00", "1000-01-01", "2026-03-29 02:30:00.000001"]),
    "timestamp": ("timestamp(3) NULL", ["0000-00-00", "1970-01-01 12:00:01", "2026-03-29 02:30"]),
    "varbinary": ("varbinary(20)", [b"", b"\x00", b"a", b"A", b"a\x00", b"a ", b"\xff"]),
    "binary": ("binary(3)", [b"", b"a", b"A", b"a \x00", b"\xff\xff\xff"]),
    "json": ("json", ["1", '"a"', '"A"', "{}", '{"a": 1}', '{"a":1}']),
    "uuid": ("uuid", ["00000000-0000-0000-0000-000000000000", "f" * 32, "8" + "0" * 31]),
    "inet6": ("inet6", ["::", "::ffff:1.2.3.4", "fe80::1"]),
}
NOT_RANGED = "to partition into ranges; found"
NO_VALUES = "no condition can name values of type"


@pytest.mark.parametrize("kind", KINDS)
def test_each_row_of_another_type_is_in_one_partition(ends: tuple[str, str], kind: str) -> None:
    type_, values = KINDS[kind]
    if not rows(ends[0], "SELECT version() LIKE '%mariadb%'")[0][0]:
        if kind in ("uuid", "inet6"):
            pytest.skip("MySQL has no such type")
        if kind == "json":
            pytest.skip("MySQL has no index on such a column")
    fill(ends, type_, type_, values * 5)
    for strategy, mode in product(STRATEGIES, ("append", "replace")):
        try:
            planned = plan(spec_of(ends, strategy=strategy, mode=mode))
        except PlanningError as error:
            if any(reason in error.message for reason in (NOT_RANGED, NO_VALUES)):
                continue
            raise
        check_once(ends, planned, len(values) * 5 + 1, replaces=mode == "replace")


EXPRESSIONS = (
    "lower(k)", "left(k, 1)", "k COLLATE latin1_german2_ci", "hex(k)", "length(k)", "id % 3",
    "concat(k, id % 2)", "nullif(k, '')", "CONVERT(k USING utf8mb4)",
)  # fmt: skip


def test_each_row_is_in_one_partition_by_expressions(ends: tuple[str, str]) -> None:
    values = ["ss", "ß", "SS", "a", "A ", "ä", "ae", "é", "", " "]
    fill(ends, column("latin1_swedish_ci"), column("latin1_swedish_ci"), values)
    for key, strategy, mode in product(EXPRESSIONS, ("values", "hash"), ("append", "replace")):
        planned = plan(spec_of(ends, strategy=strategy, key=key, mode=mode))
        check_once(ends, planned, len(values) + 1, replaces=mode == "replace")


CITIES = ["berlin", "Berlin", "Paris", "paris", "rome", "Rome ", "ß", "ss", "é", "e\u0301"] * 30


@pytest.mark.parametrize(
    ("mine", "theirs", "strategy"),
    [
        ("utf8mb4_general_ci", "utf8mb4_general_ci", "range"),
        ("utf8mb4_unicode_ci", "utf8mb4_bin", "values"),
        ("latin1_german2_ci", "utf8mb4_general_ci", "auto"),
        ("utf8mb4_bin", "latin1_swedish_ci", "ntile"),
    ],
)
def test_replacing_twice_changes_nothing(
    ends: tuple[str, str], mine: str, theirs: str, strategy: str
) -> None:
    """In real runs: the target has the source's rows, and no others."""
    source, target = ends
    values = [v for v in CITIES if "\u0301" not in v or "latin1" not in mine + theirs]
    fill(ends, column(mine), column(theirs), values)
    expected = rows(
        source, f"SELECT id, CONVERT(k USING utf8mb4) FROM {qualified_name(source)} ORDER BY id"
    )
    execute(
        target,
        f"INSERT INTO {qualified_name(target)} SELECT id + 100000, k FROM {qualified_name(target)}",
    )
    for _ in range(2):
        spec = spec_of(ends, strategy=strategy, mode="replace", verify="checksums")
        committed = [event.rows for event in copy(spec) if isinstance(event, Committed)]
        assert sum(committed) == len(expected)
        query = f"SELECT id, CONVERT(k USING utf8mb4) FROM {qualified_name(target)} ORDER BY id"
        assert rows(target, query) == expected


def test_replacing_in_postgresql_and_back(ends: tuple[str, str], target_server: Server) -> None:
    source, target = ends
    fill(ends, column("utf8mb4_general_ci"), column("utf8mb4_general_ci"), CITIES)
    expected = rows(source, f"SELECT id, k FROM {qualified_name(source)} ORDER BY id")
    with fresh_database(target_server) as between:
        execute_postgresql(between, "CREATE TABLE item (id int PRIMARY KEY, k varchar(20))")
        first_copy = replace(spec_of(ends), target=between, target_table="public.item")
        back = replace(spec_of(ends), source=between, table="public.item")
        strategies: tuple[StrategyName, ...] = ("range", "values")
        for spec, strategy in product((first_copy, back), strategies):
            list(copy(replace(spec, mode="replace", strategy=strategy, verify="checksums")))
        assert rows(target, f"SELECT id, k FROM {qualified_name(target)} ORDER BY id") == expected


def execute_postgresql(url: str, statement: str) -> None:
    import psycopg  # noqa: PLC0415

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


@pytest.mark.parametrize(
    "collation", ["latin1_swedish_ci", "utf8mb4_general_ci", "utf8mb4_bin", "utf8mb4_unicode_ci"]
)
def test_bounds_are_found_without_a_scan(ends: tuple[str, str], collation: str) -> None:
    """With the default strategy, which uses the primary key: about as many ranges as requested."""
    source, _ = ends
    names = "anna zoe Zoë José Øyvind Åsa Ärger Özil élan Été naïve Straße Muller Müller Lea Léa"
    firsts = names.split()
    keys = {f"{a}{s}{b}{n}" for a in firsts for b in firsts for s in ("", "-", " ") for n in "159"}
    execute(
        source,
        "DROP TABLE IF EXISTS people",
        f"CREATE TABLE people (k {column(collation, 'varchar(60)')} PRIMARY KEY, id int)",
    )
    with closing(connect_mysql(source)) as connection, connection.cursor() as cursor:
        listed = list(enumerate(sorted(keys)))
        cursor.executemany("INSERT IGNORE INTO people (id, k) VALUES (%s, %s)", listed)
        connection.commit()
        cursor.execute("ANALYZE TABLE people")
    spec = replace(spec_of(ends), key=None, table=qualified_name(source, "people"))
    execute(ends[1], "CREATE TABLE IF NOT EXISTS people (k varchar(60), id int)")
    for count in (8, 64):
        planned = plan(
            replace(spec, target_table=qualified_name(ends[1], "people"), partitions=count)
        )
        assert len(planned.partitions) > count * 0.8
        found = selected(source, qualified_name(source, "people"), MYSQL, planned)
        assert set(map(len, found.values())) == {1}
        assert [(len(found),)] == rows(source, "SELECT count(*) FROM people")


def test_bounds_that_do_not_ascend_are_refused(
    ends: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever their origin, the source checks them before the plan is stored."""
    fill(ends, column("utf8mb4_general_ci"), column("utf8mb4_bin"), CITIES)
    found = dive

    def backwards(*query: Any, **options: Any) -> Any:
        bounds, nulls = found(*query, **options)
        return bounds[::-1], nulls

    monkeypatch.setattr("penstock.backends.mysql.catalog.bounds.dive", backwards)
    spec = spec_of(ends, partitions=3)
    refusal = (
        r"--strategy range: --key k: expected bounds in the source's own order, .* does not order"
    )
    with pytest.raises(PlanningError, match=refusal):
        plan(replace(spec, strategy="range"))
    planned = plan(spec)
    assert planned.strategy == "hash"
    assert any(
        "hash: not range, since the source does not order" in each for each in planned.reasons
    )
    check_once(ends, planned, len(CITIES) + 1, replaces=False)
