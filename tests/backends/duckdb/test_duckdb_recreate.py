"""Mode `recreate` of an existing DuckDB table: the old one stays until the new one is complete."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from penstock import BatchSpec, CopySpec, copy, copy_all
from penstock.errors import PenstockError, TargetChanged
from penstock.events import Finished

from .duckdb_tables import Database, cut

SHOP = """
    CREATE TABLE author (id serial PRIMARY KEY, name text NOT NULL DEFAULT 'none',
        born int CHECK (born > 1000), UNIQUE (name, id));
    CREATE INDEX by_name ON author (name);
    COMMENT ON TABLE author IS 'who writes';
    COMMENT ON COLUMN author.born IS 'year';
    CREATE TABLE article (id int PRIMARY KEY, author int REFERENCES author);
    INSERT INTO author (name, born) SELECT 'a' || n, 1900 + n FROM generate_series(1, 200) AS n;
    INSERT INTO article SELECT n, n FROM generate_series(1, 100) AS n
"""
PARTS = (
    "SELECT constraint_text FROM duckdb_constraints() WHERE table_name = 'author' ORDER BY 1",
    "SELECT index_name, sql FROM duckdb_indexes() WHERE table_name = 'author' ORDER BY 1",
    "SELECT column_name, column_default, comment FROM duckdb_columns()"
    " WHERE table_name = 'author' ORDER BY column_index",
    "SELECT comment FROM duckdb_tables() WHERE table_name = 'author'",
    "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main' ORDER BY 1",
    "SELECT sequence_name FROM duckdb_sequences() WHERE schema_name = 'main' ORDER BY 1",
)


@pytest.fixture
def shop(source_url: str) -> str:
    with psycopg.connect(source_url, autocommit=True) as connection:
        connection.execute(SHOP)
    return source_url


def ask(path: Path, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(path)) as file:
        return file.execute(query).fetchall()


def spec(shop: str, path: Path, **options: Any) -> CopySpec:
    return CopySpec(
        source=shop, target=f"duckdb:///{path}", table="public.author", target_table="main.author",
        mode="recreate", **options,
    )  # fmt: skip


def test_every_part_is_there_each_time(shop: str, tmp_path: Path) -> None:
    path = tmp_path / "shop.duckdb"
    list(copy(spec(shop, path)))
    first = [ask(path, query) for query in PARTS]
    assert all(first)
    ask(path, "CREATE VIEW names AS SELECT name FROM author")
    for count in (201, 202):
        with psycopg.connect(shop, autocommit=True) as connection:
            connection.execute("INSERT INTO author (name) VALUES ('new')")
        events = list(copy(spec(shop, path, verify="checksums")))
        (end,) = (event for event in events if isinstance(event, Finished))
        assert end.not_copied == ()
        assert [ask(path, query) for query in PARTS] == first
        assert ask(path, "SELECT count(*), max(id) FROM author") == [(count, count)]
        assert ask(path, "SELECT count(*) FROM names") == [(count,)]
    assert ask(path, "INSERT INTO author (name) VALUES ('x') RETURNING id") == [(203,)]


def test_a_failed_copy_leaves_the_old_table(shop: str, tmp_path: Path) -> None:
    path = tmp_path / "shop.duckdb"
    list(copy(spec(shop, path)))
    before = [ask(path, query) for query in PARTS[:-2]]
    with pytest.raises(PenstockError):
        list(copy(spec(shop, path, types=("born=utinyint",))))
    assert [ask(path, query) for query in PARTS[:-2]] == before
    assert ask(path, "SELECT count(*) FROM author") == [(200,)]
    list(copy(spec(shop, path)))
    # The next run drops what the failed one had built.
    assert ask(path, "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main'") == [
        ("author",)
    ]


def test_tables_with_foreign_keys_between_them_in_the_source(shop: str, tmp_path: Path) -> None:
    path = tmp_path / "shop.duckdb"
    batch = BatchSpec(
        source=shop, target=f"duckdb:///{path}", tables=("public.*",), target_schema="main",
        defaults={"mode": "recreate"},
    )  # fmt: skip
    for _ in range(3):
        list(copy_all(batch))
        assert ask(path, PARTS[-2]) == [("article",), ("author",)]
        assert ask(path, "SELECT count(*) FROM author JOIN article ON author = author.id") == [
            (100,)
        ]


@pytest.fixture
def database(tmp_path: Path) -> Database:
    made = Database.make(tmp_path / "target.duckdb")
    made.sql("INSERT INTO t SELECT 1000 + i, 'old' FROM range(100) AS r (i)")
    return made


def old_rows(database: Database) -> int:
    return sum(id_ >= 1000 for id_ in database.ids())


def test_the_old_rows_stay_until_the_exchange(database: Database) -> None:
    run = database.create("r", "recreate", partitions=cut(10))
    run.copy("p0000", range(10))
    run.copy("p0001", range(10, 20))
    assert (old_rows(database), len(database.rows())) == (100, 100)
    run.check()
    run.finish()
    assert database.ids() == Counter(range(20))


def test_rows_of_another_run_are_not_lost(database: Database) -> None:
    run = database.create("r", "recreate", partitions=cut(10))
    other = database.create("other", "append", partitions=cut(510))
    run.copy("p0000", range(10))
    other.copy("p0000", range(500, 510))
    run.copy("p0001", range(10, 20))
    with pytest.raises(TargetChanged, match=r"run other has loaded rows into main\.t since run r"):
        run.finish()
    assert len(database.rows()) == 110
    other.copy("p0001", range(510, 520))
    other.finish()
    assert len(database.rows()) == 120


def test_a_run_that_loads_the_old_table_is_told(database: Database) -> None:
    """Before the exchange nothing has happened to it."""
    other = database.create("other", "append", partitions=cut(510))
    other.copy("p0000", range(500, 510))
    run = database.create("r", "recreate", partitions=cut(10))
    run.copy("p0000", range(10))
    run.copy("p0001", range(10, 20))
    other.check()
    run.finish()
    with pytest.raises(TargetChanged, match=r"run r has deleted rows of main\.t"):
        other.check()
    assert database.ids() == Counter(range(20))
