"""Mode `recreate` within one server: a table like the source's, and no run waits for itself."""

from __future__ import annotations

from collections.abc import Iterator

import pymysql
import pytest

from penstock import CopySpec, copy
from penstock.events import Planned
from penstock_testkit import connect_mysql

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
        # Indexes are not copied, and privileges are not the table's.
        return [(*row[:4], *row[5:7], row[8]) for row in cursor.fetchall()]


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
    computed = [name for name, *_ in mine].index("twice")
    assert [row for row in theirs if row[0] != "twice"] == mine[:computed] + mine[computed + 1 :]
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, state, note FROM u ORDER BY id")
        assert cursor.fetchall() == ((1, "paid", "x"), (2, "new", None))
    (planned,) = (event for event in events if isinstance(event, Planned))
    assert [(found.kind, found.name) for found in planned.not_copied] == [("indexes", "state")]
