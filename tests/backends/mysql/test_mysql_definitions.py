"""Every clause of a CREATE TABLE statement is recreated or listed: in the same flavour, the other
one, and another system."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pymysql
import pytest

from penstock import BatchSpec, CopySpec, copy, copy_all
from penstock.backends.mysql import target as mysql_target
from penstock.backends.mysql.catalog.table_model import read_table
from penstock.backends.mysql.load import tables as created_tables
from penstock.events import BatchFinished, Finished, Planned
from penstock.model.tables import NotCopied, TableRef
from penstock_testkit import AnyMysqlServer

from .mysql_pair import execute, rows

pytestmark = pytest.mark.both_servers

RICH = """
    CREATE TABLE rich (
        id int AUTO_INCREMENT PRIMARY KEY, hidden int INVISIBLE DEFAULT 7,
        code varchar(20) CHARACTER SET latin1 COLLATE latin1_bin,
        exact varchar(20) COLLATE utf8mb4_bin NOT NULL, wide int(6) zerofill,
        at timestamp NOT NULL DEFAULT current_timestamp() ON UPDATE current_timestamp(),
        long_text text, packed text COMPRESSED, place point NOT NULL,
        loud varchar(60) AS (concat(exact, '!')) VIRTUAL INVISIBLE COMMENT 'computed',
        KEY by_code (code DESC) COMMENT 'why; `x`', KEY asleep (exact) IGNORED,
        FULLTEXT KEY words (long_text), SPATIAL KEY places (place), KEY begins (long_text(12)),
        UNIQUE KEY once (exact), UNIQUE KEY hashed (long_text) USING HASH
    ) DEFAULT CHARSET latin1 COLLATE latin1_german1_ci ROW_FORMAT=COMPRESSED COMMENT 'c'
