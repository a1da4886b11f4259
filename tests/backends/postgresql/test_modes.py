"""append, truncate and replace: which rows are added, which removed, and which must survive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock import PlanningError

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

TABLE = "CREATE TABLE t (id int, at timestamp, region text, note text)"
# Ten years, two rows a day; some rows have a NULL key.
TEN_YEARS = """
    INSERT INTO t
    SELECT n, timestamp '2020-01-01' + n * interval '12 hours',
        (ARRAY['north', 'south', NULL])[n % 3 + 1], '{note}'
    FROM generate_series(0, 7305) AS n
    UNION ALL SELECT -n, NULL, (ARRAY['north', 'south', NULL])[n % 3 + 1], '{note}'
    FROM generate_series(1, 9) AS n
"""
DAY = "at >= '2026-03-10' AND at < '2026-03-11'"


@pytest.fixture
def years(pair: Pair) -> Pair:
    """Ten years on both sides: old rows in the target, new ones in the source."""
    pair.both(TABLE)
    pair.source.run(TEN_YEARS.format(note="new"), "ANALYZE t")
    pair.target.run(TEN_YEARS.format(note="old"))
    return pair


def assert_replaced(pair: Pair, where: str) -> None:
    """Check that the target has the source's rows where the condition is true, and its own
    elsewhere."""
    pair.assert_same(where=where)
    assert pair.source.count(where=where) > 0
    outside = f"({where}) IS NOT TRUE"
    assert pair.target.count(where=f"{outside} AND note <> 'old'") == 0
    assert pair.target.count(where=outside) == pair.source.count(where=outside)


CUTS: dict[str, dict[str, Any]] = {
    "range": {"strategy": "range", "key": "at", "partitions": 6},
    "range by id": {"strategy": "range", "key": "id", "partitions": 6},
    "time": {"strategy": "time", "key": "at", "interval": "1 hour"},
    "time by year": {"strategy": "time", "key": "at", "interval": "1 year"},
    "hash": {"strategy": "hash", "key": "id", "partitions": 4},
    "values": {"strategy": "values", "key": "region"},
    "values of an expression": {"strategy": "values", "key": "date_trunc('month', at)"},
    "values by a query": {
        "strategy": "values", "key": "region", "values_query": "VALUES ('north'), ('west')",
    },
    "whole range": {"strategy": "range", "key": "at", "partitions": 1},
}  # fmt: skip


class TestReplace:
    @pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
    def test_one_day_of_ten_years_and_nothing_else(self, years: Pair, cut: dict[str, Any]) -> None:
        for _ in range(2):
            report = years.copy(mode="replace", where=f"{DAY} -- one day", **cut)
            assert report.rows == 2
            assert_replaced(years, DAY)

    @pytest.mark.parametrize("cut", ["range", "time by year", "hash", "values"])
    def test_rows_with_a_null_key_by_another_column(self, years: Pair, cut: str) -> None:
        where = "region = 'north'"
        years.copy(mode="replace", where=where, **CUTS[cut])
        assert_replaced(years, where)
        # The rows with a NULL key existed on both sides.
        assert years.target.count(where=f"at IS NULL AND note = 'new' AND {where}") > 0
        assert years.target.count(where="at IS NULL AND note = 'old'") > 0

    def test_all_rows_without_a_condition(self, years: Pair) -> None:
        years.target.run(
            "INSERT INTO t VALUES (1, '1999-01-01', 'x', 'old'), (2, '2099-01-01', 'x', 'old')",
            "INSERT INTO t VALUES (3, NULL, 'x', 'old'), (4, 'infinity', NULL, 'old')",
        )
        years.copy(mode="replace", **CUTS["range"])
        years.assert_same()

    def test_a_day_that_has_become_empty(self, years: Pair) -> None:
        years.source.run(f"DELETE FROM t WHERE {DAY}")
        years.copy(mode="replace", where=DAY, **CUTS["range"])
        assert years.target.count(where=DAY) == 0
        assert years.target.count() == years.source.count()

    def test_a_column_that_the_target_lacks_is_refused(self, pair: Pair) -> None:
        pair.source.run("CREATE TABLE t (id int, secret_plan text)")
        pair.target.run("CREATE TABLE t (id int)", "INSERT INTO t VALUES (1)")
        with pytest.raises(PlanningError) as caught:
            pair.plan(
                mode="replace", key="id", strategy="range", columns=("id",),
                where="secret_plan = 'x'",
            )  # fmt: skip
        for part in ("--mode replace", "public.t", "secret_plan"):
            assert part in caught.value.message
        assert pair.target.count() == 1
        assert not pair.has_control_schema()

    def test_a_key_that_the_target_lacks_is_refused(self, pair: Pair) -> None:
        pair.source.run("CREATE TABLE t (id int, k int)")
        pair.target.run("CREATE TABLE t (id int)")
        with pytest.raises(PlanningError, match=r"--mode replace.*\n?.*\"k\""):
            pair.plan(mode="replace", key="k", strategy="range", columns=("id",))

    def test_hash_of_types_with_different_text_is_refused(self, pair: Pair) -> None:
        pair.source.run("CREATE TABLE t (id numeric(10, 1))")
        pair.target.run("CREATE TABLE t (id numeric(10, 3))")
        with pytest.raises(PlanningError) as caught:
            pair.plan(mode="replace", key="id", strategy="hash", partitions=2)
        assert "id (numeric(10,1), numeric(10,3))" in caught.value.message


class TestAppend:
    def test_appending_twice_doubles_the_rows(self, years: Pair) -> None:
        years.target.run("TRUNCATE t")
        for times in (1, 2):
            years.copy(strategy="ctid", partitions=3)
            assert years.target.count() == times * years.source.count()

    def test_existing_rows_are_kept(self, years: Pair) -> None:
        years.copy(where=DAY)
        assert years.target.count(where="note = 'old'") == years.source.count()
        assert years.target.count(where="note = 'new'") == 2


class TestTruncate:
    def test_the_target_is_emptied_once(self, years: Pair) -> None:
        for _ in range(2):
            years.copy(mode="truncate", partitions=5)
            years.assert_same()

    def test_the_target_is_emptied_before_a_part_is_copied(self, years: Pair) -> None:
        years.copy(mode="truncate", where=DAY)
        assert years.target.count() == 2

    def test_the_target_is_emptied_once_per_run(self, years: Pair) -> None:
        years.copy(mode="truncate", run_id="r1", partitions=3)
        years.target.run("INSERT INTO t VALUES (0, NULL, NULL, 'later')")
        years.copy(mode="truncate", run_id="r1", partitions=3)
        assert years.target.count(where="note = 'later'") == 1
        assert years.target.count(where="note = 'new'") == years.source.count()
