"""Names of indexes and constraints that are free in the source, and taken in the target.

PostgreSQL keeps tables, indexes and sequences of a schema in one namespace, MySQL keeps constraints
of a database in one, and compares names of columns and indexes regardless of case.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from penstock import BatchSpec, RunFailed, copy_all
from penstock.events import BatchFinished, Event, Planned
from penstock_testkit.mysql import connect_mysql

MYSQL = [
    # Drupal's: an index of one table has the name of the next table.
    "CREATE TABLE node (nid int PRIMARY KEY, type int, title varchar(20), KEY type (type))",
    "CREATE TABLE node_type (id int PRIMARY KEY, KEY node (id))",
    # Indexes of two tables get the same name.
    "CREATE TABLE a (id int PRIMARY KEY, x int, KEY b_c (x))",
    "CREATE TABLE a_b (id int PRIMARY KEY, x int, KEY c (x))",
    # Names that PostgreSQL's own keys and sequences get.
    "CREATE TABLE t (id int AUTO_INCREMENT PRIMARY KEY, x int, u int, UNIQUE KEY other (u),"
    " KEY t_pkey (x), KEY id_seq (x), KEY u_key (x))",
    # The first 63 bytes are the same.
    f"CREATE TABLE l (id int PRIMARY KEY, KEY {'k' * 62}1 (id), KEY {'k' * 62}2 (id))",
    f"CREATE TABLE {'l' * 63} (id int PRIMARY KEY, x int, KEY ix (x), KEY iy (x))",
    # The same name but for its case.
    "CREATE TABLE cased (id int PRIMARY KEY, x int, KEY `Ab` (x))",
]
INDEXES = """
    SELECT t.relname, c.relname, array(
        SELECT a.attname::text FROM unnest(x.indkey) AS k (number)
        JOIN pg_attribute AS a ON a.attrelid = x.indrelid AND a.attnum = k.number
    )
    FROM pg_index AS x
    JOIN pg_class AS c ON c.oid = x.indexrelid
    JOIN pg_class AS t ON t.oid = x.indrelid
    WHERE c.relnamespace = 'public'::regnamespace AND NOT x.indisprimary AND NOT x.indisunique
    ORDER BY 1, 2
"""


def copied(source: str, target: str, **options: Any) -> tuple[list[Event], BatchFinished]:
    spec = BatchSpec.from_mapping(
        {"source": source, "target": target, "mode": "recreate", "verify": "counts", **options},
        "test",
    )
    events: list[Event] = []
    try:
        events.extend(copy_all(spec))
    except RunFailed as error:  # the events say more
        pytest.fail(f"{error}: {[each for each in events if hasattr(each, 'error')]}")
    end = events[-1]
    assert isinstance(end, BatchFinished)
    assert end.status == "done"
    return events, end


def run_mysql(url: str, *statements: str) -> None:
    with closing(connect_mysql(url)) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def test_from_mysql_into_postgresql(mysql_url: str, target_url: str) -> None:
    run_mysql(mysql_url, *MYSQL)
    schema = urlsplit(mysql_url).path[1:]
    found: list[list[Any]] = []
    for _ in range(2):
        events, end = copied(
            mysql_url, target_url, tables=f"{schema}.*", target_schema="public", degree=2
        )
        assert not [item for table in end.tables for item in table.not_copied]
        warnings = [w for each in events if isinstance(each, Planned) for w in each.warnings]
        assert (
            "index node_type is named node_type_1, because the name is taken in schema public"
            in warnings
        )
        with psycopg.connect(target_url) as connection:
            found.append(connection.execute(INDEXES).fetchall())
    first, again = found
    assert first == again
    assert [(table, columns) for table, _, columns in first] == [
        ("a", ["x"]),
        ("a_b", ["x"]),
        ("cased", ["x"]),
        ("l", ["id"]),
        ("l", ["id"]),
        ("l" * 63, ["x"]),
        ("l" * 63, ["x"]),
        ("node", ["type"]),
        ("node_type", ["id"]),
        ("t", ["x"]),
        ("t", ["x"]),
        ("t", ["x"]),
    ]


def test_schemas_merged_into_one(source_url: str, target_url: str) -> None:
    """Both tables have an index, a constraint and a sequence of the same name."""
    with psycopg.connect(source_url, autocommit=True) as connection:
        for schema, table in (("x", "a"), ("y", "b"), ("z", "same")):
            connection.execute(
                f"CREATE SCHEMA {schema};"
                f"CREATE TABLE {schema}.{table} (id int, v int, w int DEFAULT 0,"
                f" CONSTRAINT same_key PRIMARY KEY (id));"
                f"CREATE INDEX same ON {schema}.{table} (v);"
                if table != "same"
                else f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.{table} (id int)"
            )
            connection.execute(f"INSERT INTO {schema}.{table} (id) VALUES (1), (2)")
    tables = "x.*,y.*,z.*"
    for _ in range(2):
        _, end = copied(source_url, target_url, tables=tables, target_schema="public")
        assert not [item for table in end.tables for item in table.not_copied]
    with psycopg.connect(target_url) as connection:
        rows = connection.execute(INDEXES).fetchall()
        assert [(table, columns) for table, _, columns in rows] == [("a", ["v"]), ("b", ["v"])]


def test_from_postgresql_into_mysql(source_url: str, mysql_url: str) -> None:
    with psycopg.connect(source_url, autocommit=True) as connection:
        connection.execute("""
            CREATE TABLE a (id int PRIMARY KEY, x int CONSTRAINT b_c CHECK (x > 0));
            CREATE TABLE a_b (id int PRIMARY KEY, x int CONSTRAINT c CHECK (x > 0));
            CREATE TABLE f (id int PRIMARY KEY, a int CONSTRAINT g_h REFERENCES a);
            CREATE TABLE f_g (id int PRIMARY KEY, a int CONSTRAINT h REFERENCES a);
            CREATE TABLE i (id int PRIMARY KEY, x int, y int);
            CREATE INDEX i_one ON i (x); CREATE INDEX "I_one" ON i (y);
            INSERT INTO a VALUES (1, 1); INSERT INTO f VALUES (1, 1)
        """)
    schema = urlsplit(mysql_url).path[1:]
    for _ in range(2):
        _, end = copied(source_url, mysql_url, tables="public.*", target_schema=schema)
        assert not [item for table in end.tables for item in table.not_copied]
    with closing(connect_mysql(mysql_url)) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, column_name FROM information_schema.statistics"
            " WHERE table_schema = %s AND table_name = 'i' AND index_name <> 'PRIMARY'"
            " ORDER BY 2",
            [schema],
        )
        assert cursor.fetchall() == (("i", "x"), ("i", "y"))
