"""Keys of a table created for another system's: those that mean the same there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from penstock import CopySpec, copy
from penstock.events import Planned
from penstock_testkit import Server

from ...conftest import fresh_database
from .mysql_pair import execute, rows

pytestmark = pytest.mark.both_servers

POSTGRESQL = """
    CREATE TABLE item (
        code varchar(20), day date, uid uuid UNIQUE, n int NOT NULL, free text,
        later int UNIQUE DEFERRABLE, long_one varchar(900),
        PRIMARY KEY (code, day), UNIQUE (n, day) INCLUDE (free), UNIQUE (free), UNIQUE (long_one)
    );
    INSERT INTO item VALUES
        ('a', '2026-01-01', gen_random_uuid(), 1, 'x', 1, 'l'),
        ('A', '2026-01-01', NULL, 3, 'X', 2, 'L'), ('a ', '2026-01-01', NULL, 2, 'x ', 3, 'l ')
"""
KEYS = (
    "SELECT index_name, group_concat(column_name ORDER BY seq_in_index)"
    " FROM information_schema.statistics WHERE table_schema = database() AND table_name = 'item'"
    " GROUP BY index_name ORDER BY index_name <> 'PRIMARY', 2"
)


def recreated(**options: Any) -> Planned:
    events = list(copy(CopySpec(mode="recreate", **options)))
    (planned,) = (event for event in events if isinstance(event, Planned))
    return planned


def test_keys_from_postgresql(postgresql_url: str, mysql_url: str) -> None:
    """PostgreSQL compares texts by their bytes; no collation makes two of them equal."""
    with psycopg.connect(postgresql_url) as source:
        source.execute(POSTGRESQL)
    planned = recreated(
        source=postgresql_url, target=mysql_url, table="public.item", target_table=within(mysql_url)
    )
    assert [columns for _, columns in rows(mysql_url, KEYS)] == ["code,day", "n,day", "uid"]
    assert rows(mysql_url, "SELECT count(*) FROM item") == [(3,)]
    not_copied = {(item.kind, item.name) for item in planned.not_copied}
    assert not_copied == {
        ("unique constraints", "item_free_key (free)"),
        ("indexes", "item_later_key"),
        ("unique constraints", "item_long_one_key (long_one)"),
    }
    assert len(planned.warnings) == 2
    assert any("UNIQUE (`free`) is not created: " in warning for warning in planned.warnings)


@pytest.mark.parametrize("charset", ["latin1", "utf8mb4 COLLATE utf8mb4_unicode_ci"])
def test_texts_that_the_database_character_set_lacks(
    postgresql_url: str, mysql_url: str, charset: str
) -> None:
    """The created table can store them; if the database can, its collation is kept."""
    execute(mysql_url, f"ALTER DATABASE {within(mysql_url)[:-5]} CHARACTER SET {charset}")
    with psycopg.connect(postgresql_url) as source:
        source.execute("CREATE TABLE item (code varchar(20) PRIMARY KEY, note text)")
        source.execute("INSERT INTO item VALUES ('\U0001f600', '\U0001f600')")
    recreated(
        source=postgresql_url, target=mysql_url, table="public.item", target_table=within(mysql_url)
    )
    assert rows(mysql_url, "SELECT code, note FROM item") == [("\U0001f600", "\U0001f600")]
    collations = dict(
        rows(
            mysql_url,
            "SELECT column_name, collation_name FROM information_schema.columns"
            " WHERE table_schema = database() AND table_name = 'item'",
        )
    )
    assert collations["code"].endswith("_bin")
    assert (collations["note"] == "utf8mb4_unicode_ci") == ("unicode" in charset)


def within(url: str) -> str:
    return f"{url.rpartition('/')[2]}.item"


MYSQL = (
    "CREATE TABLE item (id bigint unsigned AUTO_INCREMENT PRIMARY KEY, code varchar(20) NOT NULL,"
    " n int, note text, size int AS (abs(n)), UNIQUE KEY (code, n),"
    " UNIQUE KEY beginning (note(10)), KEY (n))",
    "INSERT INTO item (code, n, note) VALUES ('a', 1, 'x'), ('b', NULL, 'y'), ('b', NULL, 'z')",
)
LEFT = {"beginning", "size: (abs(`n`))"}


def test_keys_to_postgresql(postgresql_url: str, mysql_url: str) -> None:
    execute(mysql_url, *MYSQL)
    planned = recreated(
        source=mysql_url, target=postgresql_url, table=within(mysql_url), target_table="public.item"
    )
    with psycopg.connect(postgresql_url) as target:
        found = target.execute(
            "SELECT contype::text, pg_get_constraintdef(oid) FROM pg_constraint"
            " WHERE conrelid = 'item'::regclass AND contype IN ('p', 'u') ORDER BY 1"
        ).fetchall()
        assert found == [("p", "PRIMARY KEY (id)"), ("u", "UNIQUE (code, n)")]
        assert target.execute("SELECT count(*) FROM item").fetchall() == [(3,)]
        added = "INSERT INTO item (code) VALUES ('c') RETURNING id"
        assert target.execute(added).fetchall() == [(4,)]
    assert {item.name for item in planned.not_copied} == LEFT


@pytest.fixture
def postgresql_url(target_server: Server) -> Iterator[str]:
    with fresh_database(target_server) as url:
        yield url


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "some.duckdb"


def test_keys_to_duckdb_and_back(mysql_url: str, file: Path) -> None:
    execute(mysql_url, *MYSQL)
    planned = recreated(
        source=mysql_url, target=f"duckdb:///{file}", table=within(mysql_url),
        target_table="main.item",
    )  # fmt: skip
    assert {item.name for item in planned.not_copied} == LEFT
    with closing(duckdb.connect(str(file))) as duckdb_target:
        found = duckdb_target.execute(
            "SELECT constraint_type, constraint_column_names FROM duckdb_constraints()"
            " WHERE table_name = 'item' AND constraint_type IN ('PRIMARY KEY', 'UNIQUE') ORDER BY 1"
        ).fetchall()
        assert found == [("PRIMARY KEY", ["id"]), ("UNIQUE", ["code", "n"])]
    planned = recreated(
        source=f"duckdb:///{file}", target=mysql_url, table="main.item",
        target_table=within(mysql_url),
    )  # fmt: skip
    assert [columns for _, columns in rows(mysql_url, KEYS)] == ["id", "n"]
    assert [item.name for item in planned.not_copied] == ["(code, n)"]
    (warning,) = (text for text in planned.warnings if "UNIQUE" in text)
    assert "UNIQUE (`code`, `n`) is not created: longtext does not distinguish all texts" in warning
    # The plan warned of this.
    recreated(
        source=f"duckdb:///{file}", target=mysql_url, table="main.item",
        target_table=within(mysql_url), types=("code=varchar(100) COLLATE utf8mb4_bin",),
    )  # fmt: skip
    assert [columns for _, columns in rows(mysql_url, KEYS)] == ["id", "code,n", "n"]
