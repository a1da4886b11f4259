"""Which column goes into which, by name and by position."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock import PlanningError

if TYPE_CHECKING:
    from tests.backends.conftest import Pair


class TestByPosition:
    def test_names_are_ignored(self, pair: Pair) -> None:
        pair.source.run(
            'CREATE TABLE t (a int, gone int, "B" text, c date)',
            "ALTER TABLE t DROP COLUMN gone",
            "INSERT INTO t SELECT n, 'x' || n, 'epoch' FROM generate_series(1, 9) AS n",
        )
        pair.target.run('CREATE TABLE t (c int, "ä ""x""" varchar(9), "B" date)')
        run_id = pair.copy(map="position", strategy="range", key="a", partitions=2).run_id
        assert pair.target.rows('SELECT sum(c), min("ä ""x"""), max("B")::text FROM t') == [
            (45, "x1", "1970-01-01")
        ]
        # The condition uses the source's columns, so it does not count rows in the target.
        assert pair.cli("verify", run_id, *pair.ends).returncode == 0

    def test_a_subset_fills_the_first_columns(self, pair: Pair) -> None:
        pair.source.run("CREATE TABLE t (a int, b int)", "INSERT INTO t VALUES (1, 2)")
        pair.target.run("CREATE TABLE t (x int, y int DEFAULT 7)")
        pair.copy(map="position", columns=("b",))
        assert pair.target.rows("SELECT x, y FROM t") == [(2, 7)]

    @pytest.mark.parametrize(
        ("mine", "theirs", "counts"),
        [
            # A column that both sides compute is computed again.
            ("a int, g int GENERATED ALWAYS AS (a * 2) STORED, b int",
             "x int, y int GENERATED ALWAYS AS (x * 3) STORED, z int", (1, 3, 5)),
            # A column that only one side computes is skipped.
            ("a int, g int GENERATED ALWAYS AS (a * 2) STORED, b int", "x int, y int", (1, 5)),
            ("a int, b int", "x int, y int GENERATED ALWAYS AS (x * 3) STORED, z int", (1, 3, 5)),
            # A computed value can be stored.
            ("a int, b int, g int GENERATED ALWAYS AS (a * 2) STORED", "x int, y int, z int",
             (1, 5, 2)),
        ],
    )  # fmt: skip
    def test_generated_columns(
        self, pair: Pair, mine: str, theirs: str, counts: tuple[int, ...]
    ) -> None:
        pair.source.run(f"CREATE TABLE t ({mine})", "INSERT INTO t (a, b) VALUES (1, 5)")
        pair.target.run(f"CREATE TABLE t ({theirs})")
        pair.copy(map="position")
        assert pair.target.rows("SELECT * FROM t") == [counts]

    @pytest.mark.parametrize(
        ("mine", "theirs", "expected"),
        [
            ("a int, b int", "x int", "b integer - the target has only 1 columns to write"),
            ("a int", "x int, y int", "- - y integer the source has only 1 columns"),
            ("a int, b int, c int", "x int, y int GENERATED ALWAYS AS (x) STORED, z int",
             "b integer integer the target computes this column"),
        ],
    )  # fmt: skip
    def test_columns_without_a_counterpart_are_named(
        self, pair: Pair, mine: str, theirs: str, expected: str
    ) -> None:
        pair.source.run(f"CREATE TABLE t ({mine})")
        pair.target.run(f"CREATE TABLE t ({theirs})")
        with pytest.raises(PlanningError) as caught:
            pair.plan(map="position")
        assert expected.split() in [line.split() for line in caught.value.message.splitlines()]

    def test_replace_requires_the_same_names(self, pair: Pair) -> None:
        # It would delete by the target's "b", which receives the source's "a".
        pair.source.run("CREATE TABLE t (a int, b int)")
        pair.target.run("CREATE TABLE t (b int, a int)")
        with pytest.raises(PlanningError, match="found a into b, b into a"):
            pair.plan(map="position", mode="replace", key="a")


class TestReplace:
    """Replace deletes in the target by the condition that selects in the source."""

    @pytest.mark.parametrize(
        ("mine", "theirs"), [("numeric(10, 4)", "numeric(10, 1)"), ("numeric", "int")]
    )
    def test_a_key_that_is_rounded_is_refused(self, pair: Pair, mine: str, theirs: str) -> None:
        # A row that is rounded up might be deleted by the next partition.
        pair.source.run(f"CREATE TABLE t (a {mine}, b numeric)")
        pair.target.run(f"CREATE TABLE t (a {theirs}, b int)")
        with pytest.raises(PlanningError, match="its values must arrive unchanged"):
            pair.plan(mode="replace", key="a", strategy="range")

    def test_a_cast_that_may_fail_but_not_change_a_value_is_allowed(self, pair: Pair) -> None:
        pair.source.run("CREATE TYPE mood AS ENUM ('sad', 'glad')", "CREATE TABLE t (a mood)")
        pair.target.run("CREATE TYPE mood AS ENUM ('glad')", "CREATE TABLE t (a mood)")
        pair.source.run("INSERT INTO t VALUES ('glad')")
        assert pair.plan(mode="replace", key="a", strategy="values").warnings
        assert pair.copy(mode="replace", key="a", strategy="values").rows == 1

    def test_a_key_may_become_wider_and_other_columns_anything(self, pair: Pair) -> None:
        pair.source.run(
            "CREATE TABLE t (a int, b numeric)",
            "INSERT INTO t SELECT n, n + 0.4 FROM generate_series(1, 99) AS n",
        )
        pair.target.run("CREATE TABLE t (a bigint, b int)", "INSERT INTO t VALUES (5, 0)")
        pair.copy(mode="replace", key="a", strategy="range", partitions=3)
        assert pair.target.rows("SELECT count(*), sum(a - b) FROM t") == [(99, 0)]


class TestShapes:
    def test_a_table_without_columns(self, pair: Pair) -> None:
        pair.both("CREATE TABLE t ()")
        pair.source.run(
            "INSERT INTO t DEFAULT VALUES",
            *["INSERT INTO t SELECT FROM t"] * 10,
        )
        assert pair.copy(strategy="ctid", partitions=2).rows == 1024
        assert pair.target.count() == 1024

    @pytest.mark.parametrize(("count", "type_"), [(1000, "text"), (1600, "int"), (1600, "regtype")])
    def test_a_table_with_many_columns(self, pair: Pair, count: int, type_: str) -> None:
        columns = ", ".join(f"column_{number} {type_}" for number in range(count))
        pair.both(f"CREATE TABLE t ({columns})")
        values = ", ".join(str(number % 3 + 20) for number in range(count - 2))
        pair.source.run(f"INSERT INTO t VALUES ({values})", "INSERT INTO t (column_7) VALUES (23)")
        pair.copy()
        mine, theirs = (side.rows("SELECT t::text FROM t") for side in (pair.source, pair.target))
        assert mine == theirs