"""
TABLES = (
    RICH,
    "INSERT INTO rich (code, exact, place) VALUES ('a', 'a', point(0, 0)), ('A', 'A', point(0, 1))",
    "CREATE SEQUENCE numbers START 5 INCREMENT 2 NOCACHE",
    "DO nextval(numbers)",
    "CREATE TABLE numbered (id int DEFAULT nextval(numbers) PRIMARY KEY, n int CHECK (n > 0))",
    "INSERT INTO numbered (n) VALUES (1)",
    "CREATE TABLE past (id int PRIMARY KEY, n int, now int WITHOUT SYSTEM VERSIONING)"
    " WITH SYSTEM VERSIONING",
    "INSERT INTO past VALUES (1, 1, 1)",
    "CREATE TABLE spans (id int, s date, e date, PERIOD FOR p (s, e),"
    " UNIQUE KEY apart (id, p WITHOUT OVERLAPS))",
    "INSERT INTO spans VALUES (1, '2020-01-01', '2020-02-01'), (1, '2020-02-01', '2020-03-01')",
    "CREATE TRIGGER positive BEFORE INSERT ON past FOR EACH ROW SET NEW.n = abs(NEW.n)",
    "CREATE VIEW seen AS SELECT id FROM past",
)
Listed = dict[tuple[str, str], NotCopied]


@pytest.fixture
def mariadb(mysql_url: str) -> str:
    if "MariaDB" not in rows(mysql_url, "SELECT version()")[0][0]:
        pytest.skip("MySQL has neither sequences nor versions of rows")
    execute(mysql_url, *TABLES)
    return mysql_url


@pytest.fixture
def other_url(mysql_server: AnyMysqlServer) -> Iterator[str]:
    with mysql_server.new_database() as url:
        yield url


def copy_and_list(source: str, target: str, schema: str) -> Listed:
    arguments: dict[str, Any] = {
        "source": source, "target": target, "tables": [f"{source.rpartition('/')[2]}.*"],
        "mode": "recreate", "target_schema": schema, "degree": 1,
    }  # fmt: skip
    events = list(copy_all(BatchSpec.from_mapping(arguments, "test")))
    end = events[-1]
    assert isinstance(end, BatchFinished)
    assert {table.status for table in end.tables} == {"done"}
    assert len(end.tables) == 4, "a sequence is no table"
    items = [item for event in events if isinstance(event, Finished) for item in event.not_copied]
    database = source.rpartition("/")[2]
    return {
        (item.kind, item.name.replace(f"{database}.", "").replace(f"`{database}`.", "")): item
        for item in (*items, *end.not_copied)
    }


def statement(url: str, table: str) -> str:
    ((_, found),) = rows(url, f"SHOW CREATE TABLE {table}")
    return str(found)


def test_into_the_same_flavour(mariadb: str, other_url: str) -> None:
    found = copy_and_list(mariadb, other_url, other_url.rpartition("/")[2])
    assert set(found) == {
        ("table options", "ROW_FORMAT=COMPRESSED"),
        ("defaults", "id: nextval(`numbers`)"),
        ("table options", "SYSTEM VERSIONING"),
        ("column options", "now: WITHOUT SYSTEM VERSIONING"),
        ("triggers", "positive"),
        ("table options", "PERIOD FOR `p` (`s`, `e`)"),
        ("indexes", "apart"),
        ("views", "seen"),
        ("sequences", "numbers"),
    }
    mine, theirs = (
        read_table(statement(url, "rich"), TableRef("d", "rich")) for url in (mariadb, other_url)
    )
    assert theirs.model == replace(mine.model, completions=theirs.model.completions)
    assert theirs.model.options
    assert rows(other_url, "SELECT loud FROM rich ORDER BY id") == [("a!",), ("A!",)]
    # A listed part is created by its statement.
    execute(other_url, found["sequences", "numbers"].remedy)
    own = found["defaults", "id: nextval(`numbers`)"].remedy.replace(mariadb.rpartition("/")[2], "")
    execute(
        other_url, own.replace("nextval(``.", "nextval("), "INSERT INTO numbered (n) VALUES (1)"
    )
    assert rows(other_url, "SELECT id FROM numbered ORDER BY id") == [(7,), (9,)]
    for kind, name in (
        ("table options", "PERIOD FOR `p` (`s`, `e`)"), ("indexes", "apart"),
        ("triggers", "positive"), ("table options", "SYSTEM VERSIONING"),
    ):  # fmt: skip
        execute(other_url, found[kind, name].remedy)
    assert statement(other_url, "spans") == statement(mariadb, "spans")
    assert "WITH SYSTEM VERSIONING" in statement(other_url, "past")
    execute(other_url, "INSERT INTO past VALUES (2, -2, 2)")
    assert rows(other_url, "SELECT n FROM past WHERE id = 2") == [(2,)]


def test_into_the_other_flavour(
    mariadb: str, other_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is treated as the other flavour. Texts that a collation distinguishes stay
    distinct."""
    monkeypatch.setattr(created_tables, "flavour_of", lambda session: "another")
    monkeypatch.setattr(mysql_target, "flavour_of", lambda session: "another")
    found = copy_and_list(mariadb, other_url, other_url.rpartition("/")[2])
    assert set(found) == {
        ("table options", "ROW_FORMAT=COMPRESSED"),
        ("column options", "hidden: INVISIBLE"),
        ("column options", "loud: INVISIBLE"),
        ("index options", "by_code: COMMENT 'why; `x`'"),
        ("index options", "asleep: IGNORED"),
        ("indexes", "words"),
        ("indexes", "places"),
        ("defaults", "id: nextval(`numbers`)"),
        ("table options", "WITH SYSTEM VERSIONING"),
        ("column options", "now: WITHOUT SYSTEM VERSIONING"),
        ("triggers", "positive"),
        ("table options", "PERIOD FOR `p` (`s`, `e`)"),
        ("indexes", "apart"),
        ("views", "seen"),
        ("sequences", "numbers"),
    }
    execute(other_url, found["indexes", "words"].remedy, found["indexes", "places"].remedy)
    execute(other_url, found["triggers", "positive"].remedy)
    model = read_table(statement(other_url, "rich"), TableRef("d", "rich")).model
    assert {index.method for index in model.indexes} >= {"fulltext", "spatial"}
    made_of = {column.name: column for column in model.columns}
    assert made_of["loud"].generated is not None
    text = statement(other_url, "rich")
    assert "`code` varchar(20) CHARACTER SET latin1 COLLATE latin1_bin" in text
    assert "COLLATE utf8mb4_bin NOT NULL" in text


def test_into_another_system(mariadb: str, tmp_path: Path) -> None:
    path = tmp_path / "made.duckdb"
    found = copy_and_list(mariadb, f"duckdb:///{path}", "main")
    assert set(found) == {
        ("table options", "ROW_FORMAT=COMPRESSED"),
        ("column options", "hidden: INVISIBLE"),
        ("column options", "loud: INVISIBLE"),
        ("column options", "wide: zerofill"),
        ("column options", "packed: COMPRESSED"),
        ("collations", "code: latin1_bin"),
        ("collations", "exact: utf8mb4_bin"),
        ("generated columns", "loud: (concat(`exact`,'!'))"),
        ("defaults on update", "at: current_timestamp()"),
        ("index options", "by_code: COMMENT 'why; `x`'"),
        ("index options", "asleep: IGNORED"),
        ("orders of indexes", "by_code: code"),
        ("indexes", "words"),
        ("indexes", "places"),
        ("defaults", "id: nextval(`numbers`)"),
        ("table options", "WITH SYSTEM VERSIONING"),
        ("column options", "now: WITHOUT SYSTEM VERSIONING"),
        ("triggers", "positive"),
        ("table options", "PERIOD FOR `p` (`s`, `e`)"),
        ("indexes", "apart"),
        ("views", "seen"),
        ("sequences", "numbers"),
    }
    with duckdb.connect(str(path)) as connection:
        connection.execute(found["sequences", "numbers"].remedy.partition(" CACHE")[0])
        assert connection.execute("SELECT nextval('numbers')").fetchone() == (9,)


