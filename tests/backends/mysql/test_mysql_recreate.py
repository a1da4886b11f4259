"""Mode `recreate` within one server: a table like the source's, and no run blocks itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from signal import SIGKILL
from typing import Any

import pymysql
import pytest

from penstock import BatchSpec, CopySpec, copy, copy_all
from penstock.backends.mysql.catalog.table_model import ReadTable, clause_of, keys_of, read_table
from penstock.errors import RunFailed
from penstock.events import Event, Finished, Planned
from penstock.model.tables import TableRef
from penstock.spec.modes import ModeName
from penstock_testkit import AnyMysqlServer, TcpProxy, connect_mysql

from ...faults.gate import Gate
from .mysql_pair import Pair, execute, rows

pytestmark = pytest.mark.both_servers

TABLE = """
    CREATE TABLE t (
        id int AUTO_INCREMENT PRIMARY KEY, state enum('new','paid') NOT NULL DEFAULT 'new',
        note varchar(20) COLLATE utf8mb4_bin DEFAULT 'it''s' COMMENT 'a, b',
        twice varchar(40) AS (concat(note, note)),
        made timestamp NULL DEFAULT NULL, UNIQUE (note, id), KEY (state)
    ) CHARACTER SET utf8mb4
"""


@pytest.fixture
def connection(mysql_url: str) -> Iterator[pymysql.Connection]:
    with connect_mysql(mysql_url) as connection:
        with connection.cursor() as cursor:
            cursor.execute(TABLE)
            cursor.execute("INSERT INTO t (state, note) VALUES ('paid', 'x'), ('new', NULL)")
        connection.commit()
        yield connection


def columns_of(connection: pymysql.Connection, table: str) -> list[tuple[str, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(f"SHOW FULL COLUMNS FROM {table}")
        # Indexes are not copied, and privileges do not belong to the table.
        return [(*row[:4], *row[5:7], row[8]) for row in cursor.fetchall()]


def written_keys(connection: pymysql.Connection, table: str) -> dict[str, str]:
    model = read_model(connection, table).model
    return {key.name or "PRIMARY": clause_of(key) for key in keys_of(model)}


def read_model(connection: pymysql.Connection, table: str) -> ReadTable:
    with connection.cursor() as cursor:
        cursor.execute(f"SHOW CREATE TABLE {table}")
        return read_table(cursor.fetchone()[1], TableRef("d", table))


@pytest.mark.parametrize("mode", ["recreate", "truncate"])
def test_an_invisible_column_stays_invisible(
    mysql_url: str, connection: pymysql.Connection, mode: ModeName
) -> None:
    execute(
        mysql_url,
        "ALTER TABLE t ADD hidden int INVISIBLE DEFAULT 7",
        "CREATE TABLE u LIKE t",
        "UPDATE t SET hidden = 8 WHERE id = 2",
    )
    spec = CopySpec(source=mysql_url, target=mysql_url, table="t", target_table="u", mode=mode)
    list(copy(replace(spec, verify="checksums")))
    assert rows(mysql_url, "SELECT id, hidden FROM u ORDER BY id") == [(1, 7), (2, 8)]
    (shown,) = (row for row in columns_of(connection, "u") if row[0] == "hidden")
    assert "INVISIBLE" in shown[5].upper()


def test_into_another_table_of_the_same_database(
    mysql_url: str, connection: pymysql.Connection
) -> None:
    events = list(
        copy(
            CopySpec(
                source=mysql_url, target=mysql_url, table="t", target_table="u", mode="recreate"
            )
        )
    )
    mine, theirs = columns_of(connection, "t"), columns_of(connection, "u")
    assert theirs == mine
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, state, note, twice FROM u ORDER BY id")
        assert cursor.fetchall() == ((1, "paid", "x", "xx"), (2, "new", None, None))
        cursor.execute("INSERT INTO u (note) VALUES ('y')")
        cursor.execute("SELECT id, state, twice FROM u WHERE note = 'y'")
        assert cursor.fetchall() == ((3, "new", "yy"),)
    (planned,) = (event for event in events if isinstance(event, Planned))
    assert planned.not_copied == ()
    assert written_keys(connection, "u") == written_keys(connection, "t")


def test_a_requested_computed_column_becomes_a_plain_one(
    mysql_url: str, connection: pymysql.Connection
) -> None:
    """It has the values, and is no longer computed."""
    spec = CopySpec(source=mysql_url, target=mysql_url, table="t", target_table="u")
    events = list(copy(replace(spec, mode="recreate", columns=("id", "note", "twice"))))
    assert rows(mysql_url, "SELECT id, twice FROM u ORDER BY id") == [(1, "xx"), (2, None)]
    (planned,) = (event for event in events if isinstance(event, Planned))
    (item,) = (item for item in planned.not_copied if item.kind == "generated columns")
    assert item.name == "twice: (concat(`note`,`note`))"
    execute(mysql_url, item.remedy)
    (row,) = (row for row in columns_of(connection, "u") if row[0] == "twice")
    assert "GENERATED" in row[5]


def test_numbers_that_the_server_rounds(mysql_url: str) -> None:
    execute(
        mysql_url,
        "CREATE TABLE rounded (f float(9,2) NOT NULL, d double(14,3), u float(5,1) unsigned)",
        "INSERT INTO rounded VALUES (1234.56, -98765432109.877, 0.3), (0.1, NULL, 9999.9)",
    )
    spec = CopySpec(source=mysql_url, target=mysql_url, table="rounded", target_table="u")
    list(copy(replace(spec, mode="recreate", verify="checksums")))
    assert rows(mysql_url, "SELECT * FROM u") == rows(mysql_url, "SELECT * FROM rounded")
    assert len(rows(mysql_url, "SELECT 1 FROM rounded JOIN u USING (f)")) == 2


DRESSED = """
    CREATE TABLE dressed (
        id bigint AUTO_INCREMENT, code varchar(20) CHARACTER SET latin1 NOT NULL, amount int,
        note text, place point NOT NULL, parent bigint,
        PRIMARY KEY (id), UNIQUE KEY once (code, amount), UNIQUE KEY begins (note(20), id),
        KEY by_amount (amount DESC, code) COMMENT 'it''s; `all`', KEY by_note (note(7)),
        FULLTEXT KEY words (note), FULLTEXT KEY others (code), SPATIAL KEY places (place),
        CONSTRAINT positive CHECK (amount > 0 AND code <> ';'),
        CONSTRAINT above FOREIGN KEY (parent) REFERENCES dressed (id) ON DELETE SET NULL
    ) ENGINE = InnoDB DEFAULT CHARSET latin1 COLLATE latin1_bin COMMENT 'a = ''b'';'
    ROW_FORMAT = DYNAMIC
