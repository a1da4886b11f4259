"""Well-known sample databases, moved to another system, work afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pymysql
import pytest
from tests.conftest import fresh_database, fresh_mysql
from tests.faults.pair import execute as run_postgres

from penstock import BatchSpec, RunFailed, copy_all
from penstock.events import BatchFinished, Event, Failed, Verified
from penstock.model.tables import NotCopied
from penstock_testkit import AnyMysqlServer, Server

from ..mysql.mysql_pair import execute as run_mysql
from ..mysql.mysql_pair import rows as mysql_rows

HERE = Path(__file__).parents[1]


def statements(system: str, name: str) -> list[str]:
    text = (HERE / system / "samples" / f"{name}.sql").read_text(encoding="utf-8")
    return [each.strip() for each in text.split(";\n") if each.strip()]


def migrate(
    source: str, target: str, schema: str, tables: Sequence[str], **options: Any
) -> BatchFinished:
    arguments = {
        "source": source,
        "target": target,
        "tables": list(tables),
        "target_schema": schema,
        "mode": "recreate",
        "verify": "checksums",
        "degree": 2,
        **options,
    }
    seen: list[Event] = []
    try:
        for event in copy_all(BatchSpec.from_mapping(arguments, "test")):
            seen.append(event)
    except RunFailed as error:
        for event in seen:
            if isinstance(event, Failed) or (isinstance(event, Verified) and not event.ok):
                error.add_note(str(event))
            elif isinstance(event, BatchFinished):
                failed = [table for table in event.tables if table.status != "done"]
                error.add_note("\n".join(map(str, failed)))
        raise
    end = seen[-1]
    assert isinstance(end, BatchFinished)
    assert end.status == "done"
    return end


def not_copied(end: BatchFinished) -> list[NotCopied]:
    return [item for table in end.tables for item in table.not_copied]


def database_of(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


def ask(url: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(query).fetchall()


@pytest.fixture
def sakila(mysql_server: AnyMysqlServer) -> Iterator[str]:
    with fresh_mysql(mysql_server) as url:
        run_mysql(url, *statements("mysql", "sakila"))
        yield url


TABLES_THERE = (
    "SELECT relname FROM pg_class WHERE relkind = 'r'"
    " AND relnamespace = 'sakila'::regnamespace ORDER BY 1"
)
FOREIGN_KEYS = (
    "SELECT conname, confupdtype::text, confdeltype::text FROM pg_constraint"
    " WHERE contype = 'f' AND convalidated AND connamespace = 'sakila'::regnamespace ORDER BY 1"
)
THEIRS = (
    "SELECT constraint_name, update_rule, delete_rule"
    " FROM information_schema.referential_constraints WHERE constraint_schema = '{}' ORDER BY 1"
)
COUNTED = (
    "SELECT count(*) FROM pg_constraint WHERE contype = '{}'"
    " AND connamespace = 'public'::regnamespace"
)
RULES = {"CASCADE": "c", "SET NULL": "n", "RESTRICT": "r", "NO ACTION": "a"}


def test_sakila_works_in_postgresql(sakila: str, target_url: str) -> None:
    name = database_of(sakila)
    for _ in range(2):
        end = migrate(sakila, target_url, "sakila", [f"{name}.*"])
    assert len(ask(target_url, TABLES_THERE)) == 16
    assert {item.kind for item in not_copied(end)} == {
        "collations",
        "defaults on update",
        "indexes",
    }
    # Only the full-text index is missing.
    assert [i.name for i in not_copied(end) if i.kind == "indexes"] == ["idx_title_description"]
    theirs = mysql_rows(sakila, THEIRS.format(name))
    assert len(theirs) == 22
    # RESTRICT, which MySQL and MariaDB treat as the same.
    assert {(key, update) for key, update, _ in ask(target_url, FOREIGN_KEYS)} == {
        (key, RULES[update]) for key, update, _ in theirs
    }
    # The next row gets the next number, and every default.
    found = ask(
        target_url,
        "INSERT INTO sakila.film (title, language_id) VALUES ('Fourth', 1) RETURNING film_id,"
        " rental_duration, rental_rate, rating, now() - last_update < '1 minute'",
    )
    assert [(*row[:2], str(row[2]), str(row[3]), row[4]) for row in found] == [
        (4, 3, "4.99", "G", True)
    ]
    staff = (
        "INSERT INTO sakila.staff (first_name, last_name, address_id, store_id, username)"
        " VALUES ('A', 'B', 1, 1, 'c') RETURNING staff_id, active::int"
    )
    assert ask(target_url, staff) == [(3, 1)]
    for refused, why in (
        ("INSERT INTO sakila.film (title, language_id) VALUES ('x', 9)", "ForeignKeyViolation"),
        ("UPDATE sakila.film SET rating = 'X'", "CheckViolation"),
        ("UPDATE sakila.film SET rental_duration = -1", "CheckViolation"),
        ("UPDATE sakila.store SET manager_staff_id = 1", "UniqueViolation"),
        ("DELETE FROM sakila.country", "Error"),
    ):
        with pytest.raises(getattr(psycopg.errors, why)):
            run_postgres(target_url, refused)
    # Referring rows follow.
    run_postgres(target_url, "UPDATE sakila.country SET country_id = 7 WHERE country_id = 1")
    assert ask(target_url, "SELECT country_id FROM sakila.city ORDER BY city_id") == [(7,), (2,)]
    # It is found through its indexes.
    indexed = (
        "SELECT count(*) FROM pg_index WHERE indrelid = 'sakila.rental'::regclass AND indisvalid"
    )
    assert ask(target_url, indexed) == [(5,)]


def test_sakila_comes_back(sakila: str, target_url: str, mysql_server: AnyMysqlServer) -> None:
    """Through PostgreSQL, with its keys, defaults and numbers."""
    migrate(sakila, target_url, "sakila", [f"{database_of(sakila)}.*"])
    with fresh_mysql(mysql_server) as back:
        end = migrate(target_url, back, database_of(back), ["sakila.*"])
        assert "foreign keys" not in {item.kind for item in not_copied(end)}, not_copied(end)
        theirs = mysql_rows(back, THEIRS.format(database_of(back)))
        assert len(theirs) == 22
        for table in ("film", "staff", "payment", "language"):
            listed = mysql_rows(
                sakila,
                "SELECT group_concat(column_name ORDER BY ordinal_position) FROM"
                f" information_schema.columns WHERE table_schema = '{database_of(sakila)}'"
                f" AND table_name = '{table}' AND data_type NOT IN ('timestamp')",
            )[0][0]
            query = f"SELECT {listed} FROM {table} ORDER BY 1"
            plain = [[str(value) for value in row] for row in mysql_rows(sakila, query)]
            assert [[str(value) for value in row] for row in mysql_rows(back, query)] == plain
        run_mysql(back, "INSERT INTO film (title, language_id) VALUES ('Fourth', 1)")
        query = "SELECT film_id, rental_duration, rating FROM film WHERE title = 'Fourth'"
        assert mysql_rows(back, query) == [(4, 3, "G")]
        with pytest.raises(pymysql.err.IntegrityError):
            run_mysql(back, "INSERT INTO film (title, language_id) VALUES ('x', 9)")


def test_employees_work_in_postgresql(mysql_server: AnyMysqlServer, target_url: str) -> None:
    with fresh_mysql(mysql_server) as source:
        run_mysql(source, *statements("mysql", "employees"))
        end = migrate(source, target_url, "employees", [f"{database_of(source)}.*"])
    assert not_copied(end) == []
    assert len(ask(target_url, FOREIGN_KEYS.replace("sakila", "employees"))) == 6
    run_postgres(target_url, "DELETE FROM employees.employees WHERE emp_no = 10001")
    assert ask(target_url, "SELECT count(*) FROM employees.salaries") == [(1,)]
    with pytest.raises(psycopg.errors.CheckViolation):
        run_postgres(target_url, "UPDATE employees.employees SET gender = 'X'")


@pytest.mark.parametrize("name", ["chinook", "northwind"])
def test_into_mysql(source_server: Server, mysql_server: AnyMysqlServer, name: str) -> None:
    with fresh_database(source_server) as source, fresh_mysql(mysql_server) as target:
        run_postgres(source, (HERE / "postgresql/samples" / f"{name}.sql").read_text())
        end = migrate(source, target, database_of(target), ["public.*"])
        unmade = [item.kind for item in not_copied(end)]
        keys = ask(source, COUNTED.format("f"))
        theirs = mysql_rows(target, THEIRS.format(database_of(target)))
        assert [(len(theirs) + unmade.count("foreign keys"),)] == keys
        primary = (
            "SELECT count(*) FROM information_schema.table_constraints WHERE constraint_type ="
            f" 'PRIMARY KEY' AND table_schema = '{database_of(target)}'"
        )
        ((count,),) = mysql_rows(target, primary)
        assert [(count + unmade.count("primary keys"),)] == ask(source, COUNTED.format("p"))


@pytest.mark.parametrize("name", ["chinook", "northwind"])
def test_into_duckdb_and_back(
    source_server: Server, target_url: str, tmp_path: Path, name: str
) -> None:
    path = tmp_path / "moved.duckdb"
    with fresh_database(source_server) as source:
        run_postgres(source, (HERE / "postgresql/samples" / f"{name}.sql").read_text())
        migrate(source, f"duckdb:///{path}", "main", ["public.*"])
        tables = [table for (table,) in ask(source, TABLES_THERE.replace("sakila", "public"))]
        with duckdb.connect(str(path), read_only=True) as file:
            keys = file.execute(
                "SELECT count(*) FROM duckdb_constraints() WHERE constraint_type = 'PRIMARY KEY'"
                " AND schema_name = 'main'"
            ).fetchall()
        assert keys == [(len(tables) - (name == "northwind") * 0,)]
        migrate(f"duckdb:///{path}", target_url, "public", ["main.*"])
        for table in tables:
            query = f'SELECT count(*) FROM "{table}"'
            assert ask(target_url, query) == ask(source, query)
