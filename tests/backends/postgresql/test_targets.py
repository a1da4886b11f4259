"""Every kind of relation as a target: which can be loaded, and which are refused in planning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from tests.backends.postgresql.test_relations import COLUMNS, FOREIGN, reader, rows

from penstock import PlanningError

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

TARGETS: dict[str, tuple[str, ...]] = {
    "partitioned": (
        f"CREATE TABLE t ({COLUMNS}) PARTITION BY RANGE (id)",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (300)",
        "CREATE TABLE t2 PARTITION OF t DEFAULT PARTITION BY LIST (name)",
        "CREATE TABLE t21 PARTITION OF t2 DEFAULT",
    ),
    "unlogged": (f"CREATE UNLOGGED TABLE t ({COLUMNS})",),
    "inherited": (f"CREATE TABLE t ({COLUMNS})", "CREATE TABLE t1 () INHERITS (t)"),
    "foreign": (
        *FOREIGN,
        f"CREATE TABLE away ({COLUMNS})",
        f"CREATE FOREIGN TABLE t ({COLUMNS}) SERVER beside OPTIONS (table_name 'away')",
    ),
    "with a trigger": (
        f"CREATE TABLE t ({COLUMNS})",
        "CREATE TABLE seen (id int)",
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN INSERT INTO seen VALUES (NEW.id); RETURN NEW; END'",
        "CREATE TRIGGER note AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION note()",
    ),
    "with row security, as its owner": (
        f"CREATE TABLE t ({COLUMNS})",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
    ),
}
VIEW = (
    f"CREATE TABLE base ({COLUMNS})",
    "CREATE VIEW t AS TABLE base",
    "CREATE FUNCTION put() RETURNS trigger LANGUAGE plpgsql AS"
    " 'BEGIN INSERT INTO base VALUES (NEW.*); RETURN NEW; END'",
)
TRIGGER = "CREATE TRIGGER put INSTEAD OF INSERT ON t FOR EACH ROW EXECUTE FUNCTION put()"


def make(pair: Pair, *statements: str) -> None:
    pair.source.run(f"CREATE TABLE t ({COLUMNS})", f"INSERT INTO t {rows()}", "ANALYZE t")
    found = urlsplit(pair.target.url)
    for statement in statements:
        pair.target.run(
            statement.replace("{port}", str(found.port))
            .replace("{db}", found.path.lstrip("/"))
            .replace("{host}", str(found.hostname))
        )


@pytest.mark.parametrize("statements", TARGETS.values(), ids=TARGETS)
def test_a_relation_is_loaded(pair: Pair, statements: tuple[str, ...]) -> None:
    make(pair, *statements)
    cuts: tuple[dict[str, Any], ...] = (
        {"partitions": 3},
        {"mode": "truncate"},
        {"mode": "replace", "key": "id", "partitions": 3},
    )
    for options in cuts:
        report = pair.copy(**options)
        assert report.rows == 1000
        pair.assert_same()
    plan = pair.plan()
    assert any("commits separately" in warning for warning in plan.warnings) == (
        statements is TARGETS["foreign"]
    )


def test_triggers_fire(pair: Pair) -> None:
    make(pair, *TARGETS["with a trigger"])
    pair.copy(partitions=3)
    assert pair.target.count("seen") == 1000


def test_a_trigger_that_drops_rows_is_an_error(pair: Pair) -> None:
    make(
        pair,
        f"CREATE TABLE t ({COLUMNS})",
        "CREATE FUNCTION drop() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN RETURN CASE WHEN NEW.id <> 500 THEN NEW END; END'",
        "CREATE TRIGGER d BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION drop()",
    )
    with pytest.raises(Exception, match="1 partition failed") as error:
        pair.copy()
    assert "999" in str(error.value.__notes__)
    assert pair.target.count() == 0


def test_a_view_with_a_trigger_is_loaded(pair: Pair) -> None:
    make(pair, *VIEW, TRIGGER)
    pair.copy(partitions=3)
    pair.assert_same()
    with pytest.raises(PlanningError, match=r"--mode truncate: expected public.t to be a table"):
        pair.copy(mode="truncate")


REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "a view without a trigger": (VIEW, "a view with an INSTEAD OF INSERT trigger"),
    "a view with a trigger of the statement": (
        (*VIEW, TRIGGER.replace("INSTEAD OF", "AFTER").replace("EACH ROW", "EACH STATEMENT")),
        "a view with an INSTEAD OF INSERT trigger",
    ),
    "a materialized view": (
        (f"CREATE TABLE base ({COLUMNS})", "CREATE MATERIALIZED VIEW t AS TABLE base"),
        "found a materialized view",
    ),
    "a sequence": (("CREATE SEQUENCE t",), "."),
    "a foreign table that is only read": (
        (
            "CREATE EXTENSION file_fdw",
            "CREATE SERVER files FOREIGN DATA WRAPPER file_fdw",
            f"CREATE FOREIGN TABLE t ({COLUMNS}) SERVER files OPTIONS (filename '/dev/null')",
        ),
        "that accepts no rows",
    ),
}


@pytest.mark.parametrize(("statements", "words"), REFUSED.values(), ids=REFUSED)
def test_an_unsuitable_relation_is_refused(
    pair: Pair, statements: tuple[str, ...], words: str
) -> None:
    make(pair, *statements)
    with pytest.raises(PlanningError, match=words):
        pair.copy()
    assert not pair.has_control_schema()


def test_row_security_is_refused(pair: Pair) -> None:
    make(pair, f"CREATE TABLE t ({COLUMNS})", "ALTER TABLE t ENABLE ROW LEVEL SECURITY")
    grants = ("GRANT ALL ON t TO {}", "GRANT CREATE ON SCHEMA public TO {}")
    with (
        reader(pair, *grants, side=pair.target) as url,
        pytest.raises(PlanningError, match=r"target: row security on public.t"),
    ):
        pair.copy(target=url)
    assert not pair.has_control_schema()
