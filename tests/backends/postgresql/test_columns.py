"""Names, order and kinds of columns; types that can be copied, and those that do not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock import PlanningError

if TYPE_CHECKING:
    from tests.backends.conftest import Pair


class TestNames:
    def test_names_in_any_alphabet_with_any_character(self, pair: Pair) -> None:
        table = '"Größe.%s {}"."Tä""ble ; --"'
        columns = '"select", "Ünï.code", "per%cent %s", "quo""te", "{0}", "back\\slash", "🐘"'
        pair.both(
            'CREATE SCHEMA "Größe.%s {}"',
            f"CREATE TABLE {table} ({columns.replace(',', ' int,')} int)",
        )
        pair.source.run(
            f"INSERT INTO {table} SELECT n, n, n, n, n, n, n FROM generate_series(1,50) n"
        )
        for options in (
            {"strategy": "ctid"},
            {"strategy": "range", "key": "per%cent %s", "partitions": 3},
            {"strategy": "hash", "key": 'quo"te', "partitions": 2},
            {"strategy": "values", "key": "{0}", "where": '"🐘" < 4 -- only "a few'},
        ):
            pair.copy(table, mode="truncate", **options)
            assert pair.target.count(table) == (3 if "where" in options else 50)
        pair.copy(table, mode="replace", strategy="range", key="back\\slash", partitions=3)
        pair.assert_same(table)

    def test_a_table_of_another_name_in_another_schema(self, pair: Pair) -> None:
        pair.source.run("CREATE TABLE t AS SELECT n AS id FROM generate_series(1, 9) AS n")
        pair.target.run('CREATE SCHEMA "B"', 'CREATE TABLE "B"."t.2" (id int)')
        pair.copy(target_table='B."t.2"')
        assert pair.target.count('"B"."t.2"') == 9


class TestWhere:
    @pytest.mark.parametrize(
        ("where", "count"),
        [
            ("id <= 3 -- x", 3),
            ("id <= 3 /* x */ OR id = 9", 4),
            ("name = 'it''s 100% \"so\" {} %s'", 1),
            ("name LIKE '%\\%%'", 1),
            ("id IN (SELECT max(id) FROM public.t)", 1),
            ("name IS NULL", 1),
            ("false", 0),
        ],
    )
    @pytest.mark.parametrize("strategy", ["whole", "range"])
    def test_a_condition_is_used_as_written(
        self, pair: Pair, where: str, count: int, strategy: str
    ) -> None:
        pair.both("CREATE TABLE t (id int, name text)")
        pair.source.run(
            "INSERT INTO t SELECT n, 'x' FROM generate_series(1, 9) AS n",
            "INSERT INTO t VALUES (100, 'it''s 100% \"so\" {} %s'), (101, NULL)",
            "ANALYZE t",
        )
        key = "id" if strategy == "range" else None
        partitions = 3 if strategy == "range" else None
        assert (
            pair.copy(where=where, strategy=strategy, key=key, partitions=partitions).rows == count
        )
        assert pair.target.count() == count

    @pytest.mark.parametrize("where", ["id < 3) OR (id > 7", "true) OR (true", "1 = 1; --"])
    def test_a_condition_that_escapes_its_parentheses_is_refused(
        self, pair: Pair, where: str
    ) -> None:
        pair.both("CREATE TABLE t (id int)")
        pair.source.run("INSERT INTO t SELECT generate_series(1, 9)", "ANALYZE t")
        with pytest.raises(PlanningError, match="--where"):
            pair.events(where=where, strategy="range", key="id", partitions=3)
        assert pair.target.count() == 0
        assert not pair.has_control_schema()

    def test_a_condition_that_fails_on_no_existing_row_can_be_planned(self, pair: Pair) -> None:
        # Bounds in the statistics may come from rows that have been deleted.
        pair.both("CREATE TABLE t (id int)")
        pair.source.run(
            "INSERT INTO t SELECT generate_series(1, 500)",
            "ANALYZE t",
            "DELETE FROM t WHERE id = 1",
        )
        report = pair.copy(where="1 / (id - 1) >= 0", strategy="range", key="id", partitions=3)
        assert report.rows == 499


class TestColumns:
    def test_a_subset_is_copied(self, pair: Pair) -> None:
        pair.source.run(
            "CREATE TABLE t (a int, b int, c text, d int)",
            "INSERT INTO t SELECT n, n, 'x', n FROM generate_series(1, 9) AS n",
        )
        pair.target.run("CREATE TABLE t (c text, a int, d int DEFAULT 7, e int)")
        pair.copy(columns=("a", "c"))
        assert pair.target.rows(
            "SELECT DISTINCT c, a = ANY (ARRAY[1,2,3,4,5,6,7,8,9]), d, e FROM t"
        ) == [("x", True, 7, None)]

    def test_columns_in_another_order_are_copied(self, pair: Pair) -> None:
        pair.source.run(
            "CREATE TABLE t (a int, b int, c int, d text)",
            "INSERT INTO t VALUES (1, 2, 3, 'four')",
            "ALTER TABLE t DROP COLUMN b",
        )
        pair.target.run("CREATE TABLE t (d text, c int, a int)")
        pair.copy()
        assert pair.target.rows("SELECT a, c, d FROM t") == [(1, 3, "four")]

    def test_generated_and_identity_columns(self, pair: Pair) -> None:
        virtual = "VIRTUAL" if pair.version >= 18 else "STORED"
        pair.source.run(
            "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY, a int,"
            " both_stored int GENERATED ALWAYS AS (a * 2) STORED,"
            f" both_virtual int GENERATED ALWAYS AS (a * 3) {virtual},"
            " here int GENERATED ALWAYS AS (a * 4) STORED)",
            "INSERT INTO t (a) SELECT generate_series(1, 5)",
            "DELETE FROM t WHERE a = 2",
        )
        pair.target.run(
            "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY (START 100), a int,"
            " both_stored int GENERATED ALWAYS AS (a * 2) STORED,"
            f" both_virtual int GENERATED ALWAYS AS (a * 3) {virtual},"
            " here int, there int GENERATED ALWAYS AS (a * 5) STORED)"
        )
        pair.copy()
        columns = "id, a, both_stored, both_virtual, here"
        pair.assert_same(columns=columns)
        assert pair.target.value("SELECT sum(there) FROM t") == 5 * (1 + 3 + 4 + 5)

    def test_a_view_and_a_partitioned_table_as_source(self, pair: Pair) -> None:
        pair.source.run(
            "CREATE TABLE base (id int NOT NULL, x text) PARTITION BY RANGE (id)",
            "CREATE TABLE base_1 PARTITION OF base FOR VALUES FROM (0) TO (500)",
            "CREATE TABLE base_2 PARTITION OF base FOR VALUES FROM (500) TO (1001)",
            "INSERT INTO base SELECT n, 'x' FROM generate_series(1, 1000) AS n",
            "CREATE VIEW seen AS SELECT id, x FROM base WHERE id % 2 = 0",
        )
        pair.target.run("CREATE TABLE t (id int, x text)")
        for analyzed in (False, True):
            if analyzed:
                pair.source.run("ANALYZE base")
            for table, count, strategy in (
                ("public.base", 1000, "range"),
                ("public.seen", 500, "ntile"),
            ):
                pair.copy(
                    table, target_table="public.t", mode="truncate", strategy=strategy, key="id",
                    partitions=4,
                )  # fmt: skip
                assert pair.target.rows("SELECT count(*), count(DISTINCT id) FROM t") == [
                    (count, count)
                ]


class TestTypesThatDoNotFit:
    def test_are_listed_together_with_columns_without_a_counterpart(self, pair: Pair) -> None:
        pair.both("CREATE TYPE mood AS ENUM ('sad', 'glad')", "CREATE TYPE pair AS (a int, b text)")
        pair.source.run(
            "CREATE TABLE t (a text, b date, c jsonb, d pair, e int, only_here int, fits int)"
        )
        pair.target.run(
            "ALTER TYPE pair RENAME ATTRIBUTE b TO c",
            "CREATE TABLE t (a mood, b int, c point, d pair,"
            " e int GENERATED ALWAYS AS (1) STORED, only_there int, fits int)",
            "INSERT INTO t (b) VALUES (1)",
        )
        done = pair.cli("copy", *pair.ends, "--table", "public.t")
        assert done.returncode == 65
        lines = [line.removeprefix("penstock:").split() for line in done.stderr.splitlines()]
        none = "the types differ, and the source has no assignment cast between them"
        for expected in (
            "column source target why",
            "only_here integer - the target has no such column",
            "only_there - integer the source has no such column",
            f"a text public.mood {none}",
            f"b date integer {none}",
            f"c jsonb point {none}",
            "d public.pair public.pair the attributes differ: (a integer, b text), "
            "(a integer, c text)",
            "e integer integer the target computes this column",
        ):
            assert expected.split() in lines
        assert ["fits"] not in [line[:1] for line in lines]
        assert "to copy only the columns that fit: --columns fits; if" in done.stderr
        assert pair.target.count() == 1
        assert not pair.has_control_schema()

    def test_do_not_mention_names_if_all_columns_have_counterparts(self, pair: Pair) -> None:
        pair.source.run("CREATE TABLE t (a text, b bytea)")
        pair.target.run("CREATE TABLE t (a int, b text)")
        with pytest.raises(PlanningError) as caught:
            pair.plan()
        first, *lines = caught.value.message.splitlines()
        assert first.startswith("public.t does not fit into public.t in postgresql://")
        assert lines == [
            "  column  source  target   why",
            "  a       text    integer  the types differ, and the source has no assignment cast"
            " between them",
        ]
