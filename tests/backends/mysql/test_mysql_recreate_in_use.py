"""Mode `recreate` of an existing table: readers have the old one until the new one is complete."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from signal import SIGKILL
from typing import Any

import pymysql
import pytest

from penstock import BatchSpec, CopySpec, copy, copy_all
from penstock.backends.mysql.catalog.table_model import ReadTable, read_table
from penstock.engine.schema import TableSchema, schema
from penstock.errors import PenstockError, RunFailed
from penstock.events import Event, Finished, Planned
from penstock.model.tables import TableRef
from penstock_testkit import AnyMysqlServer, TcpProxy, connect_mysql

from ...faults.cli import PATIENCE, eventually
from ...faults.gate import Gate
from .mysql_pair import Pair, execute, rows

pytestmark = pytest.mark.both_servers

ITEM = """
    CREATE TABLE item (
        id int AUTO_INCREMENT PRIMARY KEY, word varchar(20) NOT NULL DEFAULT 'none', parent int,
        UNIQUE KEY once (word, id), KEY by_word (word), KEY by_parent (parent),
        CONSTRAINT filled CHECK (word <> ''),
        CONSTRAINT above FOREIGN KEY (parent) REFERENCES item (id)
    ) ENGINE = InnoDB COMMENT 'things'
"""
FILLED = "INSERT INTO item (id, word, parent) VALUES (1, 'a', NULL), (2, 'b', 1), (7, 'c', 2)"
OLD = "UPDATE item SET word = 'old', parent = NULL"
CHECKS = (
    "SELECT constraint_name FROM information_schema.table_constraints"
    " WHERE table_schema = database() AND constraint_type = 'CHECK' AND table_name = 'item'"
)
TABLES = (
    "SELECT table_name FROM information_schema.tables"
    " WHERE table_schema = database() AND table_type = 'BASE TABLE' ORDER BY 1"
)


@pytest.fixture
def ends(mysql_server: AnyMysqlServer, mysql_url: str) -> Iterator[tuple[str, str]]:
    """A table, and one like it in the target whose rows are old."""
    execute(mysql_url, ITEM, FILLED)
    with mysql_server.new_database() as target:
        execute(target, ITEM, FILLED, OLD)
        yield mysql_url, target


def spec(ends: tuple[str, str], **options: Any) -> CopySpec:
    source, target = ends
    into = f"{target.rpartition('/')[2]}.item"
    return CopySpec(
        source=source, target=target, table="item", target_table=into, mode="recreate", **options
    )


def planned(events: list[Event]) -> Planned:
    (event,) = (event for event in events if isinstance(event, Planned))
    return event


def shape(url: str) -> ReadTable:
    with connect_mysql(url) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW CREATE TABLE item")
        return read_table(cursor.fetchone()[1], TableRef("d", "item"))


def parts(url: str) -> tuple[Any, ...]:
    """Return everything but the names of checks, which some servers cannot keep."""
    model = shape(url).model
    foreign_keys = {(key.name, key.columns, key.target.name) for key in model.foreign_keys}
    definitions = [(column.name, column.native, column.default) for column in model.columns]
    return definitions, model.keys, set(model.indexes), foreign_keys, model.comment


def old_rows(url: str) -> tuple[int, int]:
    ((count, old),) = rows(url, "SELECT count(*), sum(word = 'old') FROM item")
    return int(count), int(old)


@contextmanager
def reading(url: str) -> Iterator[set[tuple[int, int]]]:
    """Read all rows and the old ones, repeatedly."""
    seen: set[tuple[int, int]] = set()
    ended = threading.Event()

    def read() -> None:
        with closing(connect_mysql(url)) as connection, connection.cursor() as cursor:
            connection.autocommit(True)
            while not ended.is_set():
                cursor.execute("SELECT count(*), sum(word = 'old') FROM item")
                count, old = cursor.fetchone()
                seen.add((int(count), int(old or 0)))

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join(PATIENCE)


def test_readers_see_the_old_table_or_the_new_one(ends: tuple[str, str]) -> None:
    _, target = ends
    execute(target, "CREATE VIEW words AS SELECT word FROM item")
    with reading(target) as seen:
        list(copy(spec(ends, partitions=3, strategy="range", key="id")))
        eventually("the reader sees the new rows", lambda: (3, 0) in seen, PATIENCE)
    assert seen == {(3, 3), (3, 0)}
    assert rows(target, "SELECT * FROM words ORDER BY 1") == [("a",), ("b",), ("c",)]
    assert rows(target, TABLES) == [("item",)]


def test_every_part_is_there_each_time(ends: tuple[str, str], mysql_server: AnyMysqlServer) -> None:
    """The names of checks are unique in a database of MySQL, which cannot rename them."""
    source, target = ends
    is_mariadb = "maria" in rows(source, "SELECT lower(version())")[0][0]
    named = [("filled",)] if is_mariadb else [("item_chk_filled",)]
    for word in ("d", "e", "f"):
        execute(source, f"INSERT INTO item (word, parent) VALUES ('{word}', 1)")
        events = list(copy(spec(ends)))
        assert parts(target) == parts(source)
        assert rows(target, CHECKS) == named
        warnings = [text for text in planned(events).warnings if "check filled is named" in text]
        assert bool(warnings) != is_mariadb
        with pytest.raises(pymysql.Error, match="filled"):
            execute(target, "INSERT INTO item (word) VALUES ('')")
    last = "INSERT INTO item (parent) VALUES (2)"
    execute(source, last)
    execute(target, last)
    assert rows(target, "SELECT * FROM item ORDER BY id") == rows(
        source, "SELECT * FROM item ORDER BY id"
    )


def test_a_table_with_a_long_name(ends: tuple[str, str]) -> None:
    """The new table has a shorter one until the exchange."""
    source, target = ends
    name = "i" * 64
    execute(source, f"RENAME TABLE item TO {name}")
    into = f"{target.rpartition('/')[2]}.{name}"
    for count in (3, 4, 5):
        spec_ = CopySpec(
            source=source, target=target, table=name, target_table=into, mode="recreate"
        )
        list(copy(spec_))
        assert rows(target, f"SELECT count(*) FROM {name}") == [(count,)]
        with pytest.raises(pymysql.Error):
            execute(target, f"INSERT INTO {name} (word) VALUES ('')")
        execute(source, f"INSERT INTO {name} (word) VALUES ('more')")
    assert rows(target, TABLES) == [(name,), ("item",)]


def test_a_failed_copy_leaves_the_old_table(ends: tuple[str, str]) -> None:
    source, target = ends
    before = parts(target), rows(target, CHECKS)
    failing = spec(ends, types=("word=varchar(2)",), run_id="failing")
    execute(source, "UPDATE item SET word = 'much too long' WHERE id = 2")
    with pytest.raises(PenstockError):
        list(copy(failing))
    assert (parts(target), rows(target, CHECKS)) == before
    assert old_rows(target) == (3, 3)


STEPS = {
    "create": b"CREATE TABLE `{}`.`item~",
    "load": b"LOAD DATA LOCAL",
    "index": b"ADD KEY `by_word`",
    "exchange": b"RENAME TABLE `{}`.`item` TO",
    "drop": b"DROP TABLE `{}`.`item~",
    "foreign key": b"ADD CONSTRAINT `above`",
}


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_each_step(ends: tuple[str, str], step: str) -> None:
    source, target = ends
    before = parts(target)
    into = target.rpartition("/")[2]
    with (
        TcpProxy.of(target) as proxy,
        closing(Pair(source, f"{proxy.url(target)}?ssl_mode=disabled")) as pair,
    ):
        needle = STEPS[step].replace(b"{}", into.encode())
        # The plan, as it is stored, has the statements of steps.
        gate = Gate(proxy, needle, "to_server", skip=step != "load")
        words = ("--table", "item", "--target-table", f"{into}.item", "--mode", "recreate")
        run = pair.start("copy", *pair.ends, *words, "--run-id", "faults")
        gate.reached()
        run.signal_all(SIGKILL)
        run.ended(-SIGKILL)
        if step in ("drop", "foreign key"):
            assert rows(target, "SELECT word FROM item ORDER BY id") == [("a",), ("b",), ("c",)]
        else:
            assert parts(target) == before
            assert old_rows(target) == (3, 3)
        gate.open()  # what was held reaches the server
        pair.resume().ended(0)
    assert parts(target) == parts(source)
    assert rows(target, TABLES) == [("item",)]
    assert old_rows(target) == (3, 0)


LINKED = (
    "CREATE TABLE child (id int PRIMARY KEY, i int, CONSTRAINT of_item FOREIGN KEY (i)"
    " REFERENCES item (id))",
    "INSERT INTO child VALUES (1, 7), (2, NULL)",
)
FOREIGN = (
    "SELECT constraint_name FROM information_schema.table_constraints"
    " WHERE table_schema = database() AND constraint_type = 'FOREIGN KEY' ORDER BY 1"
)


def batch(ends: tuple[str, str], **options: Any) -> BatchSpec:
    source, target = ends
    database = source.rpartition("/")[2]
    return BatchSpec(
        source=source,
        target=target,
        tables=(f"{database}.item", f"{database}.child"),
        target_schema=target.rpartition("/")[2],
        defaults={"mode": "recreate"},
        **options,
    )


def test_tables_with_foreign_keys_between_them(ends: tuple[str, str]) -> None:
    source, target = ends
    execute(source, *LINKED)
    execute(target, LINKED[0])
    for count in (1, 2):
        execute(source, f"INSERT INTO child VALUES ({count + 2}, {count})")
        list(copy_all(batch(ends)))
        assert rows(target, FOREIGN) == [("above",), ("of_item",)]
        assert rows(target, "SELECT * FROM child") == rows(source, "SELECT * FROM child")
        assert rows(target, TABLES) == [("child",), ("item",)]
    with pytest.raises(pymysql.Error):
        execute(target, "INSERT INTO child VALUES (9, 999)")


def test_a_table_that_fails_keeps_its_foreign_keys(ends: tuple[str, str]) -> None:
    """The other one is exchanged and refers to the old table, then to the new one."""
    source, target = ends
    execute(source, *LINKED, "ALTER TABLE item MODIFY word varchar(40) NOT NULL DEFAULT 'none'")
    execute(target, LINKED[0])
    execute(target, "CREATE TRIGGER kept BEFORE INSERT ON item FOR EACH ROW SET @a = 1")
    with pytest.raises(RunFailed, match="1 of 2 tables are not done"):
        list(copy_all(batch(ends, run_id="nightly")))
    assert rows(target, FOREIGN) == [("above",), ("of_item",)]
    assert old_rows(target) == (3, 3)
    assert rows(target, "SELECT * FROM child") == rows(source, "SELECT * FROM child")
    execute(target, "DROP TRIGGER kept")
    list(copy_all(batch(ends, run_id="nightly")))
    assert rows(target, FOREIGN) == [("above",), ("of_item",)]
    assert old_rows(target) == (3, 0)


def test_a_batch_killed_between_its_exchanges(ends: tuple[str, str]) -> None:
    """One table has its foreign key to the other's old one, which is replaced afterwards."""
    source, target = ends
    execute(source, *LINKED)
    execute(target, LINKED[0])
    into = target.rpartition("/")[2]
    database = source.rpartition("/")[2]
    for table in ("item", "child"):
        run_id, needle = f"of-{table}", f"RENAME TABLE `{into}`.`{table}` TO"
        with (
            TcpProxy.of(target) as proxy,
            closing(Pair(source, f"{proxy.url(target)}?ssl_mode=disabled")) as pair,
        ):
            gate = Gate(proxy, needle.encode(), "to_server", skip=1)
            words = ("--tables", f"{database}.item", f"{database}.child", "--target-schema", into)
            run = pair.start(
                "copy-all", *pair.ends, *words, "--mode", "recreate", "--run-id", run_id
            )
            gate.reached()
            run.signal_all(SIGKILL)
            run.ended(-SIGKILL)
            gate.open()
            again = pair.start(
                "copy-all", *pair.ends, *words, "--mode", "recreate", "--run-id", run_id
            )
            again.ended(0)
        assert rows(target, FOREIGN) == [("above",), ("of_item",)]
        assert old_rows(target) == (3, 0)
        execute(target, OLD)


