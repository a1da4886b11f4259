"""`--indexes defer`: indexes dropped before a load come back after it, whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from signal import SIGKILL
from typing import Any

import psycopg
import pytest

import penstock
from penstock import CopySpec
from penstock.backends.mysql.catalog.table_model import (
    clause_of,
    indexes_of,
    keys_of,
    leading,
    read_table,
)
from penstock.errors import PlanningError
from penstock.events import Committed, Planned, Prepared
from penstock.model.tables import TableRef
from penstock_testkit import TcpProxy

from ...faults.cli import PATIENCE, eventually
from ...faults.gate import Gate
from .mysql_pair import PARTITIONS, RUN_ID, Pair, execute, middle, rows

pytestmark = pytest.mark.both_servers

INDEXES = (
    "ALTER TABLE item ADD KEY by_amount (amount DESC, id) COMMENT 'it''s; a `comment`',"
    " ADD KEY by_note (note(5)), ADD FULLTEXT KEY words (pad), ADD UNIQUE KEY once (note)"
)
DEFER = ("--indexes", "defer")


@pytest.fixture
def pair(pair: Pair) -> Pair:
    execute(pair.target, INDEXES)
    return pair


def key_clauses(url: str, table: str = "item") -> dict[str, str]:
    """Return the keys and indexes of a table, as the server shows them."""
    ((_, statement),) = rows(url.partition("?")[0], f"SHOW CREATE TABLE `{table}`")
    model = read_table(statement, TableRef("d", table)).model
    return {key.name or "PRIMARY": clause_of(key) for key in keys_of(model)}


# Precedes a statement on the wire, but not in a stored plan.
QUERY = b"\x00\x03"
ALTER = QUERY + b"ALTER TABLE `test_"
"""An ALTER TABLE of a test's table, and not of a control table."""
BEFORE_MAKING = QUERY + b"UPDATE `penstock`.`run` SET `made`"
"""Sent twice: before indexes are dropped, and before they are built."""


@contextmanager
def proxied(pair: Pair) -> Iterator[TcpProxy]:
    """A pair with a proxy for all traffic to the target."""
    target = pair.target
    with TcpProxy.of(target) as proxy:
        pair.target = f"{proxy.url(target)}?ssl_mode=disabled"
        try:
            yield proxy
        finally:
            pair.target = target


@contextmanager
def hold_at(pair: Pair, needle: bytes, skip: int = 0) -> Iterator[Gate]:
    """Hold the traffic to the target that contains the needle."""
    with proxied(pair) as proxy:
        gate = Gate(proxy, needle, "to_server", skip=skip)
        try:
            yield gate
        finally:
            gate.open()


def killed_at(pair: Pair, needle: bytes, skip: int, *words: str) -> None:
    with hold_at(pair, needle, skip) as gate:
        run = pair.copy(*DEFER, *words)
        gate.reached()
        run.signal_all(SIGKILL)
        run.ended(-SIGKILL)
    pair.check_no_session()


def test_indexes_come_back_unchanged(pair: Pair) -> None:
    before = key_clauses(pair.target)
    with hold_at(pair, ALTER, skip=1) as gate:
        run = pair.copy(*DEFER)
        gate.reached()
        assert set(key_clauses(pair.target)) == {"PRIMARY", "once"}
        assert len(run.of(Committed)) == PARTITIONS
        gate.open()
        run.ended(0)
    assert key_clauses(pair.target) == before
    pair.check_done()


@pytest.mark.parametrize("mode", ["append", "truncate", "swap"])
@pytest.mark.parametrize(
    ("needle", "skip"),
    [
        (ALTER, 0),
        (QUERY + b"UPDATE `penstock`.`run` SET `prepared_at`", 0),
        (middle(2), 0),
        (ALTER, 1),
    ],
    ids=["before the drop", "dropped", "while it is loaded", "before they are made"],
)
def test_a_kill_at_each_step(pair: Pair, mode: str, needle: bytes, skip: int) -> None:
    before = key_clauses(pair.target)
    killed_at(pair, needle, skip, "--mode", mode)
    pair.resume("--on-snapshot-lost", "accept").ended(0)
    assert key_clauses(pair.target) == before
    pair.check_done()


