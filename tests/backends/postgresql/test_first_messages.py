"""What a new user learns from `plan`, and from control tables without privileges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from penstock import MissingTarget, plan
from penstock.model.journal import KILLED

if TYPE_CHECKING:
    from tests.backends.conftest import Pair


@pytest.fixture
def filled(pair: Pair) -> Pair:
    pair.source.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    return pair


def test_a_plan_without_a_target_table_shows_what_is_missing(filled: Pair) -> None:
    done = filled.cli("plan", *filled.ends, "--table", "public.t", "--mode", "swap")
    assert done.returncode == 65
    assert "1 partition by whole" in done.stdout
    assert "table public.t does not exist" in done.stderr
    assert "--mode recreate" in done.stderr
    with pytest.raises(MissingTarget) as caught:
        plan(filled.spec(mode="swap"))
    assert [partition.id for partition in caught.value.plan.partitions] == ["p0001"]


def test_the_missing_table_is_created_empty_as_the_message_says(filled: Pair) -> None:
    done = filled.cli(
        "copy", *filled.ends, "--table", "public.t", "--mode", "recreate", "--where", "false"
    )
    assert done.returncode == 0, done.stderr
    assert filled.target.count() == 0
    done = filled.cli(
        "copy", *filled.ends, "--table", "public.t", "--mode", "replace", "--key", "id"
    )
    assert done.returncode == 0, done.stderr
    filled.assert_same()


def test_a_schema_that_would_be_created_is_named(filled: Pair) -> None:
    arguments = ["--table", "public.t", "--target-table", "pubilc.t", "--mode", "recreate"]
    done = filled.cli("plan", *filled.ends, *arguments)
    assert done.returncode == 0, done.stderr
    assert "warning: missing in the target, and created there: schema pubilc" in done.stdout
    done = filled.cli("plan", *filled.ends, "--table", "public.t", "--mode", "recreate")
    assert "missing in the target" not in done.stdout


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("id >> ' foo", 'near "\' foo", character 7 of the condition'),
        ("id > 5) OR (true", 'near ")", character 7 of the condition'),
        ("id >", "syntax error at the end of the condition"),
    ],
)
def test_a_condition_is_reported_as_written(filled: Pair, where: str, message: str) -> None:
    filled.target.run("CREATE TABLE t (id int)")
    done = filled.cli("plan", *filled.ends, "--table", "public.t", "--where", where)
    assert done.returncode == 65
    assert message in done.stderr
    assert "END" not in done.stderr


def test_control_tables_without_privileges(filled: Pair) -> None:
    filled.target.run("CREATE TABLE t (id int)")
    filled.copy(run_id="r")
    role = f"weak_{filled.target.url.rpartition('/')[2][-8:]}".replace("-", "_")
    filled.target.run(f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
    try:
        url = psycopg.conninfo.make_conninfo(filled.target.url, user=role, password="x")
        options = dict(part.split("=", 1) for part in url.split())
        target = f"postgresql://{role}:x@{options['host']}:{options['port']}/{options['dbname']}"
        done = filled.cli("status", "r", "--target", target)
        assert done.returncode == 65
        assert f'GRANT USAGE ON SCHEMA "penstock" TO "{role}"' in done.stderr
        assert "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES" in done.stderr
    finally:
        filled.target.run(f"DROP ROLE {role}")


def test_killed_is_not_a_stored_status(filled: Pair) -> None:
    filled.target.run("CREATE TABLE t (id int)")
    filled.copy(run_id="r")
    filled.target.run("UPDATE penstock.run SET status = 'running'")
    assert f"run r {KILLED}" in filled.cli("status", "r", *filled.ends[2:]).stdout
    assert "penstock resume continues it" in filled.cli("report", "r", *filled.ends[2:]).stdout
