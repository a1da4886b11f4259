"""A table moved to another system: its types, defaults, checks, computed columns, and next
number."""

from __future__ import annotations

import json
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import duckdb
import psycopg
import pymysql
import pytest

from penstock import CopySpec, PlanningError, copy
from penstock.events import Committed, Finished, Planned
from penstock.model.tables import Column
from penstock.planning.target_table import requested_types
from penstock_testkit import AnyMysqlServer
from penstock_testkit.mysql import connect_mysql

FILM = """
    CREATE TABLE film (
        film_id int unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY,
        title varchar(255) NOT NULL, code char(4) DEFAULT 'it''s', plot text,
        release_year year DEFAULT 2001, days tinyint unsigned NOT NULL DEFAULT 3,
        rate decimal(4, 2) NOT NULL DEFAULT 4.99, rating enum('G', 'PG') DEFAULT 'G',
        features set('Trailers', 'Scenes'), attrs json, active tinyint(1) NOT NULL DEFAULT 1,
        flags bit(3) DEFAULT b'101', made_on date DEFAULT (curdate()),
        total decimal(8, 2) AS (rate * days + 1) STORED, label varchar(300) AS
        (concat(code, '-', title)) VIRTUAL, loud varchar(255) AS (upper(title)) STORED,
        KEY (rating, title(20)), CONSTRAINT rated CHECK (rate * 2 < 100 AND title LIKE '%_'),
        CONSTRAINT long_enough CHECK (char_length(title) > 1)
    ) ENGINE = InnoDB CHARACTER SET utf8mb4 COMMENT = 'it''s'
"""
FILMS = """
    INSERT INTO film (title, plot, features, attrs, flags) VALUES
        ('A 1', 'x', 'Trailers,Scenes', '{"b": 1, "a": [1.50, null]}', b'110'),
        ('Ümlaut 😀', NULL, NULL, NULL, NULL)
"""
PAGILA = """
    CREATE TYPE mpaa AS ENUM ('G', 'PG', 'it''s');
    CREATE TABLE film (
        film_id serial PRIMARY KEY, title varchar(255) NOT NULL, code varchar(10) DEFAULT 'x',
        plot text DEFAULT E'a\\\\b', rate numeric(4, 2) NOT NULL DEFAULT 4.99,
        release_year integer CHECK (release_year BETWEEN 1901 AND 2155),
        rating mpaa DEFAULT 'PG', attrs jsonb DEFAULT '{}',
        active boolean NOT NULL DEFAULT true, made_on date DEFAULT CURRENT_DATE,
        uid uuid DEFAULT gen_random_uuid(), count integer DEFAULT (2 * 3),
        total numeric(8, 2) GENERATED ALWAYS AS (rate * 2 + 1) STORED,
        label text GENERATED ALWAYS AS (code || '-' || title) STORED,
        loud text GENERATED ALWAYS AS (upper(title)) STORED,
        CONSTRAINT coded CHECK (code LIKE 'x%'),
        CHECK (coalesce(count, 0) >= 0 AND length(title) > 1)
    );
    INSERT INTO film (title, release_year, attrs, rating)
        VALUES ('A 1', 2000, '{"a": 1}', 'it''s'), ('Ümlaut 😀', NULL, NULL, NULL);
    SELECT setval('film_film_id_seq', 40)
"""


def migrate(source: str, target: str, table: str, **options: Any) -> tuple[Planned, Finished]:
    spec = CopySpec(
        source=source, target=target, table="film", target_table=table, mode="recreate",
        verify="checksums", **options,
    )  # fmt: skip
    events = list(copy(spec))
    (planned,) = (event for event in events if isinstance(event, Planned))
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert finished.status == "done"
    return planned, finished


def not_copied(finished: Finished) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for item in finished.not_copied:
        found.setdefault(item.kind, []).append(item.name.partition(":")[0])
    return found


@pytest.fixture
def films(mysql_url: str) -> str:
    with closing(connect_mysql(mysql_url)) as connection, connection.cursor() as cursor:
        cursor.execute(FILM)
        cursor.execute(FILMS)
        cursor.execute("ALTER TABLE film AUTO_INCREMENT = 41")
    return mysql_url