def a_second_later(pair: Pair) -> None:
    """Wait until later changes have a different time from earlier ones."""
    later = (
        "SELECT now() > max(create_time) FROM information_schema.tables"
        " WHERE table_schema = database()"
    )
    url = pair.target.partition("?")[0]
    eventually("a second has passed", lambda: rows(url, later) == [(1,)], PATIENCE)


@pytest.mark.parametrize("mode", ["append", "swap"])
def test_a_kill_while_indexes_are_built(pair: Pair, mode: str) -> None:
    """The server then reports a new creation time, although it is the same table."""
    before = key_clauses(pair.target)
    with proxied(pair) as proxy:
        gate = Gate(proxy, ALTER, "to_server", skip=1)
        record = Gate(proxy, QUERY + b"INSERT INTO `penstock`.`step_record`", "to_server")
        run = pair.copy(*DEFER, "--mode", mode)
        gate.reached()
        a_second_later(pair)
        gate.open()
        record.reached()
        run.signal_all(SIGKILL)
        run.ended(-SIGKILL)
        record.open()
    pair.resume().ended(0)
    assert key_clauses(pair.target) == before
    pair.check_done()


def test_two_runs_at_once(pair: Pair) -> None:
    """Neither takes the other's change of the table for another user's."""
    before = key_clauses(pair.target)
    with hold_at(pair, middle(1)) as gate:
        first = pair.copy(*DEFER, "--where", "id % 2 = 0", run_id="first")
        gate.reached()
        a_second_later(pair)
        second = pair.copy(*DEFER, "--where", "id % 2 = 1", run_id="second")
        second.ended(0)
        a_second_later(pair)
        gate.open()
        first.ended(0)
    assert key_clauses(pair.target) == before
    pair.check_once()


def test_rows_that_violate_a_key(pair: Pair) -> None:
    """The run fails, and restores its indexes once the offending rows are removed."""
    before = key_clauses(pair.target)
    execute(pair.target, "INSERT INTO item VALUES (5000, 'in the way', NULL, NULL)")
    run = pair.copy(*DEFER)
    run.ended(65)
    assert set(key_clauses(pair.target)) == {"PRIMARY", "once"}
    assert penstock.status(RUN_ID, target=pair.target).steps_done == frozenset()
    execute(pair.target, "DELETE FROM item WHERE id = 5000 AND note = 'in the way'")
    pair.resume("--on-snapshot-lost", "accept").ended(0)
    assert key_clauses(pair.target) == before
    pair.check_done()


@pytest.mark.parametrize(
    "change", ["ADD KEY by_amount (id)", "DROP COLUMN amount"], ids=["same name", "no column"]
)
def test_another_user_changes_the_table(pair: Pair, change: str) -> None:
    """Nothing is lost: the message contains the statement that creates the indexes."""
    killed_at(pair, BEFORE_MAKING, 1)
    a_second_later(pair)
    execute(pair.target, f"ALTER TABLE item {change}")
    changed = key_clauses(pair.target)
    run = pair.resume()
    run.ended(65)
    assert "was changed by another session after run faults began" in run.errors
    assert "create the indexes that this run dropped: ALTER TABLE" in run.errors
    assert "ADD KEY `by_amount` (`amount` DESC,`id`) COMMENT 'it''s; a `comment`'" in run.errors
    assert key_clauses(pair.target) == changed


