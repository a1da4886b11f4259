"""A mode that finds the table missing creates it; MySQL commits each DDL statement by itself."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest

from penstock import CopySpec, copy, plan
from penstock.events import Planned
from penstock_testkit import AnyMysqlServer

from ...faults.gate import Gate
from .mysql_pair import Pair, execute, rows

MAKES = b"`.`item` (`id` bigint"
NOTES = b"SET `prepared_at`"
REPLACING = ("--mode", "replace")


@pytest.fixture
def missing(pair: Pair) -> Pair:
    execute(pair.target, "DROP TABLE item")
    return pair


@pytest.mark.parametrize("moment", [MAKES, NOTES])
def test_a_run_killed_before_or_after_creating_it(missing: Pair, moment: bytes) -> None:
    gate = Gate(missing.before_target(), moment, "to_server")
    run = missing.copy(*REPLACING)
    gate.reached()
    assert bool(rows(missing.target, "SHOW TABLES LIKE 'item'")) == (moment == NOTES)
    run.kill()
    gate.open()
    missing.copy(*REPLACING).ended(0)
    missing.check_done()
    assert rows(missing.target, "SHOW CREATE TABLE item") == rows(
        missing.source, "SHOW CREATE TABLE item"
    )


@pytest.mark.parametrize("moment", [MAKES, NOTES])
def test_two_days_create_it_at_once(missing: Pair, moment: bytes) -> None:
    """One is held while it creates the table; the other one creates or finds it."""
    gate = Gate(missing.before_target(), moment, "to_server")
    first = missing.copy(*REPLACING, "--where", "id <= 6000", run_id="first")
    gate.reached()
    second = missing.copy(*REPLACING, "--where", "id > 6000", run_id="second")
    second.wait_for(Planned)
    second.ended(0)
    gate.open()
    first.ended(0)
    missing.check_once()
    assert "PRIMARY KEY (`id`)" in rows(missing.target, "SHOW CREATE TABLE item")[0][1]


def test_the_created_table_is_like_the_source(mysql_server: AnyMysqlServer, mysql_url: str) -> None:
    """Except for foreign keys, which would refuse rows whose parents are not copied yet."""
    execute(
        mysql_url,
        "CREATE TABLE other (id int PRIMARY KEY) ENGINE = InnoDB",
        "CREATE TABLE t (id int NOT NULL AUTO_INCREMENT, day date NOT NULL DEFAULT '2024-01-01',"
        " note varchar(20) COLLATE utf8mb4_bin DEFAULT 'it''s' COMMENT 'a, b', other_id int,"
        " amount decimal(8, 2) CHECK (amount > 0), PRIMARY KEY (id), UNIQUE (note, id), KEY (day),"
        " KEY (other_id), CONSTRAINT refers FOREIGN KEY (other_id) REFERENCES other (id))"
        " ENGINE = InnoDB CHARACTER SET utf8mb4",
        "INSERT INTO other VALUES (1)",
        "INSERT INTO t (note, other_id, amount) VALUES ('x', 1, 1), (NULL, 1, NULL)",
    )
    with mysql_server.new_database() as target:
        spec = CopySpec(
            source=mysql_url,
            target=target,
            table="t",
            target_table=f"{urlsplit(target).path[1:]}.t",
            mode="upsert",
            verify="checksums",
        )
        planned = plan(spec)
        assert [each for each in planned.warnings if "created there: table" in each]
        assert [(item.kind, item.name) for item in planned.load.not_copied] == [
            ("foreign keys", "refers")
        ]
        list(copy(spec))
        (_, mine), (_, theirs) = (
            rows(url, "SHOW CREATE TABLE t")[0] for url in (mysql_url, target)
        )
        assert _lines(theirs) == _lines(mine)
        execute(target, "CREATE TABLE other (id int PRIMARY KEY)", "INSERT INTO other VALUES (1)")
        (item,) = planned.load.not_copied
        execute(target, item.remedy.rstrip(";"))


def _lines(statement: str) -> list[str]:
    """Return the lines of a definition, without foreign keys and the AUTO_INCREMENT position."""
    lines = [line.rstrip(",") for line in statement.splitlines() if "FOREIGN KEY" not in line]
    return [re.sub(r" AUTO_INCREMENT=\d+", "", line) for line in lines]