def test_from_mysql_into_postgresql(films: str, target_url: str) -> None:
    planned, finished = migrate(films, target_url, "public.film")
    assert not_copied(finished) == {"generated columns": ["loud"]}
    (warning,) = [text for text in planned.warnings if "into" in text]
    assert warning.startswith("attrs ("), "a varchar is no reason to warn"
    with psycopg.connect(target_url, autocommit=True) as connection:
        types = connection.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
            " WHERE attrelid = 'film'::regclass AND attnum > 0"
        ).fetchall()
        assert dict(types) == {
            "film_id": "bigint", "title": "character varying(255)", "code": "character varying(4)",
            "plot": "text", "release_year": "smallint", "days": "smallint", "rate": "numeric(4,2)",
            "rating": "text", "features": "text", "attrs": "jsonb", "active": "smallint",
            "flags": "smallint", "made_on": "date", "total": "numeric(8,2)",
            "label": "character varying(300)", "loud": "character varying(255)",
        }  # fmt: skip
        new = "INSERT INTO film (title{0}) VALUES ('C 3'{1}) RETURNING film_id, total, label, flags"
        assert connection.execute(new.format("", "")).fetchone() == (
            41, Decimal("15.97"), "it's-C 3", 5,
        )  # fmt: skip
        for refused in (("rating", "'R'"), ("days", "-1"), ("rate", "60"), ("flags", "-1")):
            with pytest.raises(psycopg.errors.CheckViolation):
                connection.execute(new.format(*(f", {each}" for each in refused)))
        for short in ("x", ""):
            with pytest.raises(psycopg.errors.CheckViolation):
                connection.execute("INSERT INTO film (title) VALUES (%s)", [short])
        remaining = connection.execute(
            "SELECT attrs -> 'a', features, release_year, active, made_on = current_date, flags"
            " FROM film WHERE film_id = 1"
        )
        assert remaining.fetchone() == ([1.5, None], "Trailers,Scenes", 2001, 1, True, 6)


def test_booleans_on_request(films: str, target_url: str) -> None:
    migrate(f"{films}?tinyint1=bool", target_url, "public.film")
    with psycopg.connect(target_url, autocommit=True) as connection:
        row = connection.execute("INSERT INTO film (title) VALUES ('C 3') RETURNING active")
        assert row.fetchone() == (True,)


def test_requested_computed_columns_are_copied(films: str, target_url: str) -> None:
    columns = ("film_id", "title", "total")
    _, finished = migrate(films, target_url, "public.film", columns=columns)
    assert not_copied(finished)["generated columns"] == ["total"]
    with psycopg.connect(target_url) as connection:
        assert connection.execute("SELECT DISTINCT total FROM film").fetchall() == [
            (Decimal("15.97"),)
        ]


def test_from_postgresql_into_mysql(source_url: str, mysql_url: str) -> None:
    with psycopg.connect(source_url, autocommit=True) as connection:
        connection.execute(PAGILA)
    schema = urlsplit(mysql_url).path[1:]
    _, finished = migrate(source_url, mysql_url, f"{schema}.film")
    assert not_copied(finished) == {"generated columns": ["loud"]}
    with closing(connect_mysql(mysql_url)) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW CREATE TABLE film")
        created = cursor.fetchone()[1]
        for part in (
            "`title` varchar(255) NOT NULL", "`code` varchar(10)", "enum('G','PG','it''s')",
            "`plot` longtext",
        ):  # fmt: skip
            assert part in created
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute("INSERT INTO film (title) VALUES ('C 3')")
        cursor.execute(
            "SELECT film_id, code, plot, rating, attrs, active, count, total, label,"
            " made_on = curdate(), char_length(uid) FROM film ORDER BY film_id DESC LIMIT 1"
        )
        assert cursor.fetchone() == (
            41, "x", "a\\b", "PG", "{}", 1, 6, Decimal("10.98"), "x-C 3", 1, 36,
        )  # fmt: skip
        for name, value in (
            ("code", "'X'"), ("rating", "'R'"), ("count", "-1"), ("release_year", "1900"),
        ):  # fmt: skip
            with pytest.raises(pymysql.Error):
                cursor.execute(f"INSERT INTO film (title, {name}) VALUES ('C 3', {value})")