def test_an_index_of_the_same_name(pair: Pair) -> None:
    """If the server does not report that the table was changed, the index itself shows it."""
    before = key_clauses(pair.target)
    killed_at(pair, BEFORE_MAKING, 1)
    execute(pair.target, "ALTER TABLE item ADD KEY by_amount (id)")
    created_at = "SELECT create_time FROM information_schema.tables WHERE table_name = 'item'"
    ((now,),) = rows(pair.target, f"{created_at} AND table_schema = database()")
    execute(pair.target, f"UPDATE penstock.run SET made = '{now}'")
    refused = pair.resume()
    refused.ended(65)
    expected = "expected KEY `by_amount` (`amount` DESC,`id`) COMMENT"
    assert expected in refused.errors
    assert "found KEY `by_amount` (`id`); drop or rename that one" in refused.errors
    execute(pair.target, "ALTER TABLE item DROP KEY by_amount")
    ((now,),) = rows(pair.target, f"{created_at} AND table_schema = database()")
    execute(pair.target, f"UPDATE penstock.run SET made = '{now}'")
    pair.resume().ended(0)
    assert key_clauses(pair.target) == before
    pair.check_done()


# Indexes that stay

KEPT = """
    CREATE TABLE item (
        id bigint AUTO_INCREMENT, note varchar(20) NOT NULL, amount decimal(12, 2),
        pad varchar(300), n int DEFAULT 3, p point NOT NULL DEFAULT (point(0, 0)),
        KEY numbers (id, note), KEY referring (n, note), KEY referring_too (n), KEY referred (note),
        KEY beginning (note(3)), SPATIAL KEY places (p), FULLTEXT KEY words (pad),
        FULLTEXT KEY more (note, pad), KEY `we``ird` (amount) KEY_BLOCK_SIZE = 4,
        FOREIGN KEY (n) REFERENCES seven (n)
    ) ENGINE = InnoDB
"""


STRICT = "SHOW VARIABLES LIKE 'restrict_fk_on_non_standard_key'"


def test_indexes_that_the_server_needs_stay(items: str, mysql_url: str) -> None:
    execute(
        mysql_url,
        "CREATE TABLE seven (n int PRIMARY KEY) ENGINE = InnoDB",
        "INSERT INTO seven VALUES (3)",
        KEPT,
    )
    # MySQL 8.4 and later require a unique key there.
    refers = not rows(mysql_url, STRICT)
    if refers:
        execute(
            mysql_url,
            "CREATE TABLE other (note varchar(20), FOREIGN KEY mine (note) REFERENCES item (note))"
            " ENGINE = InnoDB",
        )
    before = key_clauses(mysql_url)
    pair = Pair(items, mysql_url)
    with closing(pair), hold_at(pair, middle(1)) as gate:
        run = pair.copy(*DEFER, "--columns", "id,note,amount,pad")
        gate.reached()
        stay = {"numbers", "referring", *(["referred"] if refers else [])}
        assert set(key_clauses(mysql_url)) == stay
        gate.open()
        run.ended(0)
        (warning,) = run.wait_for(Planned).warnings
        assert warning.startswith("indexes that are needed are kept: numbers (id is AUTO_INCREMENT")
        assert "referring (foreign key item_ibfk_1)" in warning
        assert ("referred (foreign key " in warning) is refers
    assert key_clauses(mysql_url) == before
    pair.check_once()


def test_a_view_has_no_indexes_to_defer(pair: Pair) -> None:
    execute(pair.target, "CREATE VIEW v AS SELECT * FROM item")
    with pytest.raises(PlanningError, match=r"expected .* to be a table"):
        penstock.plan(penstock.CopySpec(
            source=pair.source, target=pair.target, table="item", target_table="v",
            indexes="defer",
        ))  # fmt: skip


