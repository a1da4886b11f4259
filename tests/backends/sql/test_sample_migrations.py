"""Pagila and AdventureWorks, moved from PostgreSQL to MySQL or DuckDB and back, work afterwards."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pymysql
import pytest
from tests.conftest import fresh_database, fresh_mysql
from tests.faults.pair import execute as run_postgres

from penstock.events import BatchFinished
from penstock.model.tables import NotCopied
from penstock_testkit import AnyMysqlServer, Server

from ..mysql.mysql_pair import execute as run_mysql
from ..mysql.mysql_pair import rows as mysql_rows
from .test_database_migrations import HERE, ask, database_of, migrate, not_copied

PAGILA = ["public.*"]
SCHEMAS = ["person", "humanresources", "production", "purchasing", "sales"]
ADVENTUREWORKS = [f"{schema}.*" for schema in SCHEMAS]
LISTED = ", ".join(f"'{schema}'" for schema in SCHEMAS)

FILM = "INSERT INTO {}film (title, language_id, fulltext) VALUES ('New', 1, 'x')"
FILMS = "film_id, rental_duration, rental_rate, rating"
NEW_FILM = (51, 3, Decimal("4.99"), "G")
LINE = (
    "INSERT INTO {}salesorderdetail (salesorderid, productid, orderqty, unitprice, discount)"
    " VALUES ({}, 1, 4, 2.50, 0.10)"
)
KEYS = (
    "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND conparentid = 0 AND convalidated"
    " AND connamespace::regnamespace::text IN ({})"
)
THEIRS = (
    "SELECT count(*) FROM information_schema.referential_constraints WHERE constraint_schema = '{}'"
)


@pytest.fixture
def pagila(source_server: Server) -> Iterator[str]:
    with fresh_database(source_server) as url:
        run_postgres(url, (HERE / "postgresql/samples/pagila.sql").read_text())
        yield url


@pytest.fixture
def adventureworks(source_server: Server) -> Iterator[str]:
    with fresh_database(source_server) as url:
        run_postgres(url, (HERE / "postgresql/samples/adventureworks.sql").read_text())
        yield url


def kinds(items: Sequence[NotCopied]) -> dict[str, int]:
    return dict(Counter(item.kind for item in items))


def counts_of(url: str, *schemas: str) -> dict[str, int]:
    """Return the row count of each table that is not a partition."""
    listed = ", ".join(f"'{schema}'" for schema in schemas)
    tables = ask(
        url,
        "SELECT c.oid::regclass::text, c.relname FROM pg_class AS c WHERE c.relkind IN ('r', 'p')"
        f" AND NOT c.relispartition AND c.relnamespace::regnamespace::text IN ({listed})",
    )
    return {name: ask(url, f"SELECT count(*) FROM {table}")[0][0] for table, name in tables}


def refused(error: type[Exception], run: Callable[..., Any], url: str, *statements: str) -> None:
    for statement in statements:
        with pytest.raises(error):
            run(url, statement)


def test_pagila_works_in_mysql_and_comes_back(
    pagila: str, mysql_server: AnyMysqlServer, target_url: str
) -> None:
    counts = counts_of(pagila, "public")
    with fresh_mysql(mysql_server) as url:
        name = database_of(url)
        for _ in range(2):
            end = migrate(pagila, url, name, PAGILA, arrays="json")
        assert kinds(not_copied(end)) == {
            "triggers": 3, "indexes": 1, "foreign keys": 4, "partitioning": 1,
        }  # fmt: skip
        keys = [item.name for item in not_copied(end) if item.kind == "foreign keys"]
        assert all(" of public.payment_p2026_0" in key for key in keys), "those of partitions"
        assert kinds(end.not_copied) == {"functions": 4, "views": 2, "materialized views": 1}
        for table, count in counts.items():
            assert mysql_rows(url, f"SELECT count(*) FROM {table}") == [(count,)]
        ((created,),) = mysql_rows(url, THEIRS.format(name))
        assert [(created + len(keys),)] == ask(pagila, KEYS.format("'public'"))
        found = mysql_rows(url, "SELECT special_features FROM film WHERE film_id = 1")
        assert json.loads(found[0][0]) == ["Trailers", None, "it's 1"]
        # In the source, no column owns the sequences.
        run_mysql(url, FILM.format("").replace("fulltext", "`fulltext`"))
        assert mysql_rows(url, f"SELECT {FILMS} FROM film WHERE title = 'New'") == [NEW_FILM]
        payment = (
            "INSERT INTO payment (customer_id, staff_id, rental_id, amount, payment_date)"
            " VALUES (1, 1, 1, 999, '2026-01-02')"
        )
        run_mysql(url, payment)
        assert mysql_rows(url, "SELECT payment_id FROM payment WHERE amount = 999") == [(201,)]
        refused(
            pymysql.Error,
            run_mysql,
            url,
            "UPDATE film SET release_year = 1900",  # the domain's check
            "UPDATE film SET rating = 'X'",
            "UPDATE film SET language_id = 99",
            "UPDATE store SET manager_staff_id = 1",
            "DELETE FROM country",
        )
        run_mysql(
            url, "DELETE FROM film WHERE film_id = 51", "DELETE FROM payment WHERE amount = 999"
        )
        end = migrate(url, target_url, "back", [f"{name}.*"])
    # From the enum, which is a text in MySQL.
    assert [item.kind for item in not_copied(end)] == ["collations"]
    assert counts_of(target_url, "back") == counts
    assert ask(target_url, KEYS.format("'back'")) == [(created,)]
    assert ask(target_url, f"{FILM.format('back.')} RETURNING {FILMS}") == [(52, *NEW_FILM[1:])]
    refused(
        psycopg.Error,
        run_postgres,
        target_url,
        "UPDATE back.film SET release_year = 1900",
        "UPDATE back.film SET rating = 'X'",
        "UPDATE back.film SET language_id = 99",
        "UPDATE back.store SET manager_staff_id = 1",
    )


def test_pagila_works_in_duckdb_and_comes_back(
    pagila: str, target_url: str, tmp_path: Path
) -> None:
    counts, path = counts_of(pagila, "public"), tmp_path / "pagila.duckdb"
    for _ in range(2):
        end = migrate(pagila, f"duckdb:///{path}", "main", PAGILA)
    ((keys,),) = ask(pagila, KEYS.format("'public'"))
    assert kinds(not_copied(end)) == {
        "triggers": 3, "indexes": 1, "foreign keys": keys, "partitioning": 1,
    }  # fmt: skip
    with duckdb.connect(str(path)) as file:
        found = file.execute("SELECT special_features FROM film WHERE film_id = 1").fetchall()
        assert found == [(["Trailers", None, "it's 1"],)]
        assert file.execute(f"{FILM.format('')} RETURNING {FILMS}").fetchall() == [NEW_FILM]
        for statement in (
            "UPDATE film SET release_year = 1900",
            "UPDATE film SET rating = 'X'",
            "INSERT INTO store VALUES (3, 1, 1, now())",
        ):
            with pytest.raises(duckdb.Error):
                file.execute(statement)
        file.execute("DELETE FROM film WHERE film_id = 51")
    end = migrate(f"duckdb:///{path}", target_url, "back", ["main.*"])
    assert not_copied(end) == []
    assert counts_of(target_url, "back") == counts
    assert ask(target_url, f"{FILM.format('back.')} RETURNING {FILMS}") == [(52, *NEW_FILM[1:])]
    features = ask(target_url, "SELECT special_features FROM back.film WHERE film_id = 1")
    assert features == [(["Trailers", None, "it's 1"],)]
    refused(psycopg.Error, run_postgres, target_url, "UPDATE back.film SET release_year = 1900")


def without_form(end: BatchFinished) -> set[str]:
    """Return the parts that call the source's own functions or use unlimited numbers, which are
    texts elsewhere."""
    return {item.name.partition(":")[0] for item in not_copied(end) if item.kind != "foreign keys"}


def test_adventureworks_works_in_mysql_and_comes_back(
    adventureworks: str, mysql_server: AnyMysqlServer, target_url: str
) -> None:
    counts = counts_of(adventureworks, *SCHEMAS)
    with fresh_mysql(mysql_server) as url:
        name = database_of(url)
        end = migrate(adventureworks, url, name, ADVENTUREWORKS)
        assert without_form(end) == {
            "CK_Employee_BirthDate", "rowguid", "PK_Document (documentnode)",
            "CK_Product_ListPrice", "subtotal", "CK_SalesOrderHeader_SubTotal",
        }  # fmt: skip
        # Including those between schemas, which are one database here.
        assert mysql_rows(url, THEIRS.format(name)) == ask(adventureworks, KEYS.format(LISTED))
        run_mysql(url, LINE.format("", 1))
        lines = "SELECT salesorderdetailid, linetotal FROM salesorderdetail"
        assert mysql_rows(url, f"{lines} ORDER BY 1 DESC LIMIT 1") == [(301, Decimal("9.0000"))]
        refused(
            pymysql.Error,
            run_mysql,
            url,
            "UPDATE salesorderdetail SET orderqty = 0",
            "UPDATE vendor SET creditrating = 9",
            "UPDATE employee SET maritalstatus = 'x'",
            "UPDATE salesorderdetail SET productid = 0",
            "UPDATE salesorderdetail SET salesorderid = 1, salesorderdetailid = 1",
        )
        comments = (
            "SELECT table_comment FROM information_schema.tables"
            f" WHERE table_schema = '{name}' AND table_name = 'person'"
        )
        assert mysql_rows(url, comments) == [("everybody's name",)]
        run_mysql(url, "DELETE FROM salesorderdetail WHERE salesorderdetailid = 301")
        end = migrate(url, target_url, "back", [f"{name}.*"])
    # MariaDB adds a cast to its checks that has no equivalent.
    assert without_form(end) <= {
        "employee_CK_Employee_MaritalStatus",
        "person_CK_Person_PersonType",
    }
    assert counts_of(target_url, "back") == counts
    assert ask(target_url, KEYS.format("'back'")) == ask(adventureworks, KEYS.format(LISTED))
    line = f"{LINE.format('back.', 1)} RETURNING salesorderdetailid, linetotal"
    assert ask(target_url, line) == [(302, Decimal("9.0000"))]
    comment = "SELECT obj_description('back.person'::regclass)"
    assert ask(target_url, comment) == [("everybody's name",)]
    refused(
        psycopg.Error,
        run_postgres,
        target_url,
        "UPDATE back.vendor SET creditrating = 9",
        "UPDATE back.salesorderdetail SET productid = 0",
    )
    run_postgres(target_url, "DELETE FROM back.salesorderheader WHERE salesorderid = 1")
    deleted_rows = "SELECT count(*) FROM back.salesorderdetail WHERE salesorderid = 1"
    assert ask(target_url, deleted_rows) == [(0,)]


def test_adventureworks_works_in_duckdb_and_comes_back(
    adventureworks: str, target_url: str, tmp_path: Path
) -> None:
    counts, path = counts_of(adventureworks, *SCHEMAS), tmp_path / "works.duckdb"
    end = migrate(adventureworks, f"duckdb:///{path}", "main", ADVENTUREWORKS)
    # A computed column arrives with its values.
    assert without_form(end) == {
        "CK_Employee_BirthDate", "rowguid", "CK_Product_ListPrice", "linetotal", "subtotal",
        "CK_SalesOrderHeader_SubTotal",
    }  # fmt: skip
    assert [(kinds(not_copied(end))["foreign keys"],)] == ask(adventureworks, KEYS.format(LISTED))
    with duckdb.connect(str(path)) as file:
        found = file.execute(f"{LINE.format('', 1)} RETURNING salesorderdetailid").fetchall()
        assert found == [(301,)]
        for statement in (
            "UPDATE salesorderdetail SET orderqty = 0",
            "UPDATE vendor SET creditrating = 9",
            "INSERT INTO salesorderdetail (salesorderid, salesorderdetailid, productid, orderqty)"
            " VALUES (1, 301, 1, 1)",
        ):
            with pytest.raises(duckdb.ConstraintException):
                file.execute(statement)
        file.execute("DELETE FROM salesorderdetail WHERE salesorderdetailid = 301")
        comment = "SELECT comment FROM duckdb_tables() WHERE table_name = 'person'"
        assert file.execute(comment).fetchall() == [("everybody's name",)]
    end = migrate(f"duckdb:///{path}", target_url, "back", ["main.*"])
    assert not_copied(end) == []
    assert counts_of(target_url, "back") == counts
    line = f"{LINE.format('back.', 1)} RETURNING salesorderdetailid"
    assert ask(target_url, line) == [(302,)]
    refused(
        psycopg.errors.CheckViolation,
        run_postgres,
        target_url,
        "UPDATE back.vendor SET creditrating = 9",
        "UPDATE back.employee SET maritalstatus = 'x'",
    )