def test_from_postgresql_into_duckdb(source_url: str, tmp_path: Path) -> None:
    with psycopg.connect(source_url, autocommit=True) as connection:
        connection.execute(PAGILA)
    path = tmp_path / "target.duckdb"
    for _ in range(2):  # a recreated table keeps the sequence of the first one
        migrate(source_url, f"duckdb:///{path}", "main.film")
    with duckdb.connect(str(path)) as created:
        types = dict(
            created.execute("SELECT column_name, column_type FROM (DESCRIBE film)").fetchall()
        )
        assert (types["rating"], types["attrs"]) == ("ENUM('G', 'PG', 'it''s')", "JSON")
        found = created.execute(
            "INSERT INTO film (title, total) VALUES ('C 3', 1)"
            " RETURNING film_id, rating, attrs, count, made_on = current_date, uid IS NOT NULL"
        )
        assert found.fetchone() == (41, "PG", "{}", 6, True, True)


def test_a_row_too_long_with_its_texts(source_url: str, mysql_url: str) -> None:
    """The shorter texts keep their lengths."""
    with psycopg.connect(source_url, autocommit=True) as connection:
        listed = ", ".join(f"c{place} varchar({50 + 4 * place})" for place in range(100))
        connection.execute(f"CREATE TABLE film (id int PRIMARY KEY, {listed}, big varchar(20000))")
        connection.execute("INSERT INTO film (id, c0, big) VALUES (1, 'x', repeat('y', 20000))")
    migrate(source_url, mysql_url, f"{urlsplit(mysql_url).path[1:]}.film")
    with closing(connect_mysql(mysql_url)) as target, target.cursor() as cursor:
        cursor.execute("SHOW CREATE TABLE film")
        created = cursor.fetchone()[1]
    assert "`c0` varchar(50)" in created
    assert "`c99` longtext" in created
    assert "`big` longtext" in created


ARRAYS = """
    CREATE TABLE film (
        id int PRIMARY KEY, tags text[] DEFAULT '{}', sizes int[] NOT NULL, grid int[],
        prices numeric(5, 2)[], seen timestamptz[], paid_at timestamp, CHECK (tags <> '{}')
    );
    INSERT INTO film VALUES
        (1, ARRAY['it''s "ü"', NULL, ''], '{1,2}', '{1}', '{1.50,NULL}', '{2020-01-01 00:00:00+00}',
         '2020-01-01'),
        (2, NULL, '{}', NULL, NULL, NULL, NULL)
"""


def test_arrays_into_a_system_without_arrays(source_url: str, mysql_url: str) -> None:
    with psycopg.connect(source_url, autocommit=True) as connection:
        connection.execute(ARRAYS)
    table = f"{urlsplit(mysql_url).path[1:]}.film"
    with pytest.raises(PlanningError, match=r"tags, sizes, grid, prices, seen.*--arrays json"):
        migrate(source_url, mysql_url, table)
    with closing(connect_mysql(mysql_url)) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW TABLES LIKE 'film'")
        assert not cursor.fetchall(), "nothing is made"
        planned, finished = migrate(
            source_url,
            mysql_url,
            table,
            arrays="json",
            types=("source:timestamp without time zone=datetime(3)",),
        )
        assert not_copied(finished) == {
            "check constraints": ["film_tags_check"],
            "defaults": ["tags"],
        }
        assert any("arrays are written as JSON" in text for text in planned.warnings)
        cursor.execute("SELECT tags, sizes, grid, prices, seen FROM film ORDER BY id")
        first, second = cursor.fetchall()
        assert [json.loads(text) for text in first] == [
            ["it's \"ü\"", None, ""], [1, 2], [1], [1.5, None], ["2020-01-01T00:00:00+00:00"],
        ]  # fmt: skip
        assert second == (None, "[]", None, None, None)
        cursor.execute("SHOW COLUMNS FROM film LIKE 'paid_at'")
        assert cursor.fetchone()[1] == "datetime(3)"