def test_a_requested_type_keeps_the_other_clauses(mysql_url: str) -> None:
    execute(
        mysql_url,
        "CREATE TABLE t (id int AUTO_INCREMENT PRIMARY KEY,"
        " note varchar(20) NOT NULL DEFAULT 'it''s' COMMENT 'as spelled', n int CHECK (n < 9))",
        "INSERT INTO t (n) VALUES (1)",
        "ALTER TABLE t AUTO_INCREMENT = 41",
    )
    spec = CopySpec(source=mysql_url, target=mysql_url, table="t", target_table="u")
    types = ("id=bigint", "note=varchar(40)", "n=bigint")
    events = list(copy(replace(spec, mode="recreate", types=types)))
    (planned,) = (event for event in events if isinstance(event, Planned))
    assert planned.not_copied == ()
    text = statement(mysql_url, "u")
    assert "`note` varchar(40) NOT NULL DEFAULT 'it''s' COMMENT 'as spelled'" in text
    execute(mysql_url, "INSERT INTO u (n) VALUES (2)")
    assert rows(mysql_url, "SELECT id, note FROM u ORDER BY id") == [(1, "it's"), (41, "it's")]
    with pytest.raises(pymysql.Error):
        execute(mysql_url, "INSERT INTO u (n) VALUES (9)")


def test_a_default_that_looks_like_clauses() -> None:
    """Words within texts are no clauses."""
    found = read_table(
        "CREATE TABLE `t` (\n"
        "  `a` varchar(99) NOT NULL DEFAULT ' COMMENT ''x'' AUTO_INCREMENT CHECK (1)',\n"
        "  `b` enum('x)','CHECK (') DEFAULT 'x)' COMMENT 'DEFAULT ''y'' ON UPDATE now()',\n"
        "  `c` int(11) DEFAULT coalesce(1,(2)) COMMENT 'c',\n"
        "  `d` varchar(9) DEFAULT (lower('X')) /*!80023 INVISIBLE */,\n"
        "  `e` geometry /*!80003 SRID 4326 */ DEFAULT NULL\n"
        ") ENGINE=InnoDB COMMENT='AUTO_INCREMENT=7'",
        TableRef("d", "t"),
    )
    defaults = {each.name: each.default.text for each in found.model.columns if each.default}
    assert defaults == {
        "a": "' COMMENT ''x'' AUTO_INCREMENT CHECK (1)'", "b": "'x)'", "c": "coalesce(1,(2))",
        "d": "(lower('X'))",
    }  # fmt: skip
    assert found.model.column("b").comment == "DEFAULT 'y' ON UPDATE now()"
    assert not any(each.identity or each.on_update for each in found.model.columns)
    assert found.model.checks == ()
    assert found.model.comment == "AUTO_INCREMENT=7"
    assert [(item.kind, item.name) for item in found.omitted] == [
        ("column options", "d: INVISIBLE"), ("column options", "e: SRID 4326"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "source_options", [{"table": "seen"}, {"query": "SELECT 1 AS a, 'x' AS b"}]
)
def test_a_view_and_a_query_are_created_as_tables(
    mysql_url: str, source_options: dict[str, Any]
) -> None:
    execute(mysql_url, "CREATE VIEW seen AS SELECT 1 AS a, 'x' AS b")
    spec = CopySpec(
        source=mysql_url, target=mysql_url, target_table="u", snapshot="none", **source_options
    )
    *_, finished = copy(replace(spec, mode="recreate"))
    assert isinstance(finished, Finished)
    assert finished.not_copied == ()
    assert rows(mysql_url, "SELECT a, b FROM u") == [(1, "x")]


def test_subpartitions_are_copied(mysql_url: str, other_url: str) -> None:
    """A partition's rows are those of its subpartitions, and its statement creates it."""
    execute(
        mysql_url,
        "CREATE TABLE t (id int, k int, PRIMARY KEY (id, k)) PARTITION BY RANGE (id)"
        " SUBPARTITION BY HASH (k) SUBPARTITIONS 2"
        " (PARTITION a VALUES LESS THAN (10), PARTITION b VALUES LESS THAN MAXVALUE)",
        "INSERT INTO t VALUES (1, 1), (2, 2), (30, 1)",
    )
    schema = other_url.rpartition("/")[2]
    spec = CopySpec(source=mysql_url, target=other_url, table="t", target_table=f"{schema}.t")
    events = list(copy(replace(spec, mode="recreate", strategy="children")))
    (planned,) = (event for event in events if isinstance(event, Planned))
    assert planned.partitions == 2
    assert rows(other_url, "SELECT count(*) FROM t") == [(3,)]
    (item,) = planned.not_copied
    execute(other_url, item.remedy)
    assert statement(other_url, "t") == statement(mysql_url, "t")
