"""An interrupted `--data-only` load: which foreign keys are missing, and how they are restored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.cli import run_cli
from tests.conftest import fresh_database, fresh_mysql

from penstock_testkit import AnyMysqlServer, Server

from ..mysql.mysql_pair import execute as run_mysql
from ..mysql.mysql_pair import rows
from .test_schema_and_data import TABLES, request

RESTORES = "foreign keys that are dropped until the run is resumed, which restores them"


class Target:
    def __init__(self, url: str) -> None:
        self.url = url
        self.is_mysql = url.startswith("mysql")
        self.schema = url.partition("?")[0].rpartition("/")[2] if self.is_mysql else "public"

    def run(self, *statements: str) -> None:
        if self.is_mysql:
            run_mysql(self.url, *statements)
            return
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def keys(self) -> list[str]:
        query = (
            "SELECT constraint_name FROM information_schema.table_constraints"
            f" WHERE constraint_type = 'FOREIGN KEY' AND table_schema = '{self.schema}' ORDER BY 1"
        )
        if self.is_mysql:
            return [name for (name,) in rows(self.url, query)]
        with psycopg.connect(self.url) as connection:
            return [name for (name,) in connection.execute(query).fetchall()]


@pytest.fixture(params=["postgresql", "mysql"])
def target(
    request: pytest.FixtureRequest, target_server: Server, mysql_server: AnyMysqlServer
) -> Iterator[Target]:
    if request.param == "mysql":
        with fresh_mysql(mysql_server) as url:
            yield Target(url)
    else:
        with fresh_database(target_server) as url:
            yield Target(url)


@pytest.fixture
def shop(source_server: Server) -> Iterator[str]:
    """A source in PostgreSQL, so that one target is of the same system and one is not."""
    with fresh_database(source_server) as url, psycopg.connect(url, autocommit=True) as connection:
        for statement in TABLES:
            plain = statement.replace("int AUTO_INCREMENT", "serial").partition(" ENGINE")[0]
            connection.execute(plain.replace(", KEY by_mentor (mentor)", ""))
        yield url


def of(target: Target, run_id: str, *options: str) -> dict[str, Any]:
    done = run_cli("status", run_id, "--target", target.url, "--json", *options)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_missing_keys_are_named_and_restored(shop: str, target: Target) -> None:
    arguments = request(shop, target.url, target.schema)
    assert run_cli("copy-all", *arguments, "--schema-only").returncode == 0
    keys = target.keys()
    assert len(keys) == 2
    target.run("ALTER TABLE author ADD CONSTRAINT few CHECK (name <> 'Bob')")
    command = (*arguments, "--data-only", "--mode", "truncate", "--run-id", "night")
    failed = run_cli("copy-all", *command)
    assert failed.returncode == 65
    missing = sorted({*keys}.difference(target.keys()))
    assert missing
    output = failed.stdout + failed.stderr
    assert RESTORES in output
    for key in missing:
        assert key in failed.stderr.rpartition(RESTORES)[2]
    # The batch, and the run of the table for which they were dropped.
    found = of(target, "night")
    assert {item["name"] for item in found["unrestored"]} == set(missing)
    assert all(item["remedy"].startswith("ALTER TABLE") for item in found["unrestored"])
    undone = [entry["run_id"] for entry in found["runs"] if entry["status"] != "done"]
    ofs = [item["name"] for run_id in undone for item in of(target, run_id)["unrestored"]]
    assert set(ofs) == set(missing)
    shown = run_cli("status", "night", "--target", target.url).stdout
    assert RESTORES in shown
    assert all(item["remedy"] in shown for item in found["unrestored"])
    # The table is not altered, because a run does not continue with an altered one.
    with psycopg.connect(shop, autocommit=True) as connection:
        connection.execute("UPDATE author SET name = 'Rob' WHERE name = 'Bob'")
    resumed = run_cli("resume", "night", "--source", shop, "--target", target.url)
    assert resumed.returncode == 0, resumed.stderr
    assert target.keys() == keys
    assert of(target, "night")["unrestored"] == []
    assert RESTORES not in run_cli("status", "night", "--target", target.url).stdout


def test_the_statements_restore_them(shop: str, target: Target) -> None:
    arguments = request(shop, target.url, target.schema)
    assert run_cli("copy-all", *arguments, "--schema-only").returncode == 0
    keys = target.keys()
    target.run("ALTER TABLE author ADD CONSTRAINT few CHECK (name <> 'Bob')")
    command = (*arguments, "--data-only", "--mode", "truncate", "--run-id", "night")
    assert run_cli("copy-all", *command).returncode == 65
    target.run("DELETE FROM article")  # it refers to missing rows
    target.run(*(item["remedy"].rstrip(";") for item in of(target, "night")["unrestored"]))
    assert target.keys() == keys
    assert of(target, "night")["unrestored"] == []


def test_another_load_restores_them_or_reports_them(shop: str, target: Target) -> None:
    arguments = request(shop, target.url, target.schema)
    assert run_cli("copy-all", *arguments, "--schema-only").returncode == 0
    keys = target.keys()
    target.run("ALTER TABLE author ADD CONSTRAINT few CHECK (name <> 'Bob')")
    assert run_cli("copy-all", *arguments, "--data-only", "--run-id", "night").returncode == 65
    missing = {*keys}.difference(target.keys())
    assert missing
    target.run("ALTER TABLE author DROP CONSTRAINT few")
    # A load of another kind reports them...
    planned = run_cli("plan-all", *arguments, "--mode", "truncate")
    assert planned.returncode == 0, planned.stderr
    for key in missing:
        assert f"restore foreign key {key}" in planned.stdout + planned.stderr
    # ...and another load of the same kind restores them.
    done = run_cli("copy-all", *arguments, "--data-only", "--mode", "truncate")
    assert done.returncode == 0, done.stderr
    assert target.keys() == keys
    assert of(target, "night")["unrestored"] == []
    again = run_cli("plan-all", *arguments, "--mode", "truncate")
    assert "restore foreign key" not in again.stdout + again.stderr
