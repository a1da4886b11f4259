"""Attempts whose COMMIT is sent together with their record, and must not take effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock import copy
from penstock.errors import RunFailed, TargetChanged
from penstock.events import Event, Failed

if TYPE_CHECKING:
    from tests.backends.conftest import Pair


ONE: dict[str, Any] = {"attempts": 1, "strategy": "whole", "run_id": "r"}


@pytest.fixture
def tables(pair: Pair) -> Pair:
    pair.both("CREATE TABLE t (id int PRIMARY KEY)")
    pair.source.run("INSERT INTO t SELECT generate_series(1, 10)")
    return pair


def on_insert(pair: Pair, body: str, kind: str = "TRIGGER", when: str = "") -> None:
    """Do something in the transaction of each attempt."""
    pair.target.run(
        "CREATE FUNCTION act() RETURNS trigger LANGUAGE plpgsql"
        f" AS $$BEGIN {body}; RETURN NULL; END$$",
        f"CREATE {kind} act AFTER INSERT ON t {when} FOR EACH ROW EXECUTE FUNCTION act()",
    )


def refused(pair: Pair) -> str:
    """Copy, and return the message of the attempt that failed."""
    seen: list[Event] = []
    with pytest.raises(RunFailed):
        seen.extend(copy(pair.spec(**ONE)))
    (failed,) = (event for event in seen if isinstance(event, Failed))
    assert pair.target.count() == 0
    assert pair.target.value("SELECT count(*) FROM penstock.commit_record") == 0
    return str(failed.error["message"])


def test_a_record_that_disappears(tables: Pair) -> None:
    on_insert(tables, "DELETE FROM penstock.commit_record WHERE run_id = 'r'")
    assert "the commit record of partition p0001 is missing" in refused(tables)


def test_a_table_that_is_not_the_same_any_more(tables: Pair) -> None:
    """Another session changes what identifies it while the attempt is open."""
    on_insert(tables, "PERFORM pg_advisory_xact_lock(1)")

    def change_meanwhile(other: psycopg.Connection) -> None:
        for _ in copy(tables.spec(**ONE)):
            waiting = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            if other.execute(waiting).fetchall():
                other.execute(
                    "UPDATE penstock.run SET target_state = jsonb_set(target_state, '{files}',"
                    " jsonb_build_object(target_state ->> 'oid', '1'))"
                )
                other.execute("SELECT pg_advisory_unlock(1)")

    with psycopg.connect(tables.target.url, autocommit=True) as session:
        session.execute("SELECT pg_advisory_lock(1)")
        with pytest.raises(TargetChanged, match="was truncated or rewritten after run r was"):
            change_meanwhile(session)
    assert tables.target.count() == 0


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("PERFORM 'x'::int", 'invalid input syntax for type integer: "x"'),
        ("RAISE 'not today'", "not today"),
    ],
)
def test_an_error_of_the_commit_itself(tables: Pair, body: str, message: str) -> None:
    on_insert(tables, body, "CONSTRAINT TRIGGER", "DEFERRABLE INITIALLY DEFERRED")
    assert message in refused(tables)
