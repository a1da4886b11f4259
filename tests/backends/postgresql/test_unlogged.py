"""`--unlogged`: unlogged during the load, logged at the end; refused where the server would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.backends.postgresql.definitions import definitions

from penstock import PlanningError, UsageError, copy
from penstock.events import Committed

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

MODES: dict[str, dict[str, Any]] = {
    "truncate": {"mode": "truncate"},
    "recreate": {"mode": "recreate"},
    "swap": {"mode": "swap"},
}
PERSISTENCE = """
    SELECT relpersistence::text FROM pg_class
    WHERE relname ~ '^t(__penstock.*)?$' AND relkind = 'r' ORDER BY length(relname) DESC LIMIT 1
"""


@pytest.mark.parametrize("mode", MODES)
def test_the_table_is_logged_again_at_the_end(pair: Pair, mode: str) -> None:
    pair.both("CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, s serial)")
    pair.source.run("INSERT INTO t DEFAULT VALUES", "INSERT INTO t DEFAULT VALUES")
    before = definitions(pair.target.url)
    seen = []
    for event in copy(pair.spec(unlogged=True, **MODES[mode])):
        if isinstance(event, Committed):
            seen.append(pair.target.value(PERSISTENCE))
    assert seen == ["u"]
    assert definitions(pair.target.url) == before  # which says UNLOGGED, for sequences too
    pair.assert_same()


@pytest.mark.parametrize("mode", ["truncate", "swap"])
def test_an_unlogged_table_stays_unlogged(pair: Pair, mode: str) -> None:
    pair.source.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    pair.target.run("CREATE UNLOGGED TABLE t (id int PRIMARY KEY)")
    before = definitions(pair.target.url)
    assert pair.plan(**MODES[mode]).load.volatile
    pair.copy(**MODES[mode])
    assert definitions(pair.target.url) == before
    pair.assert_same()


def test_a_self_referencing_table(pair: Pair) -> None:
    pair.both("CREATE TABLE t (id int PRIMARY KEY, up int REFERENCES t)")
    pair.source.run("INSERT INTO t VALUES (1, 1), (2, 1)")
    before = definitions(pair.target.url)
    for mode in ("truncate", "swap"):
        pair.copy(unlogged=True, **MODES[mode])
        assert definitions(pair.target.url) == before


class TestRefused:
    def test_a_table_that_foreign_keys_point_to(self, pair: Pair) -> None:
        pair.both("CREATE TABLE t (id int PRIMARY KEY)")
        pair.target.run("CREATE TABLE o (id int CONSTRAINT points REFERENCES t)")
        with pytest.raises(PlanningError, match=r"points of (public\.)?o"):
            pair.plan(unlogged=True, **MODES["truncate"])

    def test_a_published_table(self, pair: Pair) -> None:
        pair.both("CREATE TABLE t (id int PRIMARY KEY)")
        pair.target.run("CREATE PUBLICATION spread FOR TABLE t")
        with pytest.raises(PlanningError, match=r"is published \(spread\)"):
            pair.plan(unlogged=True, **MODES["truncate"])

    def test_a_mode_that_adds_to_existing_rows(self, pair: Pair) -> None:
        with pytest.raises(UsageError, match="an unlogged table is emptied"):
            pair.spec(unlogged=True, mode="append")

    def test_a_partitioned_table_with_unlogged_children(self, pair: Pair) -> None:
        pair.source.run("CREATE TABLE t (id int)")
        pair.target.run(
            "CREATE TABLE t (id int) PARTITION BY LIST (id)",
            "CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1)",
            "CREATE UNLOGGED TABLE t2 PARTITION OF t DEFAULT",
        )
        with pytest.raises(
            PlanningError, match=r"child tables of public\.t to be all logged or all unlogged"
        ):
            pair.plan()