def test_types_are_chosen_by_rules() -> None:
    columns = [Column("id", "int"), Column("a", "tinyint(1)"), Column("made_at", "datetime(6)")]
    rules = {"source:tinyint(1)": "boolean", "*_at": "timestamptz", "id": "bigint"}
    assert requested_types(rules, columns) == {
        "a": "boolean", "made_at": "timestamptz", "id": "bigint",
    }  # fmt: skip
    assert requested_types({"*": "text", "a": "boolean"}, columns)["a"] == "boolean"
    assert requested_types({"source:DATETIME": "date", "*": "text"}, columns)["made_at"] == "date"


def interrupted(source: str, target: str, table: str) -> None:
    """Interrupt a run when its rows have arrived, and resume it."""
    spec = CopySpec(
        source=source, target=target, table="film", target_table=table, mode="recreate",
        run_id="resumed", on_snapshot_lost="accept",
    )  # fmt: skip
    events = copy(spec)
    while not isinstance(next(events), Committed):
        pass
    events.close()
    finished = list(copy(spec))[-1]
    assert isinstance(finished, Finished)
    assert finished.status == "done"


def test_the_next_number_after_a_resume(
    films: str, source_url: str, target_url: str, tmp_path: Path, mysql_server: AnyMysqlServer
) -> None:
    interrupted(films, target_url, "public.film")
    with psycopg.connect(target_url, autocommit=True) as connection:
        row = connection.execute("INSERT INTO film (title) VALUES ('C 3') RETURNING film_id")
        assert row.fetchone() == (41,)
    with psycopg.connect(source_url, autocommit=True) as connection:
        connection.execute(PAGILA)
    path = tmp_path / "target.duckdb"
    interrupted(source_url, f"duckdb:///{path}", "main.film")
    with duckdb.connect(str(path)) as created:
        inserted = created.execute("INSERT INTO film (title) VALUES ('C 3') RETURNING film_id")
        assert inserted.fetchone() == (41,)
    with mysql_server.new_database() as url:
        interrupted(source_url, url, f"{urlsplit(url).path[1:]}.film")
        with closing(connect_mysql(url)) as target, target.cursor() as cursor:
            cursor.execute("INSERT INTO film (title) VALUES ('C 3')")
            assert cursor.lastrowid == 41


def test_from_duckdb_into_postgresql(tmp_path: Path, target_url: str) -> None:
    path = tmp_path / "source.duckdb"
    with duckdb.connect(str(path)) as created:
        created.execute("CREATE SEQUENCE numbers START 5 INCREMENT 2")
        created.execute('CREATE SEQUENCE "q\'s"')
        created.execute(
            "CREATE TABLE film (film_id INTEGER DEFAULT nextval('numbers') PRIMARY KEY,"
            " other BIGINT DEFAULT nextval('\"q''s\"'), title VARCHAR DEFAULT 'it''s',"
            " made_on DATE DEFAULT current_date, count INTEGER DEFAULT (1 + 2),"
            " rating ENUM('G', 'PG') DEFAULT 'G', attrs JSON, tags VARCHAR[],"
            " CHECK (count > 0 AND (title LIKE 'i%' OR length(title) < 5)),"
            " twice INTEGER GENERATED ALWAYS AS (count * 2))"
        )
        created.execute("INSERT INTO film (count, tags) VALUES (1, ['a']), (2, NULL)")
    _, finished = migrate(f"duckdb:///{path}", target_url, "public.film")
    assert not_copied(finished) == {}
    with psycopg.connect(target_url, autocommit=True) as connection:
        row = connection.execute("INSERT INTO film DEFAULT VALUES RETURNING *")
        found = row.fetchone()
        assert found is not None
        assert (*found[:3], *found[4:]) == (9, 3, "it's", 3, "G", None, None, 6)
        for refused in ("(rating) VALUES ('R')", "(count) VALUES (0)", "(title) VALUES ('other')"):
            with pytest.raises(psycopg.errors.CheckViolation):
                connection.execute(f"INSERT INTO film {refused}")
