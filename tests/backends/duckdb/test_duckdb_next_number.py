"""The next number of an existing DuckDB table after a load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from penstock import BatchSpec, CopySpec, copy, copy_all
from penstock.backends.duckdb.load.numbering import MOST
from penstock.events import BatchFinished, Finished
from penstock.spec.modes import ModeName

SHOP = """
    CREATE TABLE author (id serial PRIMARY KEY, name text);
    CREATE TABLE article (id int GENERATED ALWAYS AS IDENTITY (START 10 INCREMENT 5) PRIMARY KEY,
        author int NOT NULL REFERENCES author, words int DEFAULT 7);
    CREATE INDEX by_author ON article (author);
    INSERT INTO author (name) SELECT 'a' || n FROM generate_series(1, 200) AS n;
    INSERT INTO article (author) SELECT n FROM generate_series(1, 100) AS n;
    SELECT setval('author_id_seq', 300)
"""


def filled(source: str, path: Path, mode: ModeName) -> None:
    spec = BatchSpec.from_mapping(
        {"source": source, "target": f"duckdb:///{path}", "tables": ["public.*"],
         "target_schema": "main", "mode": mode, "data_only": True, "verify": "checksums"},
        "test",
    )  # fmt: skip
    end = list(copy_all(spec))[-1]
    assert isinstance(end, BatchFinished)
    assert end.status == "done"
    assert [item for table in end.tables for item in table.not_copied] == []


def next_of(path: Path, insert: str) -> Any:
    with duckdb.connect(str(path)) as file:
        found = file.execute(f"{insert} RETURNING id").fetchall()
        file.execute("DELETE FROM author WHERE name = 'new'")
        return found[0][0]


@pytest.fixture
def existing(source_url: str, tmp_path: Path) -> Path:
    with psycopg.connect(source_url, autocommit=True) as connection:
        connection.execute(SHOP)
    path = tmp_path / "shop.duckdb"
    spec = BatchSpec.from_mapping(
        {"source": source_url, "target": f"duckdb:///{path}", "tables": ["public.*"],
         "target_schema": "main", "schema_only": True},
        "test",
    )  # fmt: skip
    list(copy_all(spec))
    return path


NEW = "INSERT INTO author (name) VALUES ('new')"
NEW_ARTICLE = "INSERT INTO article (author) VALUES (1)"


def test_rows_loaded_after_the_table_was_created(source_url: str, existing: Path) -> None:
    filled(source_url, existing, "truncate")
    # From the source's sequences, which are at 300 and 505.
    assert next_of(existing, NEW) == 301
    assert next_of(existing, NEW_ARTICLE) == 510
    # It never goes back, nor to a number in use.
    filled(source_url, existing, "truncate")
    assert next_of(existing, NEW) == 302
    with psycopg.connect(source_url, autocommit=True) as connection:
        connection.execute("INSERT INTO author VALUES (1000, 'far')")
    filled(source_url, existing, "truncate")
    assert next_of(existing, NEW) == 1001


@pytest.mark.parametrize("mode", ["append", "truncate", "upsert", "swap"])
def test_each_mode_that_loads_an_existing_table_sets_the_next_number(
    source_url: str, existing: Path, mode: ModeName
) -> None:
    spec = CopySpec(
        source=source_url, target=f"duckdb:///{existing}", table="public.author",
        target_table="main.author", mode=mode,
    )  # fmt: skip
    end = list(copy(spec))[-1]
    assert isinstance(end, Finished)
    assert end.status == "done"
    assert next_of(existing, NEW) == 301


def test_sequences_can_be_kept(source_url: str, existing: Path) -> None:
    spec = CopySpec(
        source=source_url, target=f"duckdb:///{existing}", table="public.author",
        target_table="main.author", mode="truncate", sequences="keep",
    )  # fmt: skip
    list(copy(spec))
    with duckdb.connect(str(existing)) as file, pytest.raises(duckdb.ConstraintException):
        file.execute(NEW)


@pytest.mark.parametrize("shared", [False, True])
def test_a_number_far_ahead(source_url: str, existing: Path, *, shared: bool) -> None:
    """If other tables use the sequence, it is only advanced."""
    far = MOST * 3
    with psycopg.connect(source_url, autocommit=True) as connection:
        connection.execute("SELECT setval('author_id_seq', %s)", [far])
    if shared:
        with duckdb.connect(str(existing)) as file:
            file.execute("CREATE TABLE other (id int DEFAULT nextval('author_id_seq'))")
        spec = CopySpec(
            source=source_url, target=f"duckdb:///{existing}", table="public.author",
            target_table="main.author", mode="truncate",
        )  # fmt: skip
        end = list(copy(spec))[-1]
        assert isinstance(end, Finished)
        assert [(i.kind, i.name) for i in end.not_copied] == [
            ("identity columns", "id: the next number")
        ]
        return
    filled(source_url, existing, "truncate")
    assert next_of(existing, NEW) == far + 1
    with duckdb.connect(str(existing)) as file:
        assert file.execute("SELECT count(*) FROM author").fetchall() == [(200,)]