def test_a_definition_as_mysql_shows_it() -> None:
    """From MySQL 8.4."""
    statement = (
        "CREATE TABLE `t` (\n"
        "  `a` int NOT NULL AUTO_INCREMENT COMMENT 'KEY `x` (`y`)',\n"
        "  `b``c` varchar(9) DEFAULT NULL,\n"
        "  PRIMARY KEY (`a`),\n"
        "  UNIQUE KEY `u` (`b``c`,`a` DESC) USING BTREE,\n"
        "  KEY `hidden` (`a`) /*!80000 INVISIBLE */,\n"
        "  KEY `lower` ((lower(`b``c`)),`a`),\n"
        "  FULLTEXT KEY `f` (`b``c`) /*!50100 WITH PARSER `ngram` */ ,\n"
        "  CONSTRAINT `k` FOREIGN KEY (`a`) REFERENCES `d`.`o` (`x`) ON DELETE CASCADE,\n"
        "  CONSTRAINT `c` CHECK ((`a` > 0)) /*!80016 NOT ENFORCED */\n"
        ") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci\n"
        "/*!50100 PARTITION BY HASH (`a`)\nPARTITIONS 4 */"
    )
    found = read_table(statement, TableRef("s", "t"))
    model = found.model
    assert [each.name for each in model.columns if each.identity] == ["a"]
    assert model.column("a").comment == "KEY `x` (`y`)"
    assert {key.name: leading(key) for key in keys_of(model)} == {
        "": ("a",), "u": ("b`c", "a"), "hidden": ("a",), "lower": (), "f": ()
    }  # fmt: skip
    lines = [each.strip(", ") for each in statement.splitlines()]
    assert [clause_of(key).rstrip() for key in keys_of(model)] == lines[3:8]
    assert list(indexes_of(model)) == ["hidden", "lower", "f"]
    (foreign,), (check,) = model.foreign_keys, model.checks
    assert (foreign.columns, foreign.referenced, str(foreign.target), foreign.on_delete) == (
        ("a",), ("x",), "d.o", "CASCADE",
    )  # fmt: skip
    assert (check.name, check.test.text, check.enforced) == ("c", "(`a` > 0)", False)
    assert model.partitioning.endswith("PARTITIONS 4 */")
    assert [(item.kind, item.name) for item in found.omitted] == [
        ("index options", "hidden: INVISIBLE"), ("index options", "f: WITH PARSER `ngram`"),
    ]  # fmt: skip


def test_indexes_dropped_by_a_stopped_run(source_url: str, mysql_url: str) -> None:
    with psycopg.connect(source_url) as at:
        at.execute("CREATE TABLE t AS SELECT n AS id, n % 7 AS kind FROM generate_series(1, 99) n")
    execute(mysql_url, "CREATE TABLE t (id int PRIMARY KEY, kind int, KEY a (kind))")
    options: dict[str, Any] = {
        "source": source_url, "target": mysql_url, "table": "public.t", "target_table": "t",
        "mode": "truncate", "indexes": "defer",
    }  # fmt: skip
    with closing(penstock.copy(CopySpec(**options, run_id="stopped"))) as events:
        assert any(isinstance(event, Prepared) for event in events)
    execute(mysql_url, "ALTER TABLE t ADD KEY b (kind, id)")
    list(penstock.copy(CopySpec(**options)))
    found = rows(mysql_url, "SHOW INDEX FROM t")
    assert {row[2] for row in found} == {"PRIMARY", "a", "b"}


def test_indexes_dropped_by_a_run_that_was_not_yet_prepared(
    source_url: str, mysql_url: str
) -> None:
    with psycopg.connect(source_url) as at:
        at.execute("CREATE TABLE t AS SELECT n AS id, n % 7 AS kind FROM generate_series(1, 99) n")
    execute(mysql_url, "CREATE TABLE t (id int PRIMARY KEY, kind int, KEY a (kind))")
    ends = {"source": source_url, "target": mysql_url, "table": "public.t", "target_table": "t"}
    options: dict[str, Any] = {**ends, "mode": "truncate"}
    penstock.create(CopySpec(**options, indexes="defer", run_id="killed"))
    execute(mysql_url, "ALTER TABLE t DROP INDEX a")
    list(penstock.copy(CopySpec(**options, indexes="defer")))
    assert {row[2] for row in rows(mysql_url, "SHOW INDEX FROM t")} == {"PRIMARY", "a"}