"""
FILLED = """
    INSERT INTO dressed (code, amount, note, place, parent)
    VALUES ('a', 1, 'one', point(0, 0), NULL), ('A', 2, 'two', point(0, 1), 1)
"""


def within(url: str) -> str:
    return f"{url.rpartition('/')[2]}.dressed"


def recreated(**options: Any) -> list[Event]:
    return list(copy(CopySpec(mode="recreate", **options)))


def plainly(columns: Mapping[str, str]) -> dict[str, str]:
    return {name: text.replace("CHARACTER SET latin1 ", "") for name, text in columns.items()}


def definitions(table: ReadTable) -> dict[str, str]:
    return {column.name: column.definition for column in table.model.columns}


def checks(table: ReadTable) -> dict[str, str]:
    """Return the checks without the character set introducers that MySQL adds."""
    return {
        each.name: re.sub(r"\b_(latin1|utf8mb4)(?=')", "", each.test.text)
        for each in table.model.checks
    }


def test_every_part_of_a_table_is_recreated(
    mysql_server: AnyMysqlServer, mysql_url: str, connection: pymysql.Connection
) -> None:
    """Twice: the second time, the table is dropped with all its parts."""
    execute(mysql_url, DRESSED, FILLED)
    with mysql_server.new_database() as target:
        for _ in range(2):
            events = recreated(
                source=mysql_url, target=target, table="dressed", target_table=within(target)
            )
        with connect_mysql(target) as other:
            mine, theirs = read_model(connection, "dressed"), read_model(other, "dressed")
        assert rows(target, "SELECT code, parent FROM dressed ORDER BY id") == [
            ("a", None), ("A", 1)
        ]  # fmt: skip
    # MySQL may print the table's own character set.
    assert plainly(definitions(theirs)) == plainly(definitions(mine))
    assert theirs.model.keys == mine.model.keys
    assert theirs.model.indexes == mine.model.indexes
    # MySQL's names of checks are unique in a database, and cannot be changed.
    is_mariadb = "maria" in rows(mysql_url, "SELECT lower(version())")[0][0]
    name = "positive" if is_mariadb else "dressed_chk_positive"
    assert checks(theirs) == {name: checks(mine)["positive"]}
    (above,) = theirs.model.foreign_keys
    assert (above.name, above.columns, above.target.name, above.referenced, above.on_delete) == (
        "above", ("parent",), "dressed", ("id",), "SET NULL",
    )  # fmt: skip
    assert theirs.model.options == "DEFAULT CHARSET=latin1 COLLATE=latin1_bin"
    assert theirs.model.comment == "a = 'b';"
    (planned,) = (event for event in events if isinstance(event, Planned))
    (item,) = planned.not_copied
    assert (item.kind, item.name) == ("table options", "ROW_FORMAT=DYNAMIC")
    execute(mysql_url, item.remedy.replace(item.table.replace(".", "`.`"), "dressed"))


def test_a_subset_of_the_columns(mysql_server: AnyMysqlServer, mysql_url: str) -> None:
    """Parts that refer to other columns are omitted, and listed."""
    execute(mysql_url, DRESSED, FILLED)
    with mysql_server.new_database() as target:
        events = recreated(
            source=mysql_url,
            target=target,
            table="dressed",
            target_table=within(target),
            columns=("id", "amount", "note"),
            types=("note=varchar(5000)",),
        )
        with connect_mysql(target) as other:
            assert set(written_keys(other, "dressed")) == {"PRIMARY", "begins", "by_note", "words"}
    (planned,) = (event for event in events if isinstance(event, Planned))
    # MySQL encloses a check and its parts in parentheses.
    found = {
        (item.kind, item.name.partition(":")[0].partition(" (")[0]) for item in planned.not_copied
    }
    assert found == {
        ("table options", "ROW_FORMAT=DYNAMIC"),
        ("unique constraints", "once"),
        ("indexes", "by_amount"),
        ("indexes", "places"),
        ("indexes", "above"),
        ("indexes", "others"),
        ("foreign keys", "above"),
        ("check constraints", "positive"),
    }


def test_a_key_that_the_new_types_cannot_have(mysql_server: AnyMysqlServer, mysql_url: str) -> None:
    execute(mysql_url, DRESSED, FILLED)
    with mysql_server.new_database() as target:
        events = recreated(
            source=mysql_url,
            target=target,
            table="dressed",
            target_table=within(target),
            types=("code=longtext",),
        )
        with connect_mysql(target) as other:
            assert "by_amount" not in written_keys(other, "dressed")
    (planned,) = (event for event in events if isinstance(event, Planned))
    (item,) = (item for item in planned.not_copied if item.name == "by_amount")
    table = f"`{item.table.replace('.', '`.`')}`"
    assert item.remedy.startswith(f"CREATE INDEX `by_amount` ON {table} (`amount` DESC,`code`)")
    (warning,) = (warning for warning in planned.warnings if "`by_amount`" in warning)
    assert "is not created: " in warning
    assert "key length" in warning


@pytest.mark.parametrize(
    "needle", [b"ADD KEY `by_amount`", b"ADD CONSTRAINT `above`", b"DROP TABLE IF EXISTS `"]
)
def test_a_kill_at_each_step(mysql_server: AnyMysqlServer, mysql_url: str, needle: bytes) -> None:
    """The target does not exist before; see also `test_mysql_recreate_in_use`."""
    execute(mysql_url, DRESSED, FILLED)
    with (
        mysql_server.new_database() as target,
        TcpProxy.of(target) as proxy,
        closing(Pair(mysql_url, f"{proxy.url(target)}?ssl_mode=disabled")) as pair,
    ):
        # The first occurrence is in the plan, as it is stored.
        gate = Gate(proxy, needle, "to_server", skip=1)
        words = ("--mode", "recreate", "--run-id", "faults")
        tables = ("--table", "dressed", "--target-table", within(target))
        run = pair.start("copy", *pair.ends, *tables, *words)
        gate.reached()
        run.signal_all(SIGKILL)
        run.ended(-SIGKILL)
        gate.open()
        pair.resume().ended(0)
        with connect_mysql(mysql_url) as one, connect_mysql(target) as other:
            mine, theirs = read_model(one, "dressed"), read_model(other, "dressed")
        assert theirs.model.keys == mine.model.keys
        assert set(theirs.model.indexes) == set(mine.model.indexes)
        assert [each.name for each in theirs.model.foreign_keys] == ["above"]
        assert [each.name for each in theirs.model.checks] == ["positive"]
        assert rows(target, "SELECT count(*) FROM dressed") == [(2,)]


LINKED = (
    "CREATE TABLE outside (n int PRIMARY KEY) ENGINE = InnoDB",
    "CREATE TABLE parent (id int PRIMARY KEY, n int, FOREIGN KEY (n) REFERENCES outside (n))",
    "CREATE TABLE child (id int PRIMARY KEY, p int, CONSTRAINT fk FOREIGN KEY (p)"
    " REFERENCES parent (id) ON UPDATE CASCADE)",
    "INSERT INTO outside VALUES (7)",
    "INSERT INTO parent VALUES (1, 7), (2, NULL)",
    "INSERT INTO child VALUES (1, 1), (2, 2), (3, NULL)",
)
FOREIGN = (
    "SELECT constraint_name FROM information_schema.table_constraints"
    " WHERE table_schema = database() AND constraint_type = 'FOREIGN KEY'"
)


def test_a_batch_creates_foreign_keys_at_its_end(
    mysql_server: AnyMysqlServer, mysql_url: str
) -> None:
    """Foreign keys between its tables are created when all are loaded, in each run."""
    execute(mysql_url, *LINKED)
    database = mysql_url.rpartition("/")[2]
    with mysql_server.new_database() as target:
        into = target.rpartition("/")[2]
        spec = BatchSpec(
            source=mysql_url,
            target=target,
            tables=(f"{database}.parent", f"{database}.child"),
            target_schema=into,
            defaults={"mode": "recreate"},
        )
        for _ in range(2):
            events = list(copy_all(spec))
            assert rows(target, FOREIGN) == [("fk",)]
            assert rows(target, "SELECT count(p), count(*) FROM child") == [(2, 3)]
        item = {each.name for event in events if isinstance(event, Planned)
                for each in event.not_copied}  # fmt: skip
        assert item == {"parent_ibfk_1"}


def test_rows_that_violate_a_foreign_key(mysql_server: AnyMysqlServer, mysql_url: str) -> None:
    """The runs complete without the foreign key, and the report contains its statement."""
    execute(mysql_url, *LINKED, "SET foreign_key_checks = 0", "DELETE FROM parent WHERE id = 2")
    database = mysql_url.rpartition("/")[2]
    with mysql_server.new_database() as target:
        spec = BatchSpec(
            source=mysql_url,
            target=target,
            tables=(f"{database}.parent", f"{database}.child"),
            target_schema=target.rpartition("/")[2],
            defaults={"mode": "recreate"},
        )
        events = list(copy_all(spec))
        assert rows(target, FOREIGN) == []
        assert rows(target, "SELECT count(*) FROM child") == [(3,)]
        finished = [event for event in events if isinstance(event, Finished)]
        assert {event.status for event in finished} == {"done"}
        (item,) = (item for event in finished for item in event.not_copied if item.name == "fk")
        execute(target, "DELETE FROM child WHERE p = 2", item.remedy)
        assert rows(target, FOREIGN) == [("fk",)]


def test_a_foreign_key_of_a_table_that_is_not_recreated(
    mysql_server: AnyMysqlServer, mysql_url: str
) -> None:
    """It was dropped so that the table it points to could be recreated, and comes back."""
    execute(mysql_url, *LINKED)
    database = mysql_url.rpartition("/")[2]
    with mysql_server.new_database() as target:
        spec = BatchSpec(
            source=mysql_url,
            target=target,
            tables=(f"{database}.parent", f"{database}.child"),
            target_schema=target.rpartition("/")[2],
            defaults={"mode": "recreate"},
        )
        list(copy_all(spec))
        execute(target, "CREATE TRIGGER kept BEFORE INSERT ON child FOR EACH ROW SET @a = 1")
        with pytest.raises(RunFailed, match="1 of 2 tables are not done"):
            list(copy_all(spec))
        assert rows(target, FOREIGN) == [("fk",)]
        assert rows(target, "SELECT count(*) FROM parent") == [(2,)]
