"""The file that `penstock init` writes can be copied without changes, night after night."""

from __future__ import annotations

import re
import tomllib
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from tests.conftest import fresh_clickhouse

from penstock import batch_of_file, copy_all
from penstock.cli.main import main
from penstock.events import BatchFinished, Merged
from penstock_testkit import connect_clickhouse

from ..mysql.mysql_pair import execute as run_mysql
from ..mysql.mysql_pair import rows as mysql_rows
from ..postgresql.test_sample_databases import filled
from .test_database_migrations import ask, database_of, sakila

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

__all__ = ["sakila"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "penstock.toml"


def init(file: Path, source: str, target: str, monkeypatch: pytest.MonkeyPatch, *more: str) -> str:
    monkeypatch.setenv("SHOP", source)
    monkeypatch.setenv("WAREHOUSE", target)
    words = ("init", str(file), "--source", "env:SHOP", "--target", "env:WAREHOUSE", *more)
    assert main(words) == 0
    return file.read_text(encoding="utf-8")


def sections(text: str) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(text)["tables"]
    return found


def night(file: Path, **overrides: Any) -> dict[str, tuple[int, int, int]]:
    """Return the rows inserted, updated and deleted, for each table that changed."""
    events = list(copy_all(batch_of_file(str(file), {"degree": 2, **overrides})))
    end = events[-1]
    assert isinstance(end, BatchFinished)
    names = {table.run_id: table.table.rpartition(".")[2] for table in end.tables}
    return {
        names[event.run_id]: changed
        for event in events
        if isinstance(event, Merged)
        and any(changed := (event.inserted, event.updated, event.deleted))
    }


def test_pagila_is_copied_nightly(pair: Pair, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(pair.source, "pagila")
    pair.source.run("ANALYZE")
    text = init(file, pair.source.url, pair.target.url, monkeypatch)
    found = sections(text)
    assert len(found) == 15
    assert not any(found.values()), "all are like the most"
    assert tomllib.loads(text)["defaults"] == {
        "mode": "upsert",
        "incremental": "xmin",
        "deletes": "hard",
    }
    assert re.search(r'# about 40 rows; primary key actor_id\n\[tables\."public\.actor"\]', text)
    # Views are offered for selection.
    assert '# [tables."public.rental_by_category"]\n# mode = "truncate"\n' in text
    assert len(night(file)) == 15
    pair.source.run(
        "UPDATE actor SET last_name = 'NIGHT' WHERE actor_id = 1",
        "DELETE FROM film_category WHERE film_id <= 2",
        "INSERT INTO category (name) VALUES ('Night')",
    )
    deleted = 2
    assert night(file) == {
        "actor": (0, 1, 0),
        "film_category": (0, 0, deleted),
        "category": (1, 0, 0),
    }
    for table in found:
        pair.assert_same(table)


def test_pagila_into_duckdb(
    pair: Pair, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(pair.source, "pagila")
    aim = tmp_path / "pagila.duckdb"
    few = ("--tables", "public.film*", "public.a*", "--exclude", "film_category")
    assert len(sections(init(file, pair.source.url, f"duckdb:///{aim}", monkeypatch, *few))) == 4
    night(file)
    pair.source.run("DELETE FROM film_actor WHERE actor_id = 1")
    remaining = pair.source.count("public.film_actor")
    assert [*night(file)] == ["film_actor"]
    with duckdb.connect(str(aim)) as target:
        assert target.sql("SELECT count(*) FROM public.film_actor").fetchall() == [(remaining,)]


def test_sakila_into_postgresql(
    sakila: str, target_url: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = database_of(sakila)
    text = init(file, sakila, target_url, monkeypatch)
    assert "MySQL has no row versions: all rows are read every time" in text
    assert tomllib.loads(text)["defaults"] == {
        "mode": "upsert",
        "atomic": "table",
        "deletes": "hard",
    }
    words = text.replace("\n# ", " ")
    assert "last_update (timestamp, without an index) may say when a row has changed" in words
    assert '# incremental = "last_update"\n# lookback = "1h"\n' in text
    night(file, target_schema="sakila", create=True)
    assert night(file, target_schema="sakila", create=True) == {}
    run_mysql(
        sakila,
        "DELETE FROM film_actor WHERE actor_id = 1",
        "UPDATE actor SET last_name = 'NIGHT' WHERE actor_id = 1",
    )
    changed = night(file, target_schema="sakila", create=True)
    assert changed["actor"] == (0, 1, 0)
    assert changed["film_actor"][2] > 0
    target_rows = ask(target_url, "SELECT actor_id, film_id FROM sakila.film_actor ORDER BY 1, 2")
    assert [tuple(map(int, row)) for row in target_rows] == [
        tuple(map(int, row))
        for row in mysql_rows(
            sakila, f"SELECT actor_id, film_id FROM {name}.film_actor ORDER BY 1, 2"
        )
    ]


def test_a_column_instead_of_all_rows(
    sakila: str, target_url: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user who knows that a column shows changes uncomments its line."""
    few = ("--tables", "actor", "film_actor")
    text = init(file, sakila, target_url, monkeypatch, *few)
    file.write_text(re.sub(r"^# (incremental|lookback) =", r"\1 =", text, flags=re.MULTILINE))
    night(file, target_schema="sakila", create=True)
    run_mysql(
        sakila,
        "DELETE FROM film_actor WHERE actor_id = 1",
        "UPDATE actor SET last_name = 'NIGHT', last_update = now() WHERE actor_id = 1",
    )
    changed = night(file, target_schema="sakila", create=True)
    assert changed["actor"] == (0, 1, 0)
    assert changed["film_actor"][2] > 0


def test_tables_of_every_kind(pair: Pair, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.source.run(
        "CREATE TABLE keyed (id int PRIMARY KEY, v text)",
        "CREATE TABLE uniquely (a int NOT NULL, b int NOT NULL, UNIQUE (a, b))",
        "CREATE TABLE unsure (a int UNIQUE)",
        "CREATE TABLE keyless (v text)",
        'CREATE TABLE "odd.name*[x] \'""é" (id int PRIMARY KEY)',
        "INSERT INTO keyed VALUES (1, 'a')",
        "INSERT INTO uniquely VALUES (1, 2), (3, 4)",
        "INSERT INTO unsure VALUES (1), (NULL)",
        "INSERT INTO keyless VALUES ('a'), ('a')",
        'INSERT INTO "odd.name*[x] \'""é" VALUES (1)',
    )
    text = init(file, pair.source.url, pair.target.url, monkeypatch)
    found = sections(text)
    assert found.pop("public.keyed") == {}
    assert found.pop("public.uniquely") == {"conflict-columns": ["a", "b"]}
    assert found.pop("public.unsure") == {"mode": "truncate"}
    assert found.pop("public.keyless") == {"mode": "truncate"}
    assert [*found.values()] == [{}]
    assert "no unique key without NULLs; rows cannot be identified: all are loaded" in text
    pair.target.run("CREATE TABLE unsure (a int)", "CREATE TABLE keyless (v text)")
    for _ in range(2):
        night(file)
        assert pair.target.rows("SELECT * FROM keyless") == [("a",)] * 2
        assert pair.target.rows("SELECT * FROM uniquely ORDER BY 1") == [(1, 2), (3, 4)]
        assert pair.target.rows('SELECT * FROM "odd.name*[x] \'""é"') == [(1,)]


def test_options_that_the_target_lacks_are_not_suggested(
    pair: Pair, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.source.run("CREATE TABLE keyed (id int PRIMARY KEY, v text)")
    text = init(file, pair.source.url, "clickhouse://nowhere.invalid/db", monkeypatch)
    assert "ClickHouse as a target cannot merge changes" in text
    assert tomllib.loads(text)["defaults"]["mode"] == "truncate"


def test_an_existing_file_is_kept(
    pair: Pair, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair.source.run("CREATE TABLE keyed (id int PRIMARY KEY)")
    file.write_text("mine", encoding="utf-8")
    words = ["init", str(file), "--source", pair.source.url]
    assert main(words) == 64
    assert "already exists; pass --force to overwrite it" in capsys.readouterr().err
    assert file.read_text(encoding="utf-8") == "mine"
    assert main([*words, "--force"]) == 0
    assert f"penstock copy-all {file}" in file.read_text(encoding="utf-8")
    assert 'target = "env:TARGET"' in file.read_text(encoding="utf-8")
    assert f"1 table; next: penstock plan-all {file}" in capsys.readouterr().err


def test_secrets_are_not_written_to_the_file(
    pair: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    pair.source.run("CREATE TABLE keyed (id int PRIMARY KEY)")
    url = pair.source.url.replace("postgres@", "postgres:s3cret@")
    assert main(["init", "-", "--source", url]) == 0
    shown = capsys.readouterr()
    assert 'source = "env:SOURCE"' in shown.out
    assert "s3cret" not in shown.out + shown.err
    assert "set SOURCE to the URL" in shown.err


def test_a_source_without_tables(
    pair: Pair, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", str(file), "--source", pair.source.url, "--tables", "nothing.*"]) == 64
    assert "--tables: nothing.* matches no table of the source" in capsys.readouterr().err
    assert main(["init", str(file), "--source", "./somewhere/"]) == 64
    assert "--source: copying many tables needs a database" in capsys.readouterr().err
    assert not file.exists()


def test_from_duckdb(
    target_url: str, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = tmp_path / "shop.duckdb"
    with duckdb.connect(str(shop)) as source:
        source.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, updated_at TIMESTAMP)")
        source.execute("INSERT INTO orders SELECT i, now()::TIMESTAMP FROM range(100) t (i)")
        source.execute("CREATE TABLE words (word VARCHAR)")
        source.execute("INSERT INTO words VALUES ('a'), ('a')")
        source.execute("CREATE VIEW few AS SELECT * FROM orders WHERE id < 5")
    text = init(file, f"duckdb:///{shop}", target_url, monkeypatch)
    assert sections(text) == {"main.orders": {}, "main.words": {"mode": "truncate"}}
    assert "updated_at (TIMESTAMP, may be NULL, without an index) may say" in text
    assert '# [tables."main.few"]' in text
    run = {"target_schema": "public"}
    assert night(file, **run) == {"orders": (100, 0, 0)}
    with duckdb.connect(str(shop)) as source:
        source.execute("DELETE FROM orders WHERE id < 10")
    assert night(file, **run) == {"orders": (0, 0, 10)}
    assert ask(target_url, "SELECT count(*), min(id) FROM orders") == [(90, 10)]
    assert ask(target_url, "SELECT word FROM words") == [("a",), ("a",)]


def test_from_clickhouse(
    clickhouse_server: str, target_url: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        fresh_clickhouse(clickhouse_server, "shop") as url,
        closing(connect_clickhouse(url)) as client,
    ):
        client.command("CREATE TABLE visits (id Int64, page String) ORDER BY id")
        client.command("INSERT INTO visits VALUES (1, 'a'), (1, 'a')")
        text = init(file, url, target_url, monkeypatch)
        # A sorting key is not a unique key.
        assert [*sections(text)] == ["shop.visits"]
        assert tomllib.loads(text)["defaults"] == {"mode": "truncate", "snapshot": "none"}
        night(file, target_schema="public")
        night(file, target_schema="public")
        assert ask(target_url, "SELECT id, page FROM visits") == [(1, "a")] * 2