OTHER_RUN = (
    "CREATE TEMPORARY TABLE mine SELECT * FROM penstock.run WHERE spec LIKE '%.item%'",
    "CREATE TEMPORARY TABLE loaded SELECT * FROM penstock.commit_record"
    " WHERE run_id IN (SELECT run_id FROM mine) LIMIT 1",
    """UPDATE mine SET run_id = 'theirs', status = 'done', loads = '["{}", "item"]'""",
    "UPDATE loaded SET run_id = 'theirs', committed_at = '2999-01-01'",
    "INSERT INTO penstock.run SELECT * FROM mine",
    "INSERT INTO penstock.commit_record SELECT * FROM loaded",
)


def test_rows_of_another_run_are_not_lost(ends: tuple[str, str]) -> None:
    """The foreign key that leads to the table stays, too."""
    source, target = ends
    execute(source, *LINKED)
    execute(target, LINKED[0])
    into = target.rpartition("/")[2]
    database = source.rpartition("/")[2]
    with (
        TcpProxy.of(target) as proxy,
        closing(Pair(source, f"{proxy.url(target)}?ssl_mode=disabled")) as pair,
    ):
        gate = Gate(proxy, STEPS["index"], "to_server", skip=1)
        words = (
            *("copy-all", *pair.ends, "--tables", f"{database}.item", f"{database}.child"),
            *("--target-schema", into, "--mode", "recreate", "--run-id", "nightly"),
        )
        run = pair.start(*words)
        gate.reached()
        run.signal_all(SIGKILL)
        run.ended(-SIGKILL)
        gate.open()
        # As if another run had appended a row in the meantime.
        execute(target, *(statement.replace("{}", into) for statement in OTHER_RUN))
        again = pair.start(*words)
        again.popen.wait(PATIENCE)
        (error,) = (event.error for event in again.of(Finished) if event.error)
        assert "run theirs has loaded rows into" in error["message"]
    assert old_rows(target) == (3, 3)
    assert rows(target, FOREIGN) == [("above",), ("of_item",)]


def test_printed_statements_create_the_table_in_place(ends: tuple[str, str]) -> None:
    source, target = ends
    request = BatchSpec(
        source=source,
        target=target,
        tables=(f"{source.rpartition('/')[2]}.item",),
        target_schema=target.rpartition("/")[2],
    )
    printed, _ = schema(request)
    assert isinstance(printed, TableSchema)
    text = "\n".join((*printed.statements, *printed.links))
    assert "~" not in text
    execute(target, "DROP TABLE item", *filter(None, map(str.strip, text.split(";"))))
    assert parts(target) == parts(source)


def test_a_table_without_rows(ends: tuple[str, str]) -> None:
    source, target = ends
    list(copy(spec(ends, schema_only=True)))
    assert parts(target) == parts(source)
    assert rows(target, "SELECT * FROM item") == []
    assert rows(target, TABLES) == [("item",)]
