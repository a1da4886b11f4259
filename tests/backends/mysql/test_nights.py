"""Nights into MySQL: keys that its collations consider equal, and engines without rollback."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from tests.one_copy import OneCopy

from penstock_testkit.mysql import connect_mysql

from .mysql_pair import execute, rows

pytestmark = pytest.mark.both_servers

if TYPE_CHECKING:
    from tests.conftest import Connection

ALL = "SELECT word, id FROM items ORDER BY id"
KEPT = "CREATE TABLE items (word varchar(20) COLLATE utf8mb4_general_ci PRIMARY KEY, id int)"


def copied(source_url: str, target_url: str, **options: Any) -> OneCopy:
    database = target_url.rpartition("/")[2].partition("?")[0]
    arguments = {"mode": "upsert", "table": "public.items", "degree": 1, **options}
    return OneCopy(
        source=source_url, target=target_url, target_table=f"{database}.items", **arguments
    )


@pytest.fixture
def words(source: Connection, mysql_url: str) -> Connection:
    source.execute(b"CREATE TABLE items (word varchar(20) PRIMARY KEY, id int)")
    source.execute(b"INSERT INTO items VALUES ('a', 1), ('b', 2), ('c', 3), ('d', 4)")
    execute(mysql_url, KEPT)
    return source


def test_a_key_spelled_differently_gets_the_sources_spelling(
    words: Connection, source_url: str, mysql_url: str
) -> None:
    arguments = {"atomic": "table", "deletes": "hard,100%"}
    copied(source_url, mysql_url, **arguments).done()
    words.execute(b"UPDATE items SET word = 'A' WHERE id = 1")
    words.execute(b"DELETE FROM items WHERE id = 2")
    copied(source_url, mysql_url, **arguments).done()
    assert rows(mysql_url, ALL) == [("A", 1), ("c", 3), ("d", 4)]
    words.execute(b"UPDATE items SET word = 'C' WHERE id = 3")
    copied(source_url, mysql_url, **arguments).done()
    assert rows(mysql_url, ALL) == [("A", 1), ("C", 3), ("d", 4)]


def test_a_row_whose_key_is_equal_in_the_target_is_not_overwritten(
    words: Connection, source_url: str, mysql_url: str
) -> None:
    copied(source_url, mysql_url, incremental="xmin").done()
    words.execute(b"INSERT INTO items VALUES ('A', 5)")
    refused = copied(source_url, mysql_url, incremental="xmin")
    assert refused.code == 65
    assert "(A), which is being copied, as equal to (a)" in refused.message
    assert "watermark reset" in refused.message
    assert rows(mysql_url, ALL) == [("a", 1), ("b", 2), ("c", 3), ("d", 4)]


def test_keys_that_are_equal_in_the_target_are_duplicates(
    words: Connection, source_url: str, mysql_url: str
) -> None:
    words.execute(b"INSERT INTO items VALUES ('A', 5)")
    refused = copied(source_url, mysql_url, atomic="table", strategy="hash", key="id", partitions=3)
    assert refused.code == 65
    assert "(A) and (a)" in refused.message or "(a) and (A)" in refused.message
    assert rows(mysql_url, ALL) == []


def test_an_engine_without_rollback_is_refused(
    words: Connection, source_url: str, mysql_url: str
) -> None:
    execute(mysql_url, "ALTER TABLE items ENGINE = MyISAM")
    refused = copied(source_url, mysql_url, incremental="xmin")
    assert refused.code == 65
    assert "InnoDB" in refused.message


@pytest.fixture
def limited(mysql_url: str) -> Iterator[str]:
    """The same database, for a user with the privileges that docs/mysql.md lists for nights."""
    parts, name = urlsplit(mysql_url), f"night_{uuid.uuid4().hex[:8]}"
    database = parts.path[1:]
    execute(
        mysql_url,
        f"CREATE USER {name} IDENTIFIED BY 'secret'",
        f"GRANT ALL ON penstock.* TO {name}",
        f"GRANT SELECT, INSERT, UPDATE, CREATE, DROP ON {database}.* TO {name}",
        f"GRANT DELETE, CREATE TEMPORARY TABLES ON {database}.* TO {name}",
    )
    yield urlunsplit(parts._replace(netloc=f"{name}:secret@{parts.hostname}:{parts.port}"))
    execute(mysql_url, f"DROP USER {name}")


def test_privileges_that_nights_need(words: Connection, source_url: str, limited: str) -> None:
    arguments = {"incremental": "xmin", "deletes": "hard,100%"}
    copied(source_url, limited, **arguments).done()
    words.execute(b"DELETE FROM items WHERE id = 2")
    words.execute(b"UPDATE items SET id = 5 WHERE id = 4")
    copied(source_url, limited, **arguments).done()
    assert rows(limited, ALL) == [("a", 1), ("c", 3), ("d", 5)]


def test_readers_see_last_night_or_tonight(
    source: Connection, source_url: str, mysql_url: str
) -> None:
    source.execute(b"CREATE TABLE items (id int PRIMARY KEY, word varchar(20))")
    source.execute(b"INSERT INTO items SELECT i, 'old' FROM generate_series(1, 5000) AS i")
    options = {"incremental": "xmin", "deletes": "hard,50%"}
    copied(source_url, mysql_url, **options).done()
    source.execute(b"DELETE FROM items WHERE id <= 1000")
    source.execute(b"UPDATE items SET word = 'new' WHERE id <= 3000")
    source.execute(b"INSERT INTO items SELECT i, 'new' FROM generate_series(6001, 6500) AS i")
    seen: list[tuple[Any, ...]] = []
    ended = threading.Event()

    def read() -> None:
        with closing(connect_mysql(mysql_url)) as connection, connection.cursor() as cursor:
            while not ended.is_set():
                cursor.execute("SELECT count(*), sum(word = 'new') FROM items")
                seen.extend(cursor.fetchall())

    reader = threading.Thread(target=read)
    reader.start()
    try:
        copied(source_url, mysql_url, **options).done()
    finally:
        ended.set()
        reader.join()
    last_night, tonight = (5000, 0), (4500, 2500)
    assert {(rows, int(new)) for rows, new in seen} <= {last_night, tonight}
    assert seen[0] == last_night
    assert rows(mysql_url, "SELECT count(*), sum(word = 'new') FROM items") == [tonight]
